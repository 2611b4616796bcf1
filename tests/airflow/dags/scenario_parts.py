"""What the DAG files of the tests share. It has no DAG: Airflow would give it to each file that
imports this one, and the last one parsed would win."""

from __future__ import annotations

from airflow.sdk import DAG, Param

CHECKPOINT = "{{ params.checkpoint }}"


def scenario(name: str) -> DAG:
    return DAG(
        name,
        schedule=None,
        catchup=False,
        default_args={"retries": 2, "retry_delay": 1},
        params={
            "checkpoint": Param("", type="string"),
            "epoch": Param("0", type=["string", "integer"]),
        },
    )


SPEC = {
    "name": "numbers",
    "source": {"format": "rate", "options": {"rowsPerSecond": "50", "numPartitions": "1"}},
    "sql": "SELECT value FROM source WHERE value % 2 = 0",
    "sink": {"format": "noop"},
    "trigger": {"continuous": "500 milliseconds"},
    "checkpoint_location": CHECKPOINT,
    "conf": {"spark.master": "local[1]", "spark.ui.enabled": "false"},
}
