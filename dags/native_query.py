"""Native query: the same steps for a query that Spark's own engine runs, in micro-batches.

Only the trigger differs from the specification of a continuous query. The checkpoint is Spark's
own; its batches are the epochs. The same sensors wait for a batch and watch the query's health, the
same operators prune its checkpoint and drain it: the running batch is committed, and none follows.
"""

from __future__ import annotations

import os

from airflow.sdk import Param, dag

from airflow_provider_continuous.operators.checkpoint import PruneCheckpointOperator
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor
from airflow_provider_continuous.sensors.health import QueryHealthSensor

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")
MASTER = os.environ.get("CONTINUOUS_DEMO_MASTER", "local[1]")
CHECKPOINT = "{{ params.checkpoint }}"

SPEC = {
    "name": "native",
    "source": {"format": "rate", "options": {"rowsPerSecond": "20", "numPartitions": "1"}},
    "sql": "SELECT timestamp, value FROM source WHERE value % 2 = 0",
    "sink": {"format": "parquet", "options": {"path": "{{ params.output }}"}},
    "trigger": {"processingTime": "1 second"},
    "checkpoint_location": CHECKPOINT,
    "conf": {"spark.master": "{{ params.master }}"},
}


@dag(
    schedule=None,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={
        "output": Param(f"{FOLDER}/output/native", type="string"),
        "checkpoint": Param(f"{FOLDER}/checkpoints/native", type="string"),
        "master": Param(MASTER, type="string", description="Where the query runs"),
    },
)
def native_query() -> None:
    start = StartContinuousQueryOperator(
        task_id="start", spec=SPEC, timeout=180, on_kill_action="drain"
    )
    healthy = QueryHealthSensor(task_id="healthy", checkpoint_location=CHECKPOINT, timeout=120)
    wait = EpochCommittedSensor(
        task_id="wait", checkpoint_location=CHECKPOINT, epochs_from_now=2, timeout=120
    )
    prune = PruneCheckpointOperator(task_id="prune", checkpoint_location=CHECKPOINT, keep_epochs=2)
    drain = DrainContinuousQueryOperator(task_id="drain", checkpoint_location=CHECKPOINT)
    start >> healthy >> wait >> prune >> drain.as_teardown(setups=start)


native_query()
