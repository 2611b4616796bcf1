"""Every error the engine raises.

::

    ContinuousError                 .hint  .epoch  .partition  .retryable
    ├ ConfigError                   wrong before anything started
    │ ├ UnsupportedQueryError       the plan holds what cannot run continuously
    │ └ NotEnoughSlotsError         fewer free task slots than the query can do with
    ├ ClusterEndedError             Spark is gone: only a new driver helps
    ├ CheckpointError
    │ ├ CheckpointCorruptError      gap, torn or unreadable entry
    │ ├ CheckpointVersionError      written by a newer engine
    │ └ ConcurrentRunError          another run owns this checkpoint
    ├ SourceError
    │ ├ SourceUnavailableError      retryable
    │ ├ OffsetOutOfRangeError       data expired before it was read
    │ ├ SourceChangedError          this start cannot go on with what is there; final
    │ └ BadRecordError              a record that cannot be parsed
    ├ SinkError
    │ ├ SinkUnavailableError        surely not committed; retryable
    │ ├ SinkCommitRejectedError     surely not committed; final
    │ ├ SinkCommitUnknownError      maybe committed: the restart table decides
    │ ├ PreparedEpochLostError      surely not committed as a whole: is run again; retryable
    │ └ SinkAheadError              the sink belongs to another checkpoint
    ├ TaskError
    │ ├ TransformError              an expression or the user's function failed on a record
    │ ├ StateTooLargeError          a task has more memory than the query allows; final
    │ ├ TaskLostError               a task died or fell silent
    │ │ └ PeerLostError             another task misses it
    │ └ EpochStalledError           an epoch is not committed: names the late partition
    └ ProtocolError                 our bug: please report
      ├ AuthenticationError         a peer that does not know the run's secret
      ├ StaleRunError               a message of an older run
      └ EpochBacklogError           no epoch is closed for too long: names the late partition
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.redaction.texts import redact


class ContinuousError(Exception):
    """Base of all errors of the engine. ``continuous errors CLASS`` says more.

    Much of what they say comes from others (a database's error, a user's function). What looks
    like a secret is hidden as it comes in, so that whoever shows an error, or a part of it, need
    not think of it.

    :param message: what went wrong: the thing and the cause.
    :param hint: what to do next, shown after the message.
    :param epoch: the epoch concerned, if one is.
    :param partition: the partition concerned, if one is; the first one if it may be several.
    """

    retryable: bool = False

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        epoch: int | None = None,
        partition: int | None = None,
    ) -> None:
        self.message = message
        super().__init__(self.message)
        self.hint = None if hint is None else redact(hint)
        self.epoch = epoch
        self.partition = partition

    @property
    def message(self) -> str:
        """What went wrong, without secrets."""
        return self._message

    @message.setter
    def message(self, text: str) -> None:
        self._message = redact(text)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel from executors to the driver: keyword arguments have to survive.
        return (_rebuild, (type(self), self.message, self.__dict__.copy()))


def _rebuild(
    error_class: type[ContinuousError], message: str, state: dict[str, Any]
) -> ContinuousError:
    error = error_class.__new__(error_class)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


def in_the_catalogue(error: BaseException | None) -> str | None:
    """The class to look an error up by in the catalogue: of a class of a user's own, the one that
    it is a kind of; None of an error that is none of the engine's."""
    if not isinstance(error, ContinuousError):
        return None
    ours = (kind for kind in type(error).__mro__ if kind.__module__.startswith("engine."))
    return next(ours).__name__


class ConfigError(ContinuousError):
    """Something is wrong with the query, its options or the machine; nothing was started."""


class UnsupportedQueryError(ConfigError):
    """The plan holds parts that cannot run continuously; ``problems`` lists them all."""

    def __init__(self, problems: Iterable[str], *, hint: str | None = None) -> None:
        self.problems = tuple(problems)
        super().__init__(
            "This query cannot run continuously: " + "; ".join(self.problems) + ".", hint=hint
        )


class ClusterEndedError(ContinuousError):
    """Spark itself has ended, and can be started again only with a new driver."""


class NotEnoughSlotsError(ConfigError):
    """The query needs a slot for each of its tasks at once, and fewer are free.

    :param free: how many it could have.
    """

    def __init__(self, message: str, *, free: int = 0, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.free = free


class CheckpointError(ContinuousError):
    """The checkpoint directory cannot be used."""


class CheckpointCorruptError(CheckpointError):
    """A log has a gap, or holds a torn or unreadable entry."""


class CheckpointVersionError(CheckpointError):
    """An entry was written by a newer engine or a newer Spark."""


class ConcurrentRunError(CheckpointError):
    """Another run owns this checkpoint."""


class SourceError(ContinuousError):
    """A source failed."""


class SourceUnavailableError(SourceError):
    """The source cannot be reached now."""

    retryable = True


class OffsetOutOfRangeError(SourceError):
    """The data at the requested offset no longer exists."""


class SourceChangedError(SourceError):
    """The source is, or has, what this start of the query cannot go on with: another try would find
    the same."""


class BadRecordError(SourceError):
    """A record cannot be parsed; names where it is.

    :param record: what the source holds, whole.
    :param offset: the position of the record's partition behind it, as the reader tells offsets.
    """

    def __init__(
        self, message: str, *, record: str | None = None, offset: Any = None, **rest: Any
    ) -> None:
        super().__init__(message, **rest)
        self.record = record
        self.offset = offset


class SinkError(ContinuousError):
    """A sink failed."""


class SinkUnavailableError(SinkError):
    """The sink cannot be reached; the epoch is surely not committed in it."""

    retryable = True


class SinkCommitRejectedError(SinkError):
    """The sink refused the epoch for good; it is surely not committed."""


class SinkCommitUnknownError(SinkError):
    """The commit may or may not have happened; the next start finds out."""


class PreparedEpochLostError(SinkError):
    """The sink has dropped what was prepared of an epoch, so that its rows have to be written
    again: a restart runs the epoch again to the end that is logged.

    :param done: the tasks, by their index, whose rows are committed all the same.
    """

    retryable = True

    def __init__(self, message: str, *, done: Iterable[int] = (), **rest: Any) -> None:
        super().__init__(message, **rest)
        self.done = frozenset(done)


class SinkAheadError(SinkError):
    """The sink holds epochs that this checkpoint has never prepared."""


class TaskError(ContinuousError):
    """A task failed."""


class TransformError(TaskError):
    """An expression or a user's function failed on a record."""


class StateTooLargeError(TaskError):
    """A task with state has more memory than the query allows, as it would after a restart."""


class TaskLostError(TaskError):
    """A task died, or was silent for too long."""

    retryable = True


class PeerLostError(TaskLostError):
    """A task that another one gets rows from, or sends rows to, is gone: it has failed itself, has
    died, or cannot be reached."""


class EpochStalledError(TaskError):
    """An epoch that has ended is not committed for too long."""

    retryable = True


class ProtocolError(ContinuousError):
    """A bug of the engine. Please report it with the log of the query."""


class AuthenticationError(ProtocolError):
    """The peer does not know the secret of this run."""


class StaleRunError(ProtocolError):
    """A message or a write of an older run was refused."""


class EpochBacklogError(ProtocolError):
    """The open epoch could not be closed for `epochBacklogMax` intervals, for a partition has not
    ended an earlier one."""
