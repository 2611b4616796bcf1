"""When a query that has failed is started again in place, and when it is given up.

Every failure is somebody's, and each has a budget of its own: a sink that is down for an hour must
not use up what a lost executor needs. The pauses grow exponentially, with jitter, so that the
queries of a whole cluster do not come back in the same moment.

Some errors are final: another start would meet them again, or do harm.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum

from engine.base.options import EngineOptions
from engine.errors import (
    BadRecordError,
    CheckpointCorruptError,
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
    """Whose failure it is. The value begins the name of the budget's option."""

    INFRASTRUCTURE = "infrastructure"
    SOURCE = "source"
    SINK = "sink"
    USER = "user"


def blame(error: ContinuousError) -> Blame | None:
    """Whose failure it is; None if a restart in place cannot help."""
    if isinstance(error, NotEnoughSlotsError):
        return Blame.INFRASTRUCTURE  # an executor is gone, its replacement not there yet
    if isinstance(error, _FINAL):
        return None
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
        self._budgets = {
            Blame.INFRASTRUCTURE: options.restarts_infrastructure,
            Blame.SOURCE: options.restarts_source,
            Blame.SINK: options.restarts_sink,
            Blame.USER: options.restarts_user,
        }
        self._delay_s = options.restart_delay_ms / 1000
        self._delay_max_s = options.restart_delay_max_ms / 1000
        self._reset_after_s = options.restart_reset_after_s
        self._chance = chance
        self._used = dict.fromkeys(Blame, 0)
        self.restarts = 0

    def next_delay_s(self, error: ContinuousError, healthy_s: float) -> float | None:
        """Grant a restart after this error.

        :param healthy_s: for how long epochs were committed before it.
        :return: the pause before it; None if the query has to fail: the error is final, or its
            budget is used up.
        """
        if healthy_s >= self._reset_after_s:
            self._used = dict.fromkeys(Blame, 0)
        culprit = blame(error)
        if culprit is None or self._used[culprit] >= self._budgets[culprit]:
            return None
        used = sum(self._used.values())
        # With all its jitter, a pause is not longer than the longest one.
        delay_s = min(self._delay_s * 2.0 ** min(used, 64), self._delay_max_s / (1 + JITTER))
        if culprit is Blame.INFRASTRUCTURE and not used:
            delay_s = 0.0  # a lost task need not be given time, as a source that is down must
        self._used[culprit] += 1
        self.restarts += 1
        return delay_s * (1 - JITTER + 2 * JITTER * self._chance())
