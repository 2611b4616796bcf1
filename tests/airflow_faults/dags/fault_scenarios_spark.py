"""The DAGs of the fault scenarios whose queries are real: a Spark each, in a process of its own."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider_continuous.operators.query import RunContinuousQueryOperator

SPEC = {
    "name": "numbers",
    "source": {"format": "rate", "options": {"rowsPerSecond": "50", "numPartitions": "1"}},
    "sql": "SELECT value FROM source",
    "sink": {"format": "noop"},
    "trigger": {"continuous": "500 milliseconds"},
    "checkpoint_location": "{{ params.checkpoint }}",
    "conf": {"spark.master": "local[1]", "spark.ui.enabled": "false"},
}

with DAG(
    "supervise_spark",
    schedule=None,
    catchup=False,
    default_args={"retries": 2, "retry_delay": 1},
    params={"checkpoint": Param("", type="string")},
):
    RunContinuousQueryOperator(task_id="run", spec=SPEC, restart_delay=1)
