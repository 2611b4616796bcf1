"""A search through folders: so many looks at the same time as who makes them allows, and each may
show more places to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Search(Generic[T]):
    """Looks that are under way. Used by one thread.

    :param begin: begins a look at a location on another thread.
    :param looks_max: so many are made.
    :ivar made: how many have been begun.
    """

    def __init__(self, begin: Callable[[str, Callable[[], T]], Future[T]], looks_max: int) -> None:
        self._begin, self._looks_max = begin, looks_max
        self._under_way: dict[Future[T], str] = {}
        self._ended: SimpleQueue[Future[T]] = SimpleQueue()
        self.made = 0

    @property
    def under_way(self) -> Mapping[Future[T], str]:
        """The looks that have not been taken, and at what they are."""
        return self._under_way

    def ask(self, location: str, look: Callable[[], T]) -> bool:
        """Begin a look; False: that would be one too many."""
        if self.made >= self._looks_max:
            return False
        self.made += 1
        future = self._begin(location, look)
        self._under_way[future] = location
        future.add_done_callback(self._ended.put)
        return True

    def take(self, within_s: float | None = None) -> tuple[str, Future[T]] | None:
        """The next look that has ended; None: none has in time, or none is under way.

        :param within_s: None: wait as long as it takes.
        """
        while self._under_way:
            try:
                future = self._ended.get(timeout=within_s)
            except Empty:
                return None
            if future in self._under_way:  # else it was asked for twice
                return self._under_way.pop(future), future
        return None
