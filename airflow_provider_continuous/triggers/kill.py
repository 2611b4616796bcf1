"""KillableTrigger: stays with the query that its task has started: shows the driver's log, and can
end the query when the task is killed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_provider_continuous.compat import conf
from airflow_provider_continuous.deploy.driver_log import DriverLog
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL, StorageHangsError
from airflow_provider_continuous.tasks.killing import (
    EndsWithTask,
    KillAction,
    QueryOfTask,
    TaskIdentity,
    insist,
)
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.poller import Event, OneLook
from engine.errors import ContinuousError

LOG_EVERY_S = 10.0
"""The driver's log is looked at so often: each look shows a limited piece of it."""
ON_KILL_S = 25.0
"""A triggerer waits for 30 seconds; what is under way by then goes on in its thread."""


class KillableTrigger(CheckpointTrigger):
    """To be put before a trigger's class.

    :param run_id: the run that the task watches; None: nothing is ever ended.
    :param on_kill_action: what to ask of it when somebody ends the deferred task.
    :param log_path: the log of the run's driver, whose new lines go to the task's log as long as
        the file is on this machine; None: nobody knows it.
    :param log_position: the byte to begin at.
    """

    def __init__(
        self,
        *args: Any,
        run_id: str | None = None,
        on_kill_action: KillAction = "detach",
        log_path: str | None = None,
        log_position: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.run_id = run_id
        self.on_kill_action = on_kill_action
        self._driver_log = None if log_path is None else DriverLog(Path(log_path), log_position)
        self.log_path = log_path
        self._log_read_at = 0.0
        self._fired = False
        self._looked_at = self._back_at = 0.0

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        return {
            **super().arguments(),
            "run_id": self.run_id,
            "on_kill_action": self.on_kill_action,
            "log_path": self.log_path,
            "log_position": self.log_position,
        }

    @property
    def log_position(self) -> int:
        """Where the driver's log was read to."""
        return 0 if self._driver_log is None else self._driver_log.position

    def observe(self, shared: OneLook | None = None) -> Event | None:
        """Look once, and notice when this process was suspended since the last look."""
        now = time.time()
        if self._looked_at and now - self._looked_at > self._silence_max_s():
            self._back_at = now
        event = super().observe(shared)
        self._looked_at = time.time()
        if event is not None or now - self._log_read_at >= LOG_EVERY_S:
            self._log_read_at = now
            self._show_log(ended=event is not None)
        return self._about(event)

    def missed(self, error: ContinuousError) -> Event | None:
        """Bear that a look has not come back: it is the storage that is away, not this process."""
        self._looked_at = time.time()
        return self._about(super().missed(error))

    def _about(self, event: Event | None) -> Event | None:
        """Every event tells how far the driver's log was shown."""
        return None if event is None else {**event, "log_position": self.log_position}

    def _show_log(self, ended: bool) -> None:
        lines = [] if self._driver_log is None else self._driver_log.new_lines(ended=ended)
        for line in lines:
            self.log.info("%s", line)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the one event that ends the wait."""
        async for event in super().run():
            self._fired = True
            yield event

    async def on_kill(self) -> None:
        """End the query, if somebody has ended the task indeed. See :mod:`..tasks.killing`."""
        if self.on_kill_action == "detach" or not self.watches:
            return
        doubt = self._doubt()
        if doubt:
            self.log.info("Killed, and %s goes on: %s", self.watches, doubt)
            return
        task = TaskIdentity.of(self.task_instance)

        def end() -> bool:
            return self.watched(task).end()

        place = place_of(self.checkpoint_location)
        try:
            await POOL.soon(place, lambda: insist(end, self.log), ON_KILL_S)
        except StorageHangsError as error:
            self.log.warning("Killed, and whether %s ends is open: %s", self.watches, error)

    @property
    def watches(self) -> str:
        """What is ended with the task, for the log; empty: nothing."""
        return "" if self.run_id is None else f"run {self.run_id}"

    def watched(self, task: TaskIdentity) -> EndsWithTask:
        """Return what is ended with the task."""
        assert self.run_id is not None, "it watches nothing"
        return QueryOfTask(self.on_kill_action, self.own_hook, self.run_id, task, self.log)

    def _doubt(self) -> str | None:
        if self._fired:
            return "the wait was over already"
        if self.task_instance is None:
            return "the trigger belongs to no task"
        silence_max_s, now = self._silence_max_s(), time.time()
        if now - max(self._looked_at, self._back_at) > silence_max_s or (
            self._back_at and now - self._back_at < silence_max_s
        ):
            return "this triggerer was away, and another one may have taken the trigger over"
        return None

    def _silence_max_s(self) -> float:
        """A triggerer that is silent for so long loses its triggers to another one."""
        threshold = conf.getfloat("triggerer", "triggerer_health_check_threshold")
        return max(threshold, 2 * self.poll_interval_s)
