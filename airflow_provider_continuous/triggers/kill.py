"""KillableTrigger: a trigger that can end its task's query when the task is killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import TriggerEvent

from airflow_provider_continuous.compat import conf
from airflow_provider_continuous.killing import KillAction, QueryOfTask, TaskIdentity
from airflow_provider_continuous.triggers.base import CheckpointTrigger, Event
from airflow_provider_continuous.triggers.poller import OneLook


class KillableTrigger(CheckpointTrigger):
    """To be put before a trigger's class.

    :param run_id: the run that the task watches; None: nothing is ever ended.
    :param on_kill_action: what to ask of it when somebody ends the deferred task.
    """

    def __init__(
        self,
        *args: Any,
        run_id: str | None = None,
        on_kill_action: KillAction = "detach",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.run_id = run_id
        self.on_kill_action = on_kill_action
        self._fired = False
        self._looked_at = self._back_at = 0.0

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        return {
            **super().arguments(),
            "run_id": self.run_id,
            "on_kill_action": self.on_kill_action,
        }

    def observe(self, shared: OneLook | None = None) -> Event | None:
        """Look once, and notice when this process was suspended since the last look."""
        now = time.time()
        if self._looked_at and now - self._looked_at > self._silence_max_s():
            self._back_at = now
        event = super().observe(shared)
        self._looked_at = time.time()
        return event

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the one event that ends the wait."""
        async for event in super().run():
            self._fired = True
            yield event

    async def on_kill(self) -> None:
        """End the query, if somebody has ended the task indeed. See :mod:`..killing`."""
        if self.on_kill_action == "detach" or self.run_id is None:
            return
        doubt = self._doubt()
        if doubt:
            self.log.info("Killed, and run %s goes on: %s", self.run_id, doubt)
            return
        query = QueryOfTask(
            self.on_kill_action,
            self.own_hook,
            self.run_id,
            TaskIdentity.of(self.task_instance),
            self.log,
        )
        await asyncio.to_thread(query.end)

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
