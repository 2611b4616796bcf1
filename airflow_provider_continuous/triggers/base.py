"""CheckpointTrigger: look at a checkpoint until it shows what a task waits for.

The same object waits in a triggerer (``run``) and in a worker (``wait``), so a deferred task and
one that holds its slot decide by the same rule. Everything the task must know travels in the
event's payload, and its deadline in the trigger: Airflow does not hand back what a task deferred
with in every case, and its own deferral timeout bypasses the task.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from abc import abstractmethod
from collections.abc import AsyncIterator
from functools import cached_property
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_continuous.errors import is_final
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.publishing import publish
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.errors import ContinuousError

UNREACHABLE_MAX_S = 60.0
"""How long storage may be out of reach before the wait fails, and Airflow retries the task."""

Event = dict[str, Any]
"""``outcome`` and what belongs to it: ``committed``, ``running``, ``ended``, ``timeout``,
``error``. JSON values only."""


class CheckpointTrigger(BaseTrigger):
    """Waits for something that a checkpoint will show.

    Nothing is cancelled when the waiting task is killed: a query outlives those who watch it.

    :param checkpoint_location: as for :class:`CheckpointHook`.
    :param storage_conn_id: as for :class:`CheckpointHook`.
    :param poll_interval_s: seconds between two looks.
    :param deadline: give up at this time, in seconds since 1970; None waits for ever. What the
        last look shows goes before the deadline.
    :param not_before: yield no event before this time, in seconds since 1970.
    """

    def __init__(
        self,
        checkpoint_location: str,
        storage_conn_id: str | None = None,
        poll_interval_s: float = 1.0,
        deadline: float | None = None,
        not_before: float = 0.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.checkpoint_location = checkpoint_location
        self.storage_conn_id = storage_conn_id
        self.poll_interval_s = poll_interval_s
        self.deadline = deadline
        self.not_before = not_before
        self._unreachable_since: float | None = None

    @property
    @abstractmethod
    def wanted(self) -> str:
        """What is waited for, in words."""

    @abstractmethod
    def look(self) -> Event | None:
        """Look once; return the event that ends the wait, or None to look again."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again; subclasses add their own."""
        return {
            "checkpoint_location": self.checkpoint_location,
            "storage_conn_id": self.storage_conn_id,
            "poll_interval_s": self.poll_interval_s,
            "deadline": self.deadline,
            "not_before": self.not_before,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class path and arguments, as Airflow stores them."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the one event that ends the wait."""
        while (event := await asyncio.to_thread(self.observe)) is None:
            await asyncio.sleep(self._pause_s())
        await asyncio.sleep(max(0.0, self.not_before - time.time()))
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    def wait(self) -> Event:
        """Wait in this thread; return the event that ends the wait."""
        event = self.wait_for(math.inf)
        assert event is not None
        return event

    def wait_for(self, seconds: float) -> Event | None:
        """Wait in this thread, but no longer than this; return the event that ends the wait."""
        never, until = threading.Event(), time.monotonic() + seconds
        while (event := self.observe()) is None:
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            never.wait(min(self._pause_s(), left_s))
        return event

    def observe(self) -> Event | None:
        """Look once; errors that no retry can cure, and the deadline, are events as well.

        Storage that cannot be reached is tried again; the error is raised once it has lasted for
        longer than a hiccup.
        """
        event: Event | None = None
        try:
            event = self.look()
            publish(self.hook.checkpoint, self.checkpoint_location)
            self._unreachable_since = None
        except ContinuousError as error:
            if is_final(error):
                event = {"outcome": "error", "error": str(error)}
            else:
                self._bear(error)
        if event is None and self.deadline is not None and time.time() >= self.deadline:
            event = {"outcome": "timeout"}
        if event is not None:
            event |= {"checkpoint_location": self.checkpoint_location, "wanted": self.wanted}
        return event

    def _bear(self, error: ContinuousError) -> None:
        now = time.monotonic()
        if self._unreachable_since is None:
            self._unreachable_since = now
            self.log.warning("Trying again for %g s: %s", UNREACHABLE_MAX_S, error)
        elif now - self._unreachable_since > UNREACHABLE_MAX_S:
            raise error

    @cached_property
    def hook(self) -> CheckpointHook:
        """The checkpoint; its connection is looked up once per wait."""
        return CheckpointHook(self.checkpoint_location, self.storage_conn_id)

    def _pause_s(self) -> float:
        if self.deadline is None:
            return self.poll_interval_s
        return max(0.0, min(self.poll_interval_s, self.deadline - time.time()))


def status_event(outcome: str, status: CheckpointStatus) -> Event:
    """Return the event that tells of a query's state."""
    return {
        "outcome": outcome,
        "state": status.state.value,
        "query_id": status.id,
        "run_id": status.run_id,
        "epoch": status.epoch,
        "error": status.error,
    }
