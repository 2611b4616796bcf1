"""Epochs that wait for those tasks alone that keep state. Pure.

They mostly write their state then. While too many epochs do, the open one has to grow; but not for
ever: a task may hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

REDUCED_MAX: Final = 4
"""So many may wait before the open one has to grow."""


class Reducing:
    """See the module.

    :param keeps: for each task whether it keeps state.
    :ivar held: so often the open epoch has elapsed since one was logged, and had to grow for that.
    """

    def __init__(self, keeps: Sequence[bool]) -> None:
        self.held = 0
        self._keeps = keeps
        self._others = len(keeps) - sum(keeps)
        self._reported: dict[int, int] = {}
        """Of each epoch that is closed and not complete, how many of the other tasks have reported
        it."""

    @property
    def has_room(self) -> bool:
        """Whether another epoch may be closed."""
        if not any(self._keeps):
            return True
        return list(self._reported.values()).count(self._others) < REDUCED_MAX

    def closed(self, epoch: int) -> None:
        """By the driver."""
        self._reported[epoch] = 0

    def reported(self, epoch: int, task: int) -> None:
        """By a task; none has reported it twice."""
        self._reported[epoch] = self._reported.get(epoch, 0) + (not self._keeps[task])

    def completed(self, epoch: int) -> None:
        """All tasks have reported it."""
        self._reported.pop(epoch, None)

    def elapsed(self) -> None:
        """The open epoch has, and cannot be closed."""
        self.held += not self.has_room

    def logged(self) -> None:
        """An epoch was, so nothing hangs."""
        self.held = 0
