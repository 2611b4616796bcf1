"""Whether epochs advance: a process that is there, and commits nothing, is not healthy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.coordinator.behind import late_named
from engine.errors import EpochStalledError

INTERVAL_MIN_S = 1.0
"""An epoch of a few milliseconds is not late because a disk was busy for a tenth of a second."""


@dataclass(frozen=True)
class Stall:
    """The oldest epoch that has ended is not committed.

    :param partitions: those that have not finished it.
    :param reducers: likewise the tasks that get their rows from others; if it is neither, it is the
        sink that has not.
    """

    epoch: int
    partitions: tuple[int, ...]
    reducers: tuple[str, ...] = ()

    @property
    def is_of_tasks(self) -> bool:
        """Whether tasks are late."""
        return bool(self.partitions or self.reducers)

    def __str__(self) -> str:
        late = (
            f"{late_named(self.partitions, self.reducers)} have not finished it"
            if self.is_of_tasks
            else "the sink has not committed it"
        )
        return f"Epoch {self.epoch} has ended, but {late}"

    def error(self) -> EpochStalledError:
        """For the policy that restarts."""
        return EpochStalledError(
            f"{self}.",
            epoch=self.epoch,
            partition=self.partitions[0] if self.partitions else None,
            hint="See what these tasks, or the sink, wait for.",
        )


class StallWatch:
    """Tells a stall once an epoch is late, counted from its own end: that others are committed
    meanwhile makes it no younger. A sink that was late is so until the oldest epoch is much younger
    again: with commits of little less than the time that it has, each epoch becomes the oldest in
    time, and is late when it is committed.

    :param interval_ms: of the epochs.
    :param after_intervals: so many intervals after its end an epoch is late.
    """

    def __init__(self, interval_ms: int, after_intervals: int) -> None:
        self._after_s = max(interval_ms / 1000, INTERVAL_MIN_S) * after_intervals
        self._ended_s: dict[int, float] = {}  # ascending
        self._is_late = False

    def ended(self, epoch: int, now_s: float) -> None:
        """An epoch is over; to be told in their order.

        :param now_s: monotonic.
        """
        self._ended_s[epoch] = now_s

    def look(
        self,
        now_s: float,
        committed: int,
        missing: Callable[[int], Sequence[int]],
        reducers: Callable[[int], Sequence[str]] = lambda epoch: (),
    ) -> Stall | None:
        """Whether the oldest epoch that has ended and is not committed is late.

        :param now_s: monotonic.
        :param committed: the newest committed epoch.
        :param missing: tells the partitions that have not finished an epoch; ``reducers`` the tasks
            that get their rows from others.
        """
        for epoch in [epoch for epoch in self._ended_s if epoch <= committed]:
            del self._ended_s[epoch]
        oldest = committed + 1
        ended_s = self._ended_s.get(oldest)
        stall = None
        if ended_s is not None and now_s - ended_s >= self._after_s / 3:
            found = Stall(oldest, tuple(missing(oldest)), tuple(reducers(oldest)))
            if now_s - ended_s >= self._after_s or (self._is_late and not found.is_of_tasks):
                stall = found
        self._is_late = stall is not None
        return stall
