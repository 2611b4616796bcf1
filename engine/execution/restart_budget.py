"""When a query that has failed is started again in place, and when it is given up.

Every failure is somebody's, and each culprit has a budget of its own: a sink that is down for an
hour must not use up what a lost executor needs. What can come back by itself (executors, storage,
sources, sinks) has a window of time: how often a database refuses while it fails over says nothing.
The user's own code fails the same way again, and has a count.

- A window is used up by the time from a failure until an epoch is committed again, less the time
  in which that could not be: the query waits for task slots, or all its tasks run and the epoch is
  not over. Of the latter no more than one interval is left out, or what crashes in every epoch
  would go on for ever.
- Healthy time, in which all tasks run and epochs are committed, or none has to be because nothing
  is read, makes good as much of it, whatever attempts, runs and failures of others lie between: if
  it is as long as the longest pause at least, for what commits one epoch between two crashes is not
  well.
- An outage is over, and so are its long pauses, when all is made good; and in any case after a
  healthy time of ``restartResetAfterS``, which alone ends the count of the user's code.

The pauses grow exponentially, with jitter, so that the queries of a whole cluster do not come back
in the same moment. The last attempt is made when the window ends.

Some errors are final: another start would meet them again, or do harm.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from engine.base.options import EngineOptions
from engine.errors import (
    BadRecordError,
    CheckpointCorruptError,
    CheckpointError,
    CheckpointVersionError,
    ClusterEndedError,
    ConcurrentRunError,
    ConfigError,
    ContinuousError,
    EpochBacklogError,
    EpochStalledError,
    NotEnoughSlotsError,
    OffsetOutOfRangeError,
    ProtocolError,
    SinkAheadError,
    SinkCommitRejectedError,
    SinkError,
    SourceChangedError,
    SourceError,
    StateTooLargeError,
    TransformError,
)

JITTER = 0.2
UNPROVEN_S = 60.0
"""A query that has never committed an epoch is more likely wrong than its sink is down: its windows
are no longer than this."""
_FINAL = (
    ConfigError,
    CheckpointCorruptError,
    CheckpointVersionError,
    ConcurrentRunError,
    ClusterEndedError,
    BadRecordError,
    OffsetOutOfRangeError,
    SinkCommitRejectedError,
    SinkAheadError,
    SourceChangedError,
    StateTooLargeError,
)


class Blame(Enum):
    """Whose failure it is."""

    INFRASTRUCTURE = "infrastructure"
    STORAGE = "storage"
    """The checkpoint's."""
    SOURCE = "source"
    SINK = "sink"
    USER = "user"


def blame(error: ContinuousError) -> Blame | None:
    """Whose failure it is; None if a restart in place cannot help."""
    if isinstance(error, NotEnoughSlotsError):  # a kind of ConfigError, but slots may come back
        return Blame.INFRASTRUCTURE
    if isinstance(error, _FINAL):
        return None
    if isinstance(error, CheckpointError):
        return Blame.STORAGE
    if isinstance(error, SourceError):
        return Blame.SOURCE
    if isinstance(error, SinkError):
        return Blame.SINK
    if isinstance(error, TransformError):
        return Blame.USER
    late = isinstance(error, (EpochBacklogError, EpochStalledError))
    if isinstance(error, ProtocolError) and not late:
        return None
    return Blame.INFRASTRUCTURE


@dataclass
class _Outage:
    """What is held against a culprit; nothing, if none goes on. Times are monotonic.

    :param enough_s: a shorter healthy time makes nothing good.
    :ivar down_s: for how long nothing was committed, up to the last commit, less what was made good
        before the last failure.
    :ivar since_s: the first failure since the last commit.
    :ivar healthy_s: since the last failure.
    """

    enough_s: float
    failures: int = 0
    down_s: float = 0.0
    since_s: float | None = None
    healthy_s: float = 0.0

    def fail(self, now_s: float) -> None:
        self.down_s, self.healthy_s = self.owed_s, 0.0
        if self.since_s is None:
            self.since_s = now_s

    def be_well(self, now_s: float, healthy_s: float) -> None:
        self.healthy_s += healthy_s
        if self.since_s is not None:
            self.down_s += now_s - self.since_s
            self.since_s = None

    def leave_out(self, seconds: float) -> None:
        if self.since_s is not None:
            self.since_s += seconds

    @property
    def is_settled(self) -> bool:
        return self.healthy_s >= self.enough_s

    @property
    def owed_s(self) -> float:
        return max(0.0, self.down_s - self.healthy_s) if self.is_settled else self.down_s

    def used_s(self, now_s: float) -> float:
        """How much of its window is used up."""
        return self.owed_s + (0.0 if self.since_s is None else now_s - self.since_s)


