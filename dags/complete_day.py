"""A complete day: a batch task that begins when all of a day is in, by event time.

A query counts readings by hour and sensor, with a watermark of ten minutes::

    start → complete → compare → drain

Every day, wait until its watermark is at the end of the day: then the windows of that day are
closed, their rows are committed, and nothing that still comes changes them. The batch task reads
the day's input anew, and gets what the query has written, to the row, whenever it runs again.

The sensor waits in the triggerer and holds no worker. A watermark moves when records come, so the
day after has to have begun; ``timeout`` says how long the day may be late. A query that runs
already is not started twice, and the drain at the end is only there to leave nothing behind.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.watermark import WatermarkSensor

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")
CHECKPOINT = "{{ params.checkpoint }}"
END = "{{ params.until or data_interval_end or ts }}"

SPEC = {
    "name": "readings-by-hour",
    "source": {
        "format": "json",
        "options": {"path": "{{ params.input }}"},
        "schema": "at TIMESTAMP, sensor STRING, value BIGINT",
        "watermark": {"column": "at", "delay": "10 minutes"},
    },
    "sql": """
        SELECT window.start AS hour, sensor, count(*) AS readings, sum(value) AS total
        FROM source GROUP BY window(at, '1 hour'), sensor
    """,
    "sink": {"format": "parquet", "options": {"path": "{{ params.output }}"}},
    "trigger": {"continuous": "1 second"},
    "checkpoint_location": CHECKPOINT,
    "conf": {"spark.master": "local[2]", "spark.sql.session.timeZone": "UTC"},
}


@dag(
    schedule="@daily",
    catchup=False,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={
        "input": Param(f"{FOLDER}/readings", type="string", description="Folder of JSON files"),
        "output": Param(f"{FOLDER}/output/readings", type="string", description="For Parquet"),
        "checkpoint": Param(f"{FOLDER}/checkpoints/readings", type="string"),
        "until": Param("", type="string", description="End of the day; else the interval's"),
    },
)
def complete_day() -> None:
    start = StartContinuousQueryOperator(
        task_id="start", spec=SPEC, timeout=180, on_kill_action="drain"
    )
    complete = WatermarkSensor(
        task_id="complete",
        checkpoint_location=CHECKPOINT,
        at=END,
        timeout=timedelta(hours=6),
    )

    @task
    def compare(day: dict[str, Any], end: str, input_path: str, output_path: str) -> dict[str, Any]:
        """Stands for the batch work over the day."""
        from readings.batch import compare_day

        until = datetime.fromisoformat(end.replace("Z", "+00:00"))
        return compare_day(input_path, output_path, day["epoch"], until)

    compared = compare(
        complete.output,  # type: ignore[arg-type]
        END,
        "{{ params.input }}",
        "{{ params.output }}",
    )
    drain = DrainContinuousQueryOperator(
        task_id="drain", checkpoint_location=CHECKPOINT, timeout=120
    )
    start >> complete >> compared >> drain.as_teardown(setups=start)


complete_day()
