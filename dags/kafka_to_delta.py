"""Kafka to Kafka to Delta: two continuous queries, one behind the other, each row exactly once.

``start_delays`` reads departures of a topic and writes the delayed ones to another, in a
transaction per epoch; ``start_table`` makes those rows of a Delta table. Then the DAG waits until
all that has arrived is in the table, and compares every row with the same query in batch::

    start_delays → start_table → arrived → all_delays → all_rows → compare → both are drained

All of Kafka comes by the connection ``flights_kafka``: no address and no password stand here. The
folders below ``CONTINUOUS_DEMO_DIR`` and the topics are parameters. To see it alone: make the
connection and both topics, trigger it, and run ``python -m flights.feed_kafka``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.offsets import OffsetsCommittedSensor
from flights.query import DELAYED_RECORDS, DELAYED_ROWS

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")
KAFKA = {"format": "kafka", "connection": "flights_kafka"}
DEPARTURES = {
    **KAFKA,
    "options": {"subscribe": "{{ params.departures }}", "startingOffsets": "earliest"},
}
DELAYS = {**KAFKA, "options": {"subscribe": "{{ params.delays }}", "startingOffsets": "earliest"}}
TABLE = "{{ params.folder }}/table"
DELAYS_CHECKPOINT = "{{ params.folder }}/checkpoints/delays"
TABLE_CHECKPOINT = "{{ params.folder }}/checkpoints/table"


def query(name: str, checkpoint: str, **parts: Any) -> dict[str, Any]:
    """A query that both are like."""
    return {
        "name": name,
        **parts,
        "trigger": {"continuous": "1 second"},
        "checkpoint_location": checkpoint,
        "conf": {"spark.master": os.environ.get("CONTINUOUS_DEMO_MASTER", "local[1]")},
    }


@dag(
    schedule=None,
    catchup=False,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={
        "folder": Param(FOLDER, type="string", description="Table and checkpoints"),
        "departures": Param("departures", type="string", description="Topic"),
        "delays": Param("delays", type="string", description="Topic"),
        "done": Param(f"{FOLDER}/_SUCCESS", type="string", description="All has been sent"),
    },
)
def kafka_to_delta() -> None:
    start_delays = StartContinuousQueryOperator(
        task_id="start_delays",
        spec=query(
            "delays",
            DELAYS_CHECKPOINT,
            source=DEPARTURES,
            sql=DELAYED_RECORDS,
            sink={
                **KAFKA,
                "options": {"topic": "{{ params.delays }}", "delivery": "exactly-once"},
            },
        ),
        timeout=600,
        on_kill_action="drain",
    )
    start_table = StartContinuousQueryOperator(
        task_id="start_table",
        spec=query(
            "table",
            TABLE_CHECKPOINT,
            source=DELAYS,
            sql=DELAYED_ROWS,
            sink={"format": "delta", "options": {"path": TABLE}},
        ),
        timeout=600,
        on_kill_action="drain",
    )

    @task.sensor(poke_interval=1, timeout=600, mode="poke")
    def arrived(done: str) -> bool:
        """Wait until whoever sends departures has said that it is all."""
        return Path(done).exists()

    all_delays = OffsetsCommittedSensor(
        task_id="all_delays",
        checkpoint_location=DELAYS_CHECKPOINT,
        offsets="latest",
        source=DEPARTURES,
        timeout=300,
    )
    all_rows = OffsetsCommittedSensor(
        task_id="all_rows",
        checkpoint_location=TABLE_CHECKPOINT,
        offsets="latest",
        source=DELAYS,
        timeout=300,
    )

    @task
    def compare(table: str) -> dict[str, Any]:
        """Run the same query in batch over all departures, and compare row for row."""
        from flights.compare import compare_table

        return compare_table(table)

    drains = [
        DrainContinuousQueryOperator(
            task_id=f"drain_{name}", checkpoint_location=checkpoint, timeout=120
        ).as_teardown(setups=start)
        for name, checkpoint, start in (
            ("delays", DELAYS_CHECKPOINT, start_delays),
            ("table", TABLE_CHECKPOINT, start_table),
        )
    ]
    sent, compared = arrived("{{ params.done }}"), compare(TABLE)
    start_delays >> start_table >> sent >> all_delays >> all_rows >> compared >> drains


kafka_to_delta()