class RestartPolicy:
    """The budgets of one query.

    :param interval_ms: how long an epoch is.
    :param chance: gives a number in [0, 1) for the jitter.
    :ivar restarts: how many restarts were granted in all.
    """

    def __init__(
        self,
        options: EngineOptions,
        *,
        interval_ms: int = 0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._windows_s = {
            Blame.INFRASTRUCTURE: options.retry_infrastructure_for_ms / 1000,
            Blame.STORAGE: options.retry_storage_for_ms / 1000,
            Blame.SOURCE: options.retry_source_for_ms / 1000,
            Blame.SINK: options.retry_sink_for_ms / 1000,
        }
        self._restarts_user = options.restarts_user
        self._delay_s = options.restart_delay_ms / 1000
        self._delay_max_s = options.restart_delay_max_ms / 1000
        self._reset_after_s = options.restart_reset_after_s
        self._interval_s = self._open_left_s = interval_ms / 1000
        self._chance = chance
        self._outages = {culprit: self._no_outage() for culprit in Blame}
        self.restarts = 0

    def well(self, *, now_s: float, healthy_s: float) -> None:
        """An epoch was committed; or one was since the last failure, and none has to be now.

        :param now_s: monotonic.
        :param healthy_s: for how long all tasks had run by then, or since this was told before.
        """
        self._open_left_s = self._interval_s
        for culprit, outage in self._outages.items():
            outage.be_well(now_s, healthy_s)
            if self._is_over(culprit, outage):
                self._outages[culprit] = self._no_outage()

    def waited(self, seconds: float) -> None:
        """The query has waited for task slots, and they have come: this uses up nothing."""
        for outage in self._outages.values():
            outage.leave_out(seconds)

    def _no_outage(self) -> _Outage:
        return _Outage(enough_s=self._delay_max_s)

    def _is_over(self, culprit: Blame, outage: _Outage) -> bool:
        if culprit is not Blame.USER and outage.is_settled and not outage.owed_s:
            return True
        return outage.healthy_s >= self._reset_after_s

    def next_delay_s(
        self, error: ContinuousError, *, now_s: float, proven: bool, ran_s: float = 0.0
    ) -> float | None:
        """Grant a restart after this error.

        :param now_s: monotonic.
        :param proven: whether the query has ever committed an epoch.
        :param ran_s: for how long all tasks had run, since the last commit if there was one.
        :return: the pause before it; None if the query has to fail: the error is final, or its
            budget is used up.
        """
        culprit = blame(error)
        if culprit is None:
            return None
        open_s = min(ran_s, self._open_left_s)
        self._open_left_s -= open_s
        for outage in self._outages.values():
            outage.leave_out(open_s)
        self._outages[culprit].fail(now_s)
        left_s = self._left_s(culprit, now_s, proven)
        if left_s < 0.001:  # what rounding leaves is no time
            return None
        used = sum(outage.failures for outage in self._outages.values())
        # With all its jitter, a pause is not longer than the longest one.
        delay_s = min(self._delay_s * 2.0 ** min(used, 64), self._delay_max_s / (1 + JITTER))
        if culprit is Blame.INFRASTRUCTURE and not used:
            delay_s = 0.0  # a lost task need not be given time, as a source that is down must
        self._outages[culprit].failures += 1
        self.restarts += 1
        return min(delay_s * (1 - JITTER + 2 * JITTER * self._chance()), left_s)

    def _left_s(self, culprit: Blame, now_s: float, proven: bool) -> float:
        """What is left of the culprit's window; for the user, whose code has a count, no limit."""
        outage = self._outages[culprit]
        if culprit is Blame.USER:
            return math.inf if outage.failures < self._restarts_user else 0.0
        window_s = self._windows_s[culprit]
        return (window_s if proven else min(window_s, UNPROVEN_S)) - outage.used_s(now_s)
