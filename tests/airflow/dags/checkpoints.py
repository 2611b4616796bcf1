"""Looking after checkpoints; the page docs/airflow/checkpoints.md shows this DAG."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_provider_continuous.operators.checkpoint import (
    CopyCheckpointOperator,
    InspectCheckpointOperator,
    PinEpochOperator,
    PruneCheckpointOperator,
    RewindCheckpointOperator,
    UnpinEpochOperator,
)

CHECKPOINT = "{{ params.checkpoint }}"

with DAG(
    "look_after_checkpoints",
    schedule=None,
    params={
        "checkpoint": Param("", type="string"),
        "night": Param("", type="string"),
        "shadow": Param("", type="string"),
    },
):
    inspect = InspectCheckpointOperator(
        task_id="inspect", checkpoint_location=CHECKPOINT, fail_on_problems=True
    )
    pin = PinEpochOperator(
        task_id="pin", checkpoint_location=CHECKPOINT, name="nightly-{{ params.night }}"
    )
    prune = PruneCheckpointOperator(
        task_id="prune",
        checkpoint_location=CHECKPOINT,
        keep_epochs=2,
        compact_sink=True,
        remove_orphans=True,
        orphans_older_than=timedelta(days=2),
    )
    shadow = CopyCheckpointOperator(
        task_id="shadow",
        checkpoint_location=CHECKPOINT,
        target_location="{{ params.shadow }}",
        to_epoch="{{ ti.xcom_pull('inspect')['status']['epoch'] }}",
    )
    inspect >> pin >> prune >> shadow

with DAG(
    "prune_each",
    schedule=None,
    params={"checkpoints": Param([], type="array")},
):

    @task
    def checkpoints(**context: Any) -> list[str]:
        return list(context["params"]["checkpoints"])

    PruneCheckpointOperator.partial(task_id="prune", keep_epochs=2).expand(
        checkpoint_location=checkpoints()
    )

with DAG(
    "go_back",
    schedule=None,
    params={"checkpoint": Param("", type="string"), "pin": Param("", type="string")},
):
    rewind = RewindCheckpointOperator(
        task_id="rewind", checkpoint_location=CHECKPOINT, to_pin="{{ params.pin }}"
    )
    unpin = UnpinEpochOperator(
        task_id="unpin", checkpoint_location=CHECKPOINT, name="{{ params.pin }}"
    )
    rewind >> unpin
