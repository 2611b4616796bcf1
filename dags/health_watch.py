"""Health watch: somebody looks at a query all the time, and says so when it is ill.

Every ten minutes a sensor begins to watch, in the triggerer, until the next run takes over. It
fails when the query has failed or was lost, when no epoch has committed for half a minute, or when
records take longer than five seconds, and stays so for a minute. Then, and only then, ``alert``
runs: it collects what a person wants to know. The run itself fails too, for the lists of Airflow.

Put in place of ``alert`` whatever calls the person; the notifier of ``healthy`` may do it, too, if
it is given a webhook.
"""

from __future__ import annotations

import os
from datetime import timedelta

import pendulum
from airflow.sdk import Param, dag, task

from airflow_provider_continuous.errors import QueryEndedError
from airflow_provider_continuous.notifications.query import ContinuousQueryNotifier
from airflow_provider_continuous.sensors.health import QueryHealthSensor

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")
CHECKPOINT = "{{ params.checkpoint }}"


@dag(
    schedule="*/10 * * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=True,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={"checkpoint": Param(f"{FOLDER}/checkpoints/always-on", type="string")},
)
def health_watch() -> None:
    healthy = QueryHealthSensor(
        task_id="healthy",
        checkpoint_location=CHECKPOINT,
        stalled_after=timedelta(seconds=30),
        latency_max=timedelta(seconds=5),
        unhealthy_for=timedelta(minutes=1),
        watch_for=timedelta(minutes=9, seconds=50),
        timeout=timedelta(minutes=15),
        retries=0,
        on_failure_callback=ContinuousQueryNotifier(message="Somebody should look."),
    )

    @task(trigger_rule="one_failed")
    def alert(checkpoint: str) -> str:
        """Say what is wrong."""
        from airflow_provider_continuous.hooks.checkpoint import CheckpointHook

        status = CheckpointHook(checkpoint).status()
        return f"{checkpoint} is {status.state.value} at epoch {status.epoch}: {status.error}"

    @task
    def record(said: str) -> None:
        """Let the run fail: a run whose last task succeeds would count as a success."""
        raise QueryEndedError(said)

    said = alert(CHECKPOINT)
    healthy >> said
    record(said)  # type: ignore[arg-type]


health_watch()
