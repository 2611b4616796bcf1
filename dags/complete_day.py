"""A complete day: a batch task that begins when all of a day is in, by event time.

A query counts by windows, with ``withWatermark("at", "10 minutes")``. Every day, wait until its
watermark is at the end of the day: then the windows of that day are closed, their rows are
committed, and nothing that still comes changes them. The batch task reads the day and gets the
same answer whenever it runs again.

The sensor waits in the triggerer and holds no worker. A watermark moves when records come, so the
day after has to have begun; ``timeout`` says how long the day may be late.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_provider_continuous.sensors.watermark import WatermarkSensor

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")


@dag(
    schedule="@daily",
    catchup=False,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={"checkpoint": Param(f"{FOLDER}/checkpoint", type="string")},
)
def complete_day() -> None:
    complete = WatermarkSensor(
        task_id="complete",
        checkpoint_location="{{ params.checkpoint }}",
        at="{{ data_interval_end or ts }}",
        timeout=timedelta(hours=6),
    )

    @task
    def report(day: dict[str, Any]) -> str:
        """Stands for the batch work over the day."""
        return f"Complete up to {day['watermark']}, as of epoch {day['epoch']}"

    report(complete.output)  # type: ignore[arg-type]


complete_day()
