"""One poller per checkpoint, however many triggers of an event loop wait for what it will show.

A poller reads in a thread of :mod:`~airflow_provider_continuous.observing.pool`, once per interval,
and lets every waiting trigger look at what it has read. It begins with the first waiter and ends
with the last one. What a trigger makes of a look, a failing one too, stays its own business: its
own ``observe`` decides here and in a worker. A look that does not come back makes nobody miss a
deadline. Others are told of the query when the events are out, and nobody waits for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import LAST_LOOK_S, LOOK_MAX_S, POOL
from airflow_provider_continuous.observing.publishing import publish_soon
from engine.errors import ContinuousError

if TYPE_CHECKING:
    from airflow_provider_continuous.hooks.checkpoint import CheckpointHook

Event = dict[str, Any]
"""``outcome`` and what belongs to it: ``committed``, ``running``, ``ended``, ``timeout``,
``error``. JSON values only."""

LOOK_GAP_S = 0.05
"""Looks are at least so far apart: a thousand tasks that defer at once ask for a few looks."""

_READS = frozenset(
    {
        "exists",
        "glance",
        "status",
        "committed_epoch",
        "epochs",
        "offsets",
        "describe_epoch",
        "watermark",
    }
)
_Key = tuple[str, str | None, float]
_POLLERS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, CheckpointPoller]] = (
    WeakKeyDictionary()
)


class OneLook:
    """Stands for a hook while one look lasts: what several triggers ask is read once.

    :param hook: returns the hook that reads; called when something is asked.
    """

    def __init__(self, hook: Callable[[], CheckpointHook]) -> None:
        self._hook = hook
        self._answers: dict[Any, tuple[Any, ContinuousError | None]] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in _READS:
            return getattr(self._hook(), name)

        def ask(*arguments: Any, **named: Any) -> Any:
            question = (name, arguments, tuple(sorted(named.items())))
            if question not in self._answers:
                self._answers[question] = self._read(name, arguments, named)
            answer, error = self._answers[question]
            if error is not None:
                raise error
            return answer

        return ask

    def _read(
        self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, ContinuousError | None]:
        try:
            return getattr(self._hook(), name)(*arguments, **named), None
        except ContinuousError as error:
            return None, error


class Watcher(Protocol):
    """Who waits for what a checkpoint will show."""

    checkpoint_location: str
    storage_conn_id: str | None
    poll_interval_s: float

    @property
    def own_hook(self) -> CheckpointHook:
        """How this one would read the checkpoint by itself."""

    @property
    def deadline_in_s(self) -> float:
        """Seconds until it gives up, infinite if it never does."""

    def observe(self, shared: OneLook | None = None) -> Event | None:
        """Look once; the event that ends the wait, or None to look again."""

    def missed(self, error: ContinuousError) -> Event | None:
        """A look has not come back; the event that ends the wait for that, or None."""


@dataclass(eq=False)
class _Waiter:
    trigger: Watcher
    future: asyncio.Future[Event]
    context: Context = field(default_factory=copy_context)  # its log lines name its task

    def observe(self, look: OneLook) -> tuple[Event | None, Exception | None]:
        try:
            return self.context.run(self.trigger.observe, look), None
        except Exception as error:
            return None, error

    def missed(self, error: ContinuousError) -> tuple[Event | None, Exception | None]:
        try:
            # A copy: the look that hangs is in the context.
            return self.context.copy().run(self.trigger.missed, error), None
        except Exception as failure:
            return None, failure

    def resolve(self, event: Event | None, error: Exception | None) -> None:
        if self.future.done():
            return  # cancelled while the look was under way
        if error is not None:
            self.future.set_exception(error)
        elif event is not None:
            self.future.set_result(event)


class CheckpointPoller:
    """Looks at one checkpoint for all who wait for it in one event loop.

    :param interval_s: seconds from one look to the next.
    :param ended: called when the last waiter has left.
    """

    def __init__(self, interval_s: float, ended: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._ended = ended
        self._waiters: list[_Waiter] = []
        self._asked = asyncio.Event()  # somebody came, or left
        self._task: asyncio.Task[None] | None = None

    async def wait(self, trigger: Watcher) -> Event:
        """Return the event that ends the trigger's wait, or raise what it raises."""
        future = asyncio.get_running_loop().create_future()
        waiter = _Waiter(trigger, future)
        with self._counted(waiter):
            self._asked.set()
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="checkpoint-poller")
            event: Event = await future
            return event

    @contextmanager
    def _counted(self, waiter: _Waiter) -> Iterator[None]:
        self._waiters.append(waiter)
        try:
            yield
        finally:
            self._waiters.remove(waiter)
            if not self._waiters:
                self._asked.set()

    async def _run(self) -> None:
        try:
            while self._waiters:
                self._asked.clear()
                started = time.monotonic()
                await self._look()
                await asyncio.sleep(LOOK_GAP_S)
                await self._pause(started)
        except asyncio.CancelledError:  # the loop ends
            for waiter in self._waiters:
                waiter.future.cancel()
            raise
        except Exception as error:
            for waiter in self._waiters:
                waiter.resolve(None, error)
        finally:
            self._ended()

    async def _look(self) -> None:
        """Let the waiters look, and tell them when that does not come back."""
        first = self._waiters[0].trigger
        location = first.checkpoint_location
        place = place_of(location)
        key = ("poll", location, first.storage_conn_id, self._interval_s)
        look = POOL.submit(place, partial(_look, list(self._waiters)), key)
        began = told = time.monotonic()
        came = False
        while not await self._is_done(look, began, told + LOOK_MAX_S) and self._waiters:
            came = came or self._asked.is_set()
            self._asked.clear()
            now = time.monotonic()
            hangs = now - told >= LOOK_MAX_S
            for waiter in list(self._waiters):
                if hangs or _patience_s(waiter, began) <= 0:
                    waiter.resolve(*waiter.missed(POOL.hangs(place, round(now - began))))
            told = now if hangs else told
        if not look.done():
            return
        found = [each for each in look.result() if each[0] in self._waiters]
        for waiter, outcome in found:
            waiter.resolve(*outcome)
        if came or not found:  # it was the look of those who have left meanwhile
            self._asked.set()
        publish_soon(lambda: first.own_hook.checkpoint, location)

    async def _is_done(self, look: Future[Any], began: float, until: float) -> bool:
        """Wait for it until then, or until somebody comes, leaves, or gives up."""
        patience = [_patience_s(each, began) for each in self._waiters if not each.future.done()]
        asked = asyncio.ensure_future(self._asked.wait())
        await asyncio.wait(
            [asyncio.wrap_future(look), asked],
            timeout=max(0.0, min([until - time.monotonic(), *patience])),
            return_when=asyncio.FIRST_COMPLETED,
        )
        asked.cancel()
        return look.done()

    async def _pause(self, started: float) -> None:
        due_s = started + self._interval_s - time.monotonic()
        waiting = [waiter for waiter in self._waiters if not waiter.future.done()]
        for waiter in waiting:
            due_s = min(due_s, waiter.trigger.deadline_in_s)
        if waiting and due_s > 0:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._asked.wait(), due_s)


def _patience_s(waiter: _Waiter, began: float) -> float:
    """How long somebody waits for a look that began then."""
    return max(waiter.trigger.deadline_in_s, began + LAST_LOOK_S - time.monotonic())


def _look(waiters: list[_Waiter]) -> list[tuple[_Waiter, tuple[Event | None, Exception | None]]]:
    first = waiters[0].trigger
    look = OneLook(lambda: first.own_hook)
    return [(waiter, waiter.observe(look)) for waiter in waiters]


async def wait_for_event(trigger: Watcher) -> Event:
    """Wait with all others of this event loop that watch the same checkpoint as often."""
    pollers = _POLLERS.setdefault(asyncio.get_running_loop(), {})
    key = (trigger.checkpoint_location, trigger.storage_conn_id, trigger.poll_interval_s)
    poller = pollers.get(key)
    if poller is None:
        poller = pollers[key] = CheckpointPoller(
            trigger.poll_interval_s, lambda: _forget(pollers, key)
        )
    return await poller.wait(trigger)


def _forget(pollers: dict[_Key, CheckpointPoller], key: _Key) -> None:
    pollers.pop(key, None)
