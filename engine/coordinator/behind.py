"""The tasks that are behind: while they are, the open epoch has to grow. Pure.

An epoch is closed only when all tasks that keep no state have reported the one before. A task reads
nothing in an epoch that is closed when it comes to it: one whose every end takes longer than the
interval would never read again, and the query would commit empty epochs for ever.

Those that keep state mostly write it, beside what they read: some epochs may wait for them alone.

Neither goes on for ever: a task may hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.base.listing import SHOWN_MAX, listed

REDUCED_MAX: Final = 4
"""So many epochs may wait for tasks that keep state before the open one has to grow."""


class Behind:
    """See the module.

    :param keeps: for each task whether it keeps state.
    :ivar held: so often the open epoch has elapsed since one was logged, and had to grow for that;
        or the final one has, and was not finished.
    """

    def __init__(self, keeps: Sequence[bool]) -> None:
        self.held = 0
        self._keeps = keeps
        self._others = len(keeps) - sum(keeps)
        self._reported: dict[int, int] = {}
        """Of each epoch that is closed and not complete, how many of the other tasks have reported
        it."""

    @property
    def has_late_reader(self) -> bool:
        """Whether a task that keeps no state has not come to the open epoch."""
        return any(count < self._others for count in self._reported.values())

    @property
    def has_room(self) -> bool:
        """Whether another epoch may be closed."""
        return not self.has_late_reader and len(self._reported) < REDUCED_MAX

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
        """The open epoch has, and cannot be closed; or the final one is waited for."""
        self.held += 1

    def logged(self) -> None:
        """An epoch was, so nothing hangs."""
        self.held = 0


def late_named(partitions: Sequence[int], reducers: Sequence[str]) -> str:
    """Tasks that are late, at least one, as the subject of a sentence in the plural."""
    named = [f"partitions {listed(partitions)}"] if partitions else []
    return " and ".join([*named, *reducers[:SHOWN_MAX]])
