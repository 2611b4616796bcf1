"""Wait for an epoch: a batch task that starts from an exact, committed point of a query.

Every hour, wait until the query has committed two more epochs: the one that was open when the
run began, and one that began after it. Whatever had arrived by then is committed, and the
sensor's result names the point: the sources' offsets at the end of that epoch. The batch task
works up to there, and running it again gives the same answer, however far the query has come.

The sensor waits in the triggerer and holds no worker. It fails at once when the query has ended;
with ``wait_for_restart=True`` it waits until somebody has started it again.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")


@dag(
    schedule="@hourly",
    catchup=False,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={"checkpoint": Param(f"{FOLDER}/checkpoints/flights", type="string")},
)
def wait_for_epoch() -> None:
    committed = EpochCommittedSensor(
        task_id="committed",
        checkpoint_location="{{ params.checkpoint }}",
        epochs_from_now=2,
        timeout=timedelta(minutes=10),
    )

    @task
    def report(point: dict[str, Any]) -> str:
        """Stands for the batch work: everything before ``point["offsets"]`` is complete."""
        return f"Complete up to {point['offsets']}, committed at {point['committed_at']}"

    report(committed.output)  # type: ignore[arg-type]


wait_for_epoch()
