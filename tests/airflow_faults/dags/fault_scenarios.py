"""The DAGs of the fault scenarios; the checkpoint comes with each run.

Their queries run in real processes, but in the stand-in for Spark, except for the DAGs whose name
ends in ``spark``.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_provider_continuous import deferral
from airflow_provider_continuous.assets.events import committed_epochs
from airflow_provider_continuous.assets.uris import query_asset
from airflow_provider_continuous.deploy import submission
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
    base,
)
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor

submission.ENGINE = (sys.executable, os.environ["AIRFLOW_FAULTS_ENGINE"])  # type: ignore[assignment]
# What is tested is what happens to deferred tasks: they defer as soon as they can.
deferral.LINGER_S = 0.0

CHECKPOINT = "{{ params.checkpoint }}"
SPEC = {
    "name": "numbers",
    "source": {"format": "rate", "options": {"rowsPerSecond": "50"}},
    "sql": "SELECT value FROM source",
    "sink": {"format": "noop"},
    "trigger": {"continuous": "500 milliseconds"},
    "checkpoint_location": CHECKPOINT,
    "conf": {"gate": "{{ params.gate }}", "lease_gate": "{{ params.lease_gate }}"},
}
PARAMS = ("checkpoint", "lease_gate", "gate", "epoch")
WAITING: dict[str, Any] = {"wait_for": "{{ params.epoch }}", "timeout": 300}


def scenario(name: str) -> DAG:
    return DAG(
        name,
        schedule=None,
        catchup=False,
        default_args={"retries": 2, "retry_delay": 1},
        params={name: Param("", type="string") for name in PARAMS},
    )


with scenario("start_deferred"):
    StartContinuousQueryOperator(task_id="start", spec=SPEC, **WAITING)

with scenario("start_attended"):
    StartContinuousQueryOperator(task_id="start", spec=SPEC, deferrable=False, **WAITING)

with scenario("start_once"):
    StartContinuousQueryOperator(task_id="start", spec=SPEC, retries=0, **WAITING)

with scenario("start_changed"):
    StartContinuousQueryOperator(
        task_id="start", spec={**SPEC, "sql": "SELECT value + 1 AS value FROM source"}, **WAITING
    )


class QueuedStartOperator(StartContinuousQueryOperator):
    """Does not linger for what it has submitted."""

    def execute(self, context: Any) -> dict[str, Any]:
        base.START_LINGER_S = 0.0
        return super().execute(context)


with scenario("start_queued"):
    QueuedStartOperator(task_id="start", spec=SPEC, on_kill_action="drain", **WAITING)

with scenario("use_and_drain"):
    used = StartContinuousQueryOperator(task_id="start", spec=SPEC, timeout=300)
    committed = EpochCommittedSensor(
        task_id="wait",
        checkpoint_location=CHECKPOINT,
        epoch="{{ params.epoch }}",
        timeout=300,
        deferrable=True,
    )
    (
        used
        >> committed
        >> DrainContinuousQueryOperator(task_id="drain", checkpoint_location=CHECKPOINT)
    )

with scenario("supervise"):
    RunContinuousQueryOperator(task_id="run", spec=SPEC, restart_delay=1)

with scenario("supervise_with_standby"):
    RunContinuousQueryOperator(task_id="run", spec=SPEC, restart_delay=1, standby=True)

with scenario("supervise_attended"):
    RunContinuousQueryOperator(task_id="run", spec=SPEC, restart_delay=1, deferrable=False)

with scenario("many_wait"):

    @task
    def epochs(epoch: str) -> list[str]:
        return [epoch] * int(os.environ["AIRFLOW_FAULTS_SENSORS"])

    EpochCommittedSensor.partial(
        task_id="wait", checkpoint_location=CHECKPOINT, timeout=300
    ).expand(epoch=epochs("{{ params.epoch }}"))

followed = query_asset(
    f"{os.environ['AIRFLOW_FAULTS_FOLDER']}/followed",
    name="followed",
    every=1,
    from_epoch=0,
    poll_interval_s=0.2,
)

with DAG("follow", schedule=[followed], catchup=False, max_active_runs=1):

    @task(inlets=[followed], retries=5, retry_delay=1)
    def told(**context: Any) -> list[int]:
        return [each["epoch"] for each in committed_epochs(context, followed)]  # type: ignore[arg-type]

    told()
