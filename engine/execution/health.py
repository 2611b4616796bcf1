"""Whether epochs advance: a process that is there, and commits nothing, is not healthy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import EpochStalledError

INTERVAL_MIN_S = 1.0
"""An epoch of a few milliseconds is not late because a disk was busy for a tenth of a second."""


@dataclass(frozen=True)
class Stall:
    """The oldest epoch that has ended is not committed.

    :param partitions: those that have not finished it; empty if it is the sink that has not.
    """

    epoch: int
    partitions: tuple[int, ...]

    def __str__(self) -> str:
        late = (
            f"partitions {list(self.partitions)} have not finished it"
            if self.partitions
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
    """Tells a stall once it has lasted for too long.

    :param interval_ms: of the epochs.
    :param after_intervals: so many intervals after its end an epoch is late.
    """

    def __init__(self, interval_ms: int, after_intervals: int) -> None:
        self._after_s = max(interval_ms / 1000, INTERVAL_MIN_S) * after_intervals
        self._epoch = -1
        self._since_s = 0.0

    def look(self, now_s: float, epoch: int | None, missing: Sequence[int]) -> Stall | None:
        """:param now_s: monotonic.
        :param epoch: the oldest that has ended and is not committed, None if there is none.
        :param missing: the partitions that have not finished it.
        """
        if epoch is None:
            self._epoch = -1
            return None
        if epoch != self._epoch:
            self._epoch, self._since_s = epoch, now_s
        if now_s - self._since_s < self._after_s:
            return None
        return Stall(epoch, tuple(missing))
