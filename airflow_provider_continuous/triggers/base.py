"""CheckpointTrigger: look at a checkpoint until it shows what a task waits for.

The same object waits in a triggerer (``run``) and in a worker (``wait``), so a deferred task and
one that holds its slot decide by the same rule. In a triggerer, all who watch the same checkpoint
share one poller. Everything the task must know travels in the
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
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_continuous.errors import is_final
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.observing.publishing import publish
from airflow_provider_continuous.triggers.poller import Event, OneLook, wait_for_event
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.query_state import QueryState
from engine.errors import ContinuousError

UNREACHABLE_MAX_S = 60.0
"""How long storage may be out of reach before the wait fails, and Airflow retries the task."""

START_MARGIN_S = 60.0
"""A trigger that Airflow has started without the task gives up so long before Airflow would: its
own timeout fails the task without asking it."""

LOST_AFTER_S = 60.0
"""A query that says nothing for so long is over for those who wait for what it does. One whose
machine was suspended, or whose storage was away, comes back and goes on if nobody replaced it."""


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
        self.timeout_after: datetime | None = (
            None  # Airflow tells, where the trigger started the task
        )
        self._unreachable_since: float | None = None
        self._shared: OneLook | None = None

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
        if self.deadline is None and self.timeout_after is not None:
            self.deadline = self.timeout_after.timestamp() - START_MARGIN_S
        event = await wait_for_event(self)
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

    def observe(self, shared: OneLook | None = None) -> Event | None:
        """Look once; errors that no retry can cure, and the deadline, are events as well.

        Storage that cannot be reached is tried again; the error is raised once it has lasted for
        longer than a hiccup.

        :param shared: a look that others share.
        """
        event: Event | None = None
        self._shared = shared
        try:
            event = self.look()
            publish(self.hook.checkpoint, self.checkpoint_location)
            self._unreachable_since = None
        except ContinuousError as error:
            if is_final(error):
                event = {"outcome": "error", "error": str(error)}
            else:
                self._bear(error)
        finally:
            self._shared = None
        if event is None and self.deadline is not None and time.time() >= self.deadline:
            event = {"outcome": "timeout"}
        if event is not None:
            event |= {
                "checkpoint_location": self.checkpoint_location,
                "wanted": self.wanted,
                "deadline": self.deadline,
            }
        return event

    def _bear(self, error: ContinuousError) -> None:
        now = time.monotonic()
        if self._unreachable_since is None:
            self._unreachable_since = now
            self.log.warning("Trying again for %g s: %s", UNREACHABLE_MAX_S, error)
        elif now - self._unreachable_since > UNREACHABLE_MAX_S:
            raise error

    @property
    def hook(self) -> CheckpointHook:
        """The checkpoint, during a look. Ask it, and change nothing through it: others may share
        the answer."""
        return self.own_hook if self._shared is None else cast("CheckpointHook", self._shared)

    @cached_property
    def own_hook(self) -> CheckpointHook:
        """The checkpoint; its connection is looked up once per wait."""
        return CheckpointHook(self.checkpoint_location, self.storage_conn_id)

    @property
    def deadline_in_s(self) -> float:
        """Seconds until the deadline, infinite without one."""
        return math.inf if self.deadline is None else self.deadline - time.time()

    def _pause_s(self) -> float:
        return max(0.0, min(self.poll_interval_s, self.deadline_in_s))


def is_over(status: CheckpointStatus) -> bool:
    """Tell whether a query has ended, or is LOST for longer than a pause would take."""
    if status.state is QueryState.LOST and status.heartbeat_at_ms is not None:
        return time.time() - status.heartbeat_at_ms / 1000 >= LOST_AFTER_S
    return status.state.is_over


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
