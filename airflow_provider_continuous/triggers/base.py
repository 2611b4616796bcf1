"""CheckpointTrigger: look at a checkpoint until it shows what a task waits for.

The same object waits in a triggerer (``run``) and in a worker (``wait``), so a deferred task and
one that holds its slot decide by the same rule. In a triggerer, all who watch the same checkpoint
share one poller. A thread of :mod:`~airflow_provider_continuous.observing.pool` looks: a deadline
holds though storage hangs. Everything the task must know travels in the
event's payload, and its deadline in the trigger: Airflow does not hand back what a task deferred
with in every case, and its own deferral timeout bypasses the task.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future, wait
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_continuous.errors import is_final
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import LAST_LOOK_S, LOOK_MAX_S, POOL
from airflow_provider_continuous.observing.publishing import publish_soon
from airflow_provider_continuous.tasks.arguments import check_found, duration, given
from airflow_provider_continuous.tasks.memory import CARRIED
from airflow_provider_continuous.triggers.poller import LOOK_GAP_S, Event, OneLook, wait_for_event
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.summary import Summary
from engine.errors import ContinuousError

UNREACHABLE_MAX_S = 60.0
"""How long storage may be out of reach before the wait fails, and Airflow retries the task."""

START_MARGIN_S = 60.0
"""A trigger that Airflow has started without the task gives up so long before Airflow would: its
own timeout fails the task without asking it."""

TELLING_MAX_S = 3.0
"""A worker, which may end at any moment, waits so long at most for what is told of the query."""


class CheckpointTrigger(BaseTrigger):
    """Waits for something that a checkpoint will show.

    Nothing is cancelled when the waiting task is killed: a query outlives those who watch it.

    :param checkpoint_location: as for :class:`CheckpointHook`.
    :param storage_conn_id: as for :class:`CheckpointHook`.
    :param poll_interval_s: seconds between two looks.
    :param deadline: give up at this time, in seconds since 1970; None waits for ever. What the
        last look shows goes before the deadline.
    :param not_before: yield no event before this time, in seconds since 1970.
    :param carried: what its event hands to the task that goes on, as it is.
    """

    def __init__(
        self,
        checkpoint_location: str,
        storage_conn_id: str | None = None,
        poll_interval_s: float = 1.0,
        deadline: float | None = None,
        not_before: float = 0.0,
        carried: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.checkpoint_location = checkpoint_location
        self.storage_conn_id = storage_conn_id
        self._said = given(storage_conn_id=storage_conn_id)  # Airflow may render it
        self.poll_interval_s = duration("poll_interval_s", poll_interval_s)
        self.deadline = deadline
        self.not_before = not_before
        self.carried = dict(carried or {})
        self.timeout_after: datetime | None = (
            None  # Airflow tells, where the trigger started the task
        )
        self._unreachable_since: float | None = None
        self._shared: OneLook | None = None
        self._looks_whole = False
        self._has_glanced = False
        self._offsets: tuple[int, Sequence[Any]] | None = None
        self._under_way: Future[Event | None] | None = None

    @property
    @abstractmethod
    def wanted(self) -> str:
        """What is waited for, in words."""

    @abstractmethod
    def look(self) -> Event | None:
        """Look once; return the event that ends the wait, or None to look again."""

    def status(self) -> CheckpointStatus:
        """Return how the query is, for :meth:`look`; with one read, where it keeps a summary.

        Then it has no offsets, and is as old as the last heartbeat. What ends the wait is decided
        by a second look, which reads everything.
        """
        if not self._looks_whole:
            found = self.hook.glance()
            if found is not None:
                self._has_glanced = True
                status: CheckpointStatus = found.status
                return status
        whole: CheckpointStatus = self.hook.status()
        return whole

    def run_is_over(self, status: CheckpointStatus) -> bool:
        """Tell whether a run has ended, or is LOST and surely does not come back."""
        return status.state.is_over and not self.hook.may_go_on(status)

    def summary(self) -> Summary | None:
        """Return what the look of one read tells of the last epoch; None: read what is needed."""
        found = None if self._looks_whole else self.hook.glance()
        if found is None:
            return None
        self._has_glanced = True
        summary: Summary = found.summary
        return summary

    def offsets_of(self, status: CheckpointStatus) -> Sequence[Any]:
        """Return the end offsets of its last committed epoch; they are read once per epoch."""
        if status.offsets or status.epoch < 0:
            return status.offsets
        if self._offsets is None or self._offsets[0] != status.epoch:
            found = self.hook.offsets(status.epoch)
            if found is None:  # retention has removed it since: newer ones are there
                return self.hook.status().offsets
            self._offsets = status.epoch, found
        return self._offsets[1]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again; subclasses add their own."""
        return {
            "checkpoint_location": self.checkpoint_location,
            "storage_conn_id": self.storage_conn_id,
            "poll_interval_s": self.poll_interval_s,
            "deadline": self.deadline,
            "not_before": self.not_before,
            **self._carrying(),
        }

    def _carrying(self) -> dict[str, Any]:
        return {CARRIED: self.carried} if self.carried else {}

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
        """Wait in this thread, but no longer than this; return the event that ends the wait.

        A look that has begun is waited for, for :data:`LAST_LOOK_S` if storage hangs.
        """
        never, until = threading.Event(), time.monotonic() + seconds
        while (event := self.look_in_time(max(until - time.monotonic(), LAST_LOOK_S))) is None:
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            never.wait(min(self._pause_s(), left_s))
        return event

    def look_in_time(self, seconds: float = LOOK_MAX_S) -> Event | None:
        """Look once, as :meth:`observe`; storage that hangs is storage out of reach.

        :param seconds: wait no longer for it.
        """
        place = place_of(self.checkpoint_location)
        if self._under_way is None:
            self._under_way = POOL.submit(place, self.observe)
        patience_s = min(LOOK_MAX_S, max(self.deadline_in_s, LAST_LOOK_S))
        wait([self._under_way], max(0.0, min(seconds, patience_s)))
        if not self._under_way.done():
            return None if seconds < patience_s else self.missed(POOL.hangs(place, patience_s))
        done, self._under_way = self._under_way, None
        event = done.result()
        telling = publish_soon(lambda: self.own_hook.checkpoint, self.checkpoint_location)
        if telling is not None:
            wait([telling], TELLING_MAX_S)
        return event

    def observe(self, shared: OneLook | None = None) -> Event | None:
        """Look once; errors that no retry can cure, and the deadline, are events as well.

        Storage that cannot be reached is tried again; the error is raised once it has lasted for
        longer than a hiccup.

        :param shared: a look that others share.
        """
        event: Event | None = None
        self._shared = shared or OneLook(lambda: self.own_hook)
        self._looks_whole = self._has_glanced = False
        try:
            check_found(self, self._said)
            event = self.look()
            if event is not None and self._has_glanced:
                self._looks_whole = True
                event = self.look()
            self._unreachable_since = None
        except ContinuousError as error:
            if is_final(error):
                event = {"outcome": "error", "error": str(error)}
            else:
                self._open_again()
                self._bear(error)
        finally:
            self._shared = None
        return self._or_timeout(event)

    def _open_again(self) -> None:
        """Have the next look open the checkpoint anew: a triggerer runs for months, and a password
        may be another one by now."""
        if self.own_hook.location.look_up_again():
            del self.own_hook

    def missed(self, error: ContinuousError) -> Event | None:
        """Bear that a look has not come back: the deadline is an event all the same.

        :param error: is raised once it has lasted for longer than a hiccup.
        """
        event = self._or_timeout(None)
        if event is None:
            self._bear(error)
        return event

    def _or_timeout(self, event: Event | None) -> Event | None:
        if event is None and self.deadline is not None and time.time() >= self.deadline:
            event = {"outcome": "timeout"}
        if event is not None:
            event |= {
                "checkpoint_location": self.checkpoint_location,
                "wanted": self.wanted,
                "deadline": self.deadline,
                **self._carrying(),
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
    def is_out_of_reach(self) -> bool:
        """Whether the last look has not reached the storage: how long that is borne is counted in
        this object."""
        return self._unreachable_since is not None

    @property
    def hook(self) -> CheckpointHook:
        """The checkpoint, during a look. Ask it, and change nothing through it: others may share
        the answer."""
        return self.own_hook if self._shared is None else cast("CheckpointHook", self._shared)

    @cached_property
    def own_hook(self) -> CheckpointHook:
        """The checkpoint; its connection is looked up once per wait, and after a failure."""
        return CheckpointHook(self.checkpoint_location, self.storage_conn_id)

    @property
    def deadline_in_s(self) -> float:
        """Seconds until the deadline, infinite without one."""
        return math.inf if self.deadline is None else self.deadline - time.time()

    def _pause_s(self) -> float:
        return max(0.0, min(max(self.poll_interval_s, LOOK_GAP_S), self.deadline_in_s))


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
