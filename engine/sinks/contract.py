"""What a sink is: the twin of :mod:`engine.sources.contract`.

A sink is a ``pyspark.sql.datasource.DataSource`` with a stream writer, as in Spark: ``write`` runs
on the executors once per epoch, ``commit(messages, epoch)`` and ``abort(messages, epoch)`` on the
driver. That is enough. What a stream writer may offer beyond it, each a method or an attribute; a
registered one inherits from :class:`ContinuousWriter` to say that it means these, for somebody
else's ``validate`` may be anything:

=====================  =====================================================================
``bind``               :class:`~engine.checkpoint.sink_context.Binds`: is told whose epochs it gets
``validate``           :class:`Validates`: is tried before a task runs
``latestEpoch``        :class:`~engine.checkpoint.rewindable.RemembersEpochs`
``checkLogged``        :class:`ChecksLogged`
``rewind``, ...        :mod:`engine.checkpoint.rewindable`: takes committed rows back
``afterRewind``        :class:`HearsRewinds`
``taskWriter``         :class:`HasTaskWriter`: lives on the executor as long as the task
``commitTogether``     :class:`CommitsTogether`
``commitIntervalMs``   so long it may get no commit while epochs are logged; 0: each at once
``delivery``           the guarantee, :data:`AT_LEAST_ONCE` if there is none
``tuningOptions``      options that may change between two starts
``secretOptions``      options whose values are neither shown nor kept, whatever they look like
``shipsRows``          True: its messages hold rows, and leave the checkpoint soon
``taskSlots``          how many task slots the Spark jobs of its ``commit`` need at least
``path``               the folder, whatever the working directory of the next start is; or what
                       else the checkpoint may know the place by
``mayDropPrepared``    True: what was prepared of an epoch may expire there, which ``commit`` tells
                       by a :class:`~engine.errors.PreparedEpochLostError`
``fenceTasks``         :class:`FencesTasks`
``messageTypes``       of the engine's own sinks: the classes of its messages, by their tags
=====================  =====================================================================

Nothing here needs pyspark: a task loads it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from engine.checkpoint.logs.codec import MessageCodec
from engine.checkpoint.rewindable import NOT_REWINDABLE, RemembersEpochs, RewindableSink
from engine.checkpoint.sink_context import Binds, BoundContext, SinkContext

EXACTLY_ONCE: Final = "exactly once"
AT_LEAST_ONCE: Final = "at least once"


# -- on the executor ------------------------------------------------------------------------------


@dataclass(frozen=True)
class WriterContext(SinkContext):
    """The same for one task.

    :param task: its index, from 0.
    :param tasks: how many write to this sink.
    """

    task: int
    tasks: int


class TaskWriter(ABC):
    """The executor's side of a sink: one object per task, which lives as long as the task. Is
    pickled to the executor, where alone these methods are called, all on one thread.

    :ivar takes_empty: in output mode complete a batch without rows tells that the task has nothing
        of a new result; else an epoch without batches says that there is no new one.
    """

    takes_empty: bool = False

    def open(self, context: WriterContext) -> None:  # noqa: B027
        """Called once, before the first epoch."""

    @abstractmethod
    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Any:
        """Write one epoch: its batches as they arrive. The iterator ends with the epoch and must be
        consumed. What was written must be durable on return, and invisible until the commit if the
        sink is :data:`EXACTLY_ONCE`.

        :return: the message for the driver's ``commit``: all that another process needs to finish
            the epoch without this task.
        """

    def full(self) -> bool:
        """Whether the epoch that is being written holds as much as it may. Asked before each read:
        while it is so, nothing more is read, and the epoch ends when the driver says. Not asked
        where a restart repeats an epoch whose end is given."""
        return False

    def committed(self, epoch: int) -> None:  # noqa: B027
        """The epoch is in the commit log. Told in order, between two epochs. A query that drains
        tells it of its last epoch, too, before :meth:`close`; a task that fails, or has to leave in
        the middle of an epoch, is told no more."""

    def aborted(self, epoch: int) -> None:  # noqa: B027
        """The epoch that was being written will not be reported: this task fails or has to leave.
        Not called for an epoch that was reported, which may still be committed by a restart."""

    def close(self) -> None:  # noqa: B027
        """Release what is held. Not called when the process is killed. If it fails when the query
        has drained, that is only logged."""


# -- on the driver --------------------------------------------------------------------------------


class ContinuousWriter:
    """A stream writer that knows of this engine: what it has of the list above is called."""


@runtime_checkable
class Validates(Protocol):
    """A sink that can be tried."""

    def validate(self) -> None:
        """:raises ConfigError: it cannot be written to; nothing has started."""


@runtime_checkable
class ChecksLogged(Protocol):
    """A sink that keeps more than its rows."""

    def checkLogged(self, epoch: int) -> None:
        """:param epoch: the newest one in the offset log, -1 if there is none.
        :raises SinkAheadError: the sink has later ones: it belongs to another checkpoint.
        """


@runtime_checkable
class HearsRewinds(Protocol):
    """A sink that keeps more than its rows, of which the rewind itself does not know."""

    def afterRewind(self, epoch: int) -> None:
        """The checkpoint was rewound at some time.

        :param epoch: the newest one in the offset log.
        """


@runtime_checkable
class FencesTasks(Protocol):
    """A sink to which a task that was given up may still write."""

    def fenceTasks(self) -> None:
        """End what earlier tasks of this query have begun, and see that they begin nothing more.
        Called before tasks run, when all that was prepared is committed.

        :raises SinkUnavailableError: it cannot be reached.
        """


@runtime_checkable
class CommitsTogether(Protocol):
    """A sink that can make several epochs visible in one step."""

    def commitTogether(self, epochs: Sequence[tuple[int, Sequence[Any]]]) -> None:
        """As ``commit`` of each, skipping what is there: all are on return, and none before the
        others. Another run may have committed the first of them, together with others or alone.

        :param epochs: each with its messages, in their order.
        """


@runtime_checkable
class HasTaskWriter(Protocol):
    """A sink that is an object on the executor, too."""

    def taskWriter(self) -> TaskWriter:
        """The executor's side."""


