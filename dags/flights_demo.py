"""Flights demo: one DAG from the first record to the drained query.

Departures arrive as JSON lines in a folder, written by somebody else while the query runs. The
DAG starts a continuous query on them, waits until epochs have committed, lets a plain task look
at exactly what is committed, prunes the checkpoint, and drains the query::

    start  →  wait_for_epochs  →  compare  →  prune  →  drain

``start`` is idempotent: run the DAG twice at once, and the second run adopts the query of the
first. ``drain`` is a teardown: it runs even when ``compare`` fails, and the run still fails.

The folders are parameters of the DAG; their defaults lie below ``CONTINUOUS_DEMO_DIR``. To see
it alone: trigger it, then copy JSON lines into the input folder.
"""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import Param, dag, task
from flights.query import DELAYED, SCHEMA

from airflow_provider_continuous.operators.checkpoint import PruneCheckpointOperator
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")
CHECKPOINT = "{{ params.checkpoint }}"

SPEC = {
    "name": "flights-delayed",
    "source": {
        "format": "tail",
        "options": {"path": "{{ params.input }}", "fileFormat": "json"},
        "schema": SCHEMA,
    },
    "sql": DELAYED,
    "sink": {"format": "parquet", "options": {"path": "{{ params.output }}"}},
    "trigger": {"continuous": "1 second"},
    "checkpoint_location": CHECKPOINT,
}


@dag(
    schedule=None,
    catchup=False,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={
        "input": Param(f"{FOLDER}/input", type="string", description="Folder of JSON lines"),
        "output": Param(f"{FOLDER}/output", type="string", description="Folder for Parquet"),
        "checkpoint": Param(f"{FOLDER}/checkpoint", type="string"),
        "epochs": Param(5, type="integer", minimum=1, description="How many epochs to wait for"),
    },
)
def flights_demo() -> None:
    start = StartContinuousQueryOperator(task_id="start", spec=SPEC, timeout=180)
    wait = EpochCommittedSensor(
        task_id="wait_for_epochs",
        checkpoint_location=CHECKPOINT,
        epochs_from_now="{{ params.epochs }}",
        timeout=120,
    )

    @task
    def compare(checkpoint: str, output_path: str, input_path: str) -> dict[str, Any]:
        """Run the same query in batch over the same input prefix, and compare row for row."""
        from flights.compare import compare_committed

        return compare_committed(checkpoint, output_path, input_path)

    prune = PruneCheckpointOperator(task_id="prune", checkpoint_location=CHECKPOINT, keep_epochs=3)
    drain = DrainContinuousQueryOperator(
        task_id="drain", checkpoint_location=CHECKPOINT, timeout=120
    )
    compared = compare(CHECKPOINT, "{{ params.output }}", "{{ params.input }}")
    # Not on_failure_fail_dagrun: the drain, which always runs, would then decide the run alone.
    start >> wait >> compared >> prune >> drain.as_teardown(setups=start)


flights_demo()
