"""Epochs that wait for those tasks alone that get their rows from others. Pure.

They mostly write their state then. While too many epochs do, the open one has to grow; but not for
ever: a task may hang.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

REDUCED_MAX: Final = 4
"""So many may wait before the open one has to grow."""


class Reducing:
    """See the module.

    :param places: for each task whether it gets rows from others; None: it reads.
    :ivar held: so often the open epoch has elapsed since one was logged, and had to grow for that.
    """

    def __init__(self, places: Sequence[object]) -> None:
        self.held = 0
        self._places = places
        self._reading = sum(place is None for place in places)
        self._read: Counter[int] = Counter()
        """Of each epoch that is not complete, how many of those that read have reported it."""

    @property
    def has_room(self) -> bool:
        """Whether another epoch may be closed."""
        return list(self._read.values()).count(self._reading) < REDUCED_MAX

    def reported(self, epoch: int, task: int) -> None:
        """By a task; none has reported it twice."""
        self._read[epoch] += self._places[task] is None

    def completed(self, epoch: int) -> None:
        """All tasks have reported it."""
        self._read.pop(epoch, None)

    def elapsed(self) -> None:
        """The open epoch has, and cannot be closed."""
        self.held += not self.has_room

    def logged(self) -> None:
        """An epoch was, so nothing hangs."""
        self.held = 0