@dataclass(frozen=True)
class DriverSink:
    """A stream writer on the driver, with what it offers; None for what it does not."""

    commit: Callable[[Sequence[Any], int], None]
    abort: Callable[[Sequence[Any], int], None]
    bind: Callable[[BoundContext], None] | None = None
    validate: Callable[[], None] | None = None
    latest_epoch: Callable[[], int | None] | None = None
    check_logged: Callable[[int], None] | None = None
    fence_tasks: Callable[[], None] | None = None
    after_rewind: Callable[[int], None] | None = None
    commit_together: Callable[[Sequence[tuple[int, Sequence[Any]]]], None] | None = None
    commit_interval_ms: int = 0
    rewindable: RewindableSink = NOT_REWINDABLE
    delivery: str = AT_LEAST_ONCE
    tuning_options: Collection[str] = ()
    secret_options: Collection[str] = ()
    path: str | None = None
    ships_rows: bool = False
    may_drop_prepared: bool = False
    task_slots: int = 0
    message_types: Mapping[str, type] = field(default_factory=dict)

    @classmethod
    def of(cls, writer: Any) -> DriverSink:
        """Look once at what a stream writer offers."""
        path = getattr(writer, "path", None)
        return cls(
            commit=writer.commit,
            abort=writer.abort,
            bind=writer.bind if isinstance(writer, Binds) else None,
            validate=writer.validate if isinstance(writer, Validates) else None,
            latest_epoch=writer.latestEpoch if isinstance(writer, RemembersEpochs) else None,
            check_logged=writer.checkLogged if isinstance(writer, ChecksLogged) else None,
            fence_tasks=writer.fenceTasks if isinstance(writer, FencesTasks) else None,
            after_rewind=writer.afterRewind if isinstance(writer, HearsRewinds) else None,
            commit_together=writer.commitTogether if isinstance(writer, CommitsTogether) else None,
            commit_interval_ms=int(getattr(writer, "commitIntervalMs", 0)),
            rewindable=RewindableSink.of(writer),
            delivery=str(getattr(writer, "delivery", AT_LEAST_ONCE)),
            tuning_options=getattr(writer, "tuningOptions", ()),
            secret_options=getattr(writer, "secretOptions", ()),
            path=None if path is None else str(path),
            ships_rows=bool(getattr(writer, "shipsRows", False)),
            may_drop_prepared=bool(getattr(writer, "mayDropPrepared", False)),
            task_slots=int(getattr(writer, "taskSlots", 0)),
            message_types=getattr(writer, "messageTypes", {}),
        )


@dataclass(frozen=True)
class SinkBinding:
    """A sink bound to its path and options.

    :param driver: its side on the driver.
    :param writer: its side on the executors.
    :param description: for explain and progress, e.g. ``parquet[/data/out]``.
    :param message_modules: where the classes of a third party's messages may come from.
    :param letters: writes the dead letters of an epoch, if they are kept.
    :param format: its name, and ``options`` the user's options: they tell one sink from another.
    """

    driver: DriverSink
    writer: TaskWriter
    description: str
    message_modules: Collection[str] = ()
    letters: TaskWriter | None = None
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def codec(self) -> MessageCodec:
        """Stores the writer's messages."""
        return MessageCodec(self.driver.message_types, self.message_modules)
