"""Wait for a submission, which may be queued on its cluster for long, without a worker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.deployment import Deployment
from airflow_provider_continuous.deploy.settings import settings_of
from airflow_provider_continuous.deploy.submission import log_dir_of
from airflow_provider_continuous.tasks.killing import EndsWithTask, StartOfTask, TaskIdentity
from airflow_provider_continuous.triggers.base import status_event
from airflow_provider_continuous.triggers.kill import KillableTrigger
from airflow_provider_continuous.triggers.poller import Event
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.errors import ConfigError

DRIVER_EVERY_S = 5.0
"""The driver is looked at so often: a cluster is asked each time."""


class SubmissionTrigger(KillableTrigger):
    """Ends with ``moved`` when a run has taken the checkpoint, or the driver has ended; what that
    means is decided by the task.

    :param number: of the submission, as its note has it.
    :param previous_run_id: the run that held the checkpoint before it.
    :param continuous_conn_id: the connection that leads to the driver, with ``spark_submit``.
    """

    wanted = "the start"

    def __init__(
        self,
        *args: Any,
        number: int,
        previous_run_id: str | None,
        continuous_conn_id: str,
        spark_submit: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.number = number
        self.previous_run_id = previous_run_id
        self.continuous_conn_id = continuous_conn_id
        self.spark_submit = spark_submit
        self._driver_seen_at = 0.0

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        return {
            **super().arguments(),
            "number": self.number,
            "previous_run_id": self.previous_run_id,
            "continuous_conn_id": self.continuous_conn_id,
            "spark_submit": self.spark_submit,
        }

    def look(self) -> Event | None:
        """Look once."""
        status = self.hook.status()
        if self._has_its_run(status) or self._has_ended():
            return status_event("moved", status)
        return None

    def _about(self, event: Event | None) -> Event | None:
        """Every event tells which submission it is, too."""
        told = super()._about(event)
        return None if told is None else {**told, "number": self.number}

    @property
    def watches(self) -> str:
        """What is ended with the task, for the log."""
        return f"submission {self.number}"

    def watched(self, task: TaskIdentity) -> EndsWithTask:
        """Return what is ended with the task."""
        submitted = self._deployment.submission(self.number)
        if submitted is None:
            raise ConfigError(f"Submission {self.number} is not noted any more.")
        return StartOfTask(self.on_kill_action, self.own_hook, submitted, task, self.log)

    def _has_its_run(self, status: CheckpointStatus) -> bool:
        if status.run_id in (None, self.previous_run_id):
            return False
        submitted = self._deployment.submission(self.number)
        return submitted is None or submitted.runs(status)

    def _has_ended(self) -> bool:
        if time.monotonic() - self._driver_seen_at < DRIVER_EVERY_S:
            return False
        self._driver_seen_at = time.monotonic()
        submitted = self._deployment.submission(self.number)
        return submitted is None or submitted.look().state is DriverState.ENDED

    def _open_again(self) -> None:
        super()._open_again()
        if "own_hook" not in vars(self):
            vars(self).pop("_deployment", None)

    @cached_property
    def _deployment(self) -> Deployment:
        settings = settings_of(self.continuous_conn_id).with_more(None, None, self.spark_submit)
        hook = self.own_hook
        log_dir = log_dir_of(settings, hook.location.url)
        return Deployment(self.checkpoint_location, hook.checkpoint, settings, log_dir, self.log)
