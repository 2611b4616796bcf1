"""LookPool: threads of our own for all that looks at storage, which may hang.

- Who asks waits as long as it likes, and no longer: :meth:`LookPool.within`. A thread that hangs
  cannot be ended; it is counted and told, and is nobody else's.
- There are never more than so many threads. They are made when they are needed, and leave when they
  are idle; a process ends while some of them hang.
- A *place* (:mod:`.places`) is what hangs as a whole. One place has at most as many threads as it
  leaves free, which is half of those that others leave: while seven of eight hang, whatever they
  were asked, there is a thread for the eighth.
- What is asked under a key while the same is under way is not asked again: all who ask get one
  answer. So a storage that hangs takes one thread for each checkpoint, however often it is tried.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.errors import CheckpointError

T = TypeVar("T")
THREADS_MAX = 256
LOOK_MAX_S = 10.0
"""Who waits for a look is told after so long that the storage hangs."""
LAST_LOOK_S = 5.0
"""A look that began at a deadline has so long to come back: what it shows goes before that."""
_IDLE_S = 10.0


class StorageHangsError(CheckpointError):
    """A storage has not answered in time; it may later."""

    retryable = True


@dataclass(eq=False)
class _Look:
    place: str
    do: Callable[[], Any]
    key: Hashable
    future: Future[Any] = field(default_factory=Future)
    context: Context = field(default_factory=copy_context)  # its log lines name who has asked
    began_s: float = 0.0


class LookPool:
    """See the module.

    :param threads_max: so many at most.
    """

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._threads_max = threads_max
        self._reset()

    def _reset(self) -> None:
        """Begin anew: in a forked process there are no threads."""
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[_Look]] = {}
        """By place, in the order in which their turn comes."""
        self._under_way: set[_Look] = set()
        self._at: Counter[str] = Counter()
        self._by_key: dict[Hashable, Future[Any]] = {}
        self._threads = 0

    # -- asking ---------------------------------------------------------------------------------

    def submit(self, place: str, do: Callable[[], T], key: Hashable = None) -> Future[T]:
        """Have something done by a thread of the pool.

        :param key: if the same is under way, its answer is this one's, too; None is never shared.
        """
        look = _Look(place, do, key)
        with self._changed:
            if key is not None:
                known = self._by_key.get(key)
                if known is not None and not known.cancelled():
                    return known
                self._by_key[key] = look.future
            self._waiting.setdefault(place, deque()).append(look)
            self._changed.notify()
            self._staff()
        return look.future

    def within(
        self, place: str, do: Callable[[], T], seconds: float = LOOK_MAX_S, key: Hashable = None
    ) -> T:
        """Return what it returns, or raise what it raises.

        :raises StorageHangsError: it has not come back in time.
        """
        future = self.submit(place, do, key)
        wait([future], seconds)
        return self.answer(future, place, seconds)

    async def soon(
        self, place: str, do: Callable[[], T], seconds: float = LOOK_MAX_S, key: Hashable = None
    ) -> T:
        """As :meth:`within`, in an event loop."""
        future = self.submit(place, do, key)
        await asyncio.wait([asyncio.wrap_future(future)], timeout=seconds)
        return self.answer(future, place, seconds)

    def answer(self, future: Future[T], place: str, seconds: float) -> T:
        """Return what has come of it, after so many seconds.

        :raises StorageHangsError: it has not come back.
        """
        if future.done():
            return future.result()
        raise self.hangs(place, seconds)

    # -- telling --------------------------------------------------------------------------------

    def hanging(self, longer_than_s: float = LOOK_MAX_S) -> dict[str, int]:
        """Return how many looks at each place have been under way for longer."""
        now_s = time.monotonic()
        with self._changed:
            return Counter(
                look.place for look in self._under_way if now_s - look.began_s >= longer_than_s
            )

    def hangs(self, place: str, seconds: float) -> StorageHangsError:
        """Return the error that tells of a look that has not come back after so many seconds."""
        with self._changed:
            here, all_of_them = self._at[place], len(self._under_way)
        return StorageHangsError(
            f"{place} has not answered for {seconds:g} s: {here} looks are under way there, "
            f"{all_of_them} in all.",
            hint="Look at this mount, or store, from this machine; the looks go on when it "
            "answers.",
        )

    # -- the threads ----------------------------------------------------------------------------

    def _staff(self) -> None:
        """Make a thread if one has something to do at once, and none is free."""
        wanted = sum(map(len, self._waiting.values()))
        free = self._threads - len(self._under_way)
        if free < wanted and self._threads < self._threads_max and self._next(take=False):
            self._threads += 1
            threading.Thread(target=self._work, name="continuous-look", daemon=True).start()

    def _next(self, take: bool) -> _Look | None:
        """What has its turn: the places in turn, those that may have one more thread."""
        for place, looks in self._waiting.items():
            if self._may_begin(place):
                if not take:
                    return looks[0]
                look = looks.popleft()
                del self._waiting[place]
                if looks:
                    self._waiting[place] = looks  # behind the others
                return look
        return None

    def _may_begin(self, place: str) -> bool:
        return self._at[place] < self._threads_max - len(self._under_way)

    def _work(self) -> None:
        while True:
            with self._changed:
                look, is_idle = self._next(take=True), False
                while look is None:
                    if is_idle:
                        self._threads -= 1
                        return
                    is_idle = not self._changed.wait(_IDLE_S)
                    look = self._next(take=True)  # who asked meanwhile counts on this thread
                look.began_s = time.monotonic()
                self._under_way.add(look)
                self._at[look.place] += 1
                self._staff()
            answer = error = None
            if look.future.set_running_or_notify_cancel():
                try:
                    answer = look.context.run(look.do)
                except BaseException as exc:
                    error = exc
            with self._changed:
                self._under_way.discard(look)
                self._at[look.place] -= 1
                if self._by_key.get(look.key) is look.future:
                    del self._by_key[look.key]
            if error is not None:
                look.future.set_exception(error)
            elif not look.future.cancelled():
                look.future.set_result(answer)


POOL = LookPool()
"""That of this process: sensors, triggers, pages, metrics and notifiers share it."""

os.register_at_fork(after_in_child=POOL._reset)
