"""DAGs of sensors that begin in the triggerer, of offsets, of health, and of epochs as events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_provider_continuous.assets.events import committed_epochs
from airflow_provider_continuous.assets.uris import query_asset
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor
from airflow_provider_continuous.sensors.health import QueryHealthSensor
from airflow_provider_continuous.sensors.offsets import OffsetsCommittedSensor

CHECKPOINT = "{{ params.checkpoint }}"
PARAMS = {"checkpoint": Param("", type="string"), "folder": Param("", type="string")}

with DAG("wait_without_a_worker", schedule=None, params=PARAMS):
    EpochCommittedSensor(
        task_id="wait",
        checkpoint_location=CHECKPOINT,
        epoch="{{ 1 + 1 }}",
        start_from_trigger=True,
        timeout=240,
    )

    OffsetsCommittedSensor(
        task_id="offsets",
        checkpoint_location=CHECKPOINT,
        offsets={"0": 30},
        start_from_trigger=True,
        timeout=240,
    )

with DAG("wait_for_what_is_there", schedule=None, params=PARAMS):
    OffsetsCommittedSensor(
        task_id="all_in",
        checkpoint_location=CHECKPOINT,
        offsets="latest",
        source={"format": "tail", "options": {"path": "{{ params.folder }}"}},
        timeout=240,
    )

with DAG("wait_until_healthy", schedule=None, params=PARAMS):
    QueryHealthSensor(
        task_id="healthy", checkpoint_location=CHECKPOINT, stalled_after=60, timeout=240
    )

with DAG("keep_up_without_a_worker", schedule=None, params={**PARAMS, "topic": ""}):
    QueryHealthSensor(
        task_id="keeps_up",
        checkpoint_location=CHECKPOINT,
        lag_max=0,
        source={
            "format": "kafka",
            "connection": "kafka_plain",
            "options": {"subscribe": "{{ params.topic }}"},
        },
        start_from_trigger=True,
        timeout=240,
    )

orders = query_asset(
    str(Path(__file__).parents[1] / "watched"),
    name="watched",
    every=1,
    from_epoch=0,
    poll_interval_s=0.2,
)

with DAG("follow_epochs", schedule=[orders], max_active_runs=1):

    @task(inlets=[orders], retries=5, retry_delay=1)
    def follow(**context: Any) -> list[dict[str, Any]]:
        return committed_epochs(context, orders)  # type: ignore[arg-type]

    follow()
