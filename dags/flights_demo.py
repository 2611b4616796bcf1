"""Flights demo: one DAG from the first record to the drained query.

Departures arrive as JSON lines in a folder, written by somebody else while the query runs. The
DAG starts a continuous query on them, waits until epochs have committed, lets a plain task look
at exactly what is committed, prunes the checkpoint, waits until everything that arrived is
committed, compares once more, and drains the query::

    start → wait_for_epochs → compare → prune → everything_committed → compare_everything → drain

``start`` is idempotent: run the DAG twice at once, and the second run adopts the query of the
first. ``drain`` is a teardown: it runs even when ``compare`` fails, and the run still fails.

The folders are parameters of the DAG; their defaults lie below ``CONTINUOUS_DEMO_DIR``. To see
it alone: trigger it, then copy JSON lines into the input folder.
"""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_provider_continuous.operators.checkpoint import PruneCheckpointOperator
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor
from flights.query import DELAYED, SCHEMA

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
    "conf": {"spark.master": "local[1]"},
}


@dag(
    schedule=None,
    catchup=False,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={
        "input": Param(f"{FOLDER}/input", type="string", description="Folder of JSON lines"),
        "output": Param(f"{FOLDER}/output/flights", type="string", description="For Parquet"),
        "checkpoint": Param(f"{FOLDER}/checkpoints/flights", type="string"),
        "epochs": Param(5, type="integer", minimum=1, description="How many epochs to wait for"),
    },
)
def flights_demo() -> None:
    start = StartContinuousQueryOperator(
        task_id="start", spec=SPEC, timeout=180, on_kill_action="drain"
    )
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

    @task.sensor(poke_interval=1, timeout=300, mode="poke")
    def everything_committed(checkpoint: str, input_path: str) -> bool:
        """Wait until all has arrived and is committed."""
        from flights.arrival import everything_committed

        return everything_committed(checkpoint, input_path)

    prune = PruneCheckpointOperator(task_id="prune", checkpoint_location=CHECKPOINT, keep_epochs=3)
    drain = DrainContinuousQueryOperator(
        task_id="drain", checkpoint_location=CHECKPOINT, timeout=120
    )
    paths = (CHECKPOINT, "{{ params.output }}", "{{ params.input }}")
    compare_everything = compare.override(task_id="compare_everything")(*paths)
    complete = everything_committed(CHECKPOINT, "{{ params.input }}")
    compared = compare(*paths)
    # Not on_failure_fail_dagrun: the drain, which always runs, would then decide the run alone.
    teardown = drain.as_teardown(setups=start)
    start >> wait >> compared >> prune >> complete >> compare_everything >> teardown


flights_demo()
