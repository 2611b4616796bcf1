"""What happens to the coordinator (events, past tense) and what it decides (actions, imperative).

Messages of tasks (:mod:`engine.wire.messages`) are events as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.checkpoint.epoch_state import NO_MARKS, Marks
from engine.errors import ContinuousError
from engine.wire.messages import Address, EpochCommitMessage, TaskEvent


@dataclass(frozen=True)
class EpochElapsed:
    """The open epoch has lasted as long as the trigger's interval says.

    :param at_ms: when, by the wall clock.
    """

    at_ms: int = 0


@dataclass(frozen=True)
class EpochWanted:
    """Somebody has begun to wait for an epoch: the open one may be empty no longer than others."""


@dataclass(frozen=True)
class EpochLogged:
    """Of :class:`CommitEpoch` is done what a restart can finish: the sink gets it later, together
    with others."""

    epoch: int


@dataclass(frozen=True)
class EpochCommitted:
    """All steps of :class:`CommitEpoch` are done, also of the epochs before it that were logged."""

    epoch: int


@dataclass(frozen=True)
class CommitFailed:
    epoch: int
    error: ContinuousError


@dataclass(frozen=True)
class TaskLost:
    """A task's connection ended, or it was silent for too long."""

    partition: int
    reason: str


@dataclass(frozen=True)
class TasksEnded:
    """The launcher's tasks have all ended, with an error if they failed."""

    error: ContinuousError | None


@dataclass(frozen=True)
class DrainAsked:
    """Finish the open epoch, commit it, then end."""


@dataclass(frozen=True)
class StopAsked:
    """End now; what is not prepared is dropped."""


@dataclass(frozen=True)
class RunFailed:
    """Something outside the epochs ended the run, e.g. the lease was lost."""

    error: ContinuousError


Event = (
    TaskEvent
    | EpochElapsed
    | EpochWanted
    | EpochLogged
    | EpochCommitted
    | CommitFailed
    | TaskLost
    | TasksEnded
    | DrainAsked
    | StopAsked
    | RunFailed
)


@dataclass(frozen=True)
class CloseEpoch:
    """Tell every task that the epoch is over.

    :param final: tasks end after it.
    :param next_watermark_ms: the watermark of the next epoch.
    """

    epoch: int
    final: bool
    next_watermark_ms: int = 0


@dataclass(frozen=True)
class CommitEpoch:
    """Make the epoch durable.

    :param reports: one per partition, in partition order.
    :param final: the last of the run: the sink gets it now.
    :param watermark_ms: during the epoch; ``next_watermark_ms`` behind it.
    :param marks: see :class:`engine.checkpoint.epoch_state.EpochState`.
    """

    epoch: int
    reports: tuple[EpochCommitMessage, ...]
    final: bool = False
    watermark_ms: int = 0
    next_watermark_ms: int = 0
    marks: Marks = NO_MARKS


@dataclass(frozen=True)
class WireTasks:
    """Tell every task where the tasks are that it sends rows to.

    :param addresses: see :class:`engine.wire.messages.Wiring`.
    """

    addresses: Mapping[int, tuple[Address, ...]]


@dataclass(frozen=True)
class EndRun:
    """Dismiss the tasks and end the run.

    :param error: why it failed; None for an end that was asked for.
    """

    error: ContinuousError | None


Action = WireTasks | CloseEpoch | CommitEpoch | EndRun
