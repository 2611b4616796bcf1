"""When a query that has failed is started again in place, and when it is given up.

Every failure is somebody's, and each has a budget of its own: a sink that is down for an hour must
not use up what a lost executor needs. What can come back by itself (executors, storage, sources,
sinks) has a window of time, counted from the first failure of an outage until epochs have been
committed for a healthy time: how often a database refuses while it fails over says nothing. The
user's own code fails the same way again, and has a count.

The pauses grow exponentially, with jitter, so that the queries of a whole cluster do not come back
in the same moment. The last attempt is made when the window ends.

Some errors are final: another start would meet them again, or do harm.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
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
    SourceError,
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


class RestartPolicy:
    """The budgets of one query.

    :param chance: gives a number in [0, 1) for the jitter.
    :ivar restarts: how many restarts were granted in all.
    """

    def __init__(self, options: EngineOptions, chance: Callable[[], float] = random.random) -> None:
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
        self._chance = chance
        self._forget()
        self.restarts = 0

    def next_delay_s(
        self, error: ContinuousError, *, now_s: float, healthy_s: float, proven: bool
    ) -> float | None:
        """Grant a restart after this error.

        :param now_s: monotonic.
        :param healthy_s: for how long epochs were committed before it.
        :param proven: whether the query has ever committed an epoch.
        :return: the pause before it; None if the query has to fail: the error is final, or its
            budget is used up.
        """
        if healthy_s >= self._reset_after_s:
            self._forget()
        culprit = blame(error)
        if culprit is None:
            return None
        left_s = self._left_s(culprit, now_s, proven)
        if left_s <= 0:
            return None
        used = sum(self._failures.values())
        # With all its jitter, a pause is not longer than the longest one.
        delay_s = min(self._delay_s * 2.0 ** min(used, 64), self._delay_max_s / (1 + JITTER))
        if culprit is Blame.INFRASTRUCTURE and not used:
            delay_s = 0.0  # a lost task need not be given time, as a source that is down must
        self._failures[culprit] += 1
        self.restarts += 1
        return min(delay_s * (1 - JITTER + 2 * JITTER * self._chance()), left_s)

    def _left_s(self, culprit: Blame, now_s: float, proven: bool) -> float:
        """What is left of the culprit's window; for the user, whose code has a count, no limit."""
        if culprit is Blame.USER:
            return math.inf if self._failures[culprit] < self._restarts_user else 0.0
        window_s = self._windows_s[culprit]
        since_s = self._since_s.setdefault(culprit, now_s)
        return since_s + (window_s if proven else min(window_s, UNPROVEN_S)) - now_s

    def _forget(self) -> None:
        self._failures = dict.fromkeys(Blame, 0)
        self._since_s: dict[Blame, float] = {}
        """When the culprit's outage began."""
