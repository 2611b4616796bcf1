"""Which epochs somebody waits for: up to the newest of them, none stays open for being empty."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.coordinator.events import EpochWanted


class WantedEpochs:
    """Of one start of a query, for all its attempts and runs. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epochs: list[int] = []
        self._lasting = -1
        self._waiting_for_all = 0
        self._tell: Callable[[EpochWanted], None] | None = None

    @property
    def newest(self) -> int:
        """-1 while nobody waits."""
        with self._lock:
            return max(self._lasting, *self._epochs, -1)

    def is_wanted(self, first: int, last: int) -> bool:
        """Whether somebody waits for one of these epochs, or for whatever is there."""
        with self._lock:
            wanted = (*self._epochs, self._lasting)
            return self._waiting_for_all > 0 or any(first <= each <= last for each in wanted)

    def want(self, epoch: int) -> None:
        """It is waited for until it is there."""
        with self._lock:
            self._lasting = max(self._lasting, epoch)
        self._say()

    @contextmanager
    def waiting(self, epoch: int, *, for_all: bool = False) -> Iterator[None]:
        """Somebody waits inside of the block.

        :param for_all: and for each epoch until then, however many there are.
        """
        with self._lock:
            self._epochs.append(epoch)
            self._waiting_for_all += for_all
        self._say()
        try:
            yield
        finally:
            with self._lock:
                self._epochs.remove(epoch)
                self._waiting_for_all -= for_all

    @contextmanager
    def telling(self, tell: Callable[[EpochWanted], None]) -> Iterator[None]:
        """Inside of the block a run is told when somebody begins to wait."""
        self._tell = tell
        try:
            yield
        finally:
            self._tell = None

    def _say(self) -> None:
        tell = self._tell
        if tell is not None:
            tell(EpochWanted())
