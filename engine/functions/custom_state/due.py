"""What is due at a time: timers, and values that live for a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)
EARLIEST_MS: Final = -(1 << 63)
"""No time is before it."""
_STALE_MAX: Final = 64


class Due(Generic[Item]):
    """Items by the time at which they are due; an item may be due at several times."""

    def __init__(self) -> None:
        self._items: dict[int, dict[Item, None]] = {}
        self._times: list[int] = []  # a heap of those of the items, and of some that have none left

    def add(self, at_ms: int, item: Item) -> None:
        """It is due then; again if it was."""
        items = self._items.get(at_ms)
        if items is None:
            items = self._items[at_ms] = {}
            if len(self._times) > 2 * len(self._items) + _STALE_MAX:  # a timer is put off each time
                self._times = sorted(self._items)  # a heap, too
            else:
                heappush(self._times, at_ms)
        items[item] = None

    def remove(self, at_ms: int, item: Item) -> None:
        """It is not due then any more."""
        items = self._items.get(at_ms)
        if items is None:
            return
        items.pop(item, None)
        if not items:
            del self._items[at_ms]

    def next_ms(self, from_ms: int = EARLIEST_MS) -> int | None:
        """When the first item is due, from a time on, inclusive; None: there is none."""
        with self._without(from_ms - 1):
            while self._times and self._times[0] not in self._items:
                heappop(self._times)
            return self._times[0] if self._times else None

    def until(self, end_ms: int) -> list[tuple[int, Item]]:
        """What is due up to a time, inclusive, in the order of the times; it stays."""
        with self._without(end_ms) as times:
            return [(at_ms, item) for at_ms in times for item in self._items[at_ms]]

    @contextmanager
    def _without(self, end_ms: int) -> Iterator[Iterable[int]]:
        """Meanwhile the heap lacks the times up to one, inclusive: these."""
        times = dict[int, None]()
        while self._times and self._times[0] <= end_ms:
            at_ms = heappop(self._times)
            if at_ms in self._items:
                times[at_ms] = None
        yield times
        for at_ms in times:
            heappush(self._times, at_ms)
