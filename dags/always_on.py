"""Always on: a query that runs until somebody ends it, and a DAG that looks after it.

``schedule="@continuous"`` starts the next run as soon as one has ended. The task starts the query,
or adopts the one that runs, and stays with it in the triggerer, without a worker slot. If the
query's process dies, it is started again and goes on from its checkpoint; if that does not help,
the task fails with the query's own error, and after three such runs Airflow stops trying.

A run lasts for a day, then leaves the query running to the next one, which looks after it from then
on: history stays in pieces.

To pause the DAG does not end the query: it runs on, and nobody looks after it. One that dies stays
down, for Airflow resumes no task of a DAG that is paused, until the DAG is unpaused. To end the
query, pause the DAG and mark the task as successful: the query is drained.
"""

from __future__ import annotations

import os
from datetime import timedelta

import pendulum
from airflow.sdk import Param, dag

from airflow_provider_continuous.operators.query import RunContinuousQueryOperator

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")

SPEC = {
    "name": "always-on",
    "source": {"format": "rate", "options": {"rowsPerSecond": "20", "numPartitions": "1"}},
    "sql": "SELECT timestamp, value FROM source WHERE value % 2 = 0",
    "sink": {"format": "parquet", "options": {"path": "{{ params.output }}"}},
    "trigger": {"continuous": "1 second"},
    "checkpoint_location": "{{ params.checkpoint }}",
    "conf": {"spark.master": os.environ.get("CONTINUOUS_DEMO_MASTER", "local[1]")},
}


@dag(
    schedule="@continuous",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    max_active_runs=1,
    max_consecutive_failed_dag_runs=3,
    is_paused_upon_creation=True,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={
        "output": Param(f"{FOLDER}/output/always-on", type="string"),
        "checkpoint": Param(f"{FOLDER}/checkpoints/always-on", type="string"),
    },
)
def always_on() -> None:
    RunContinuousQueryOperator(
        task_id="run", spec=SPEC, run_for=timedelta(days=1), at_end="detach", restart_delay=1.0
    )


always_on()
