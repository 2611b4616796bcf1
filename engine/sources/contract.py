"""What a continuous source is: the one method that it adds to PySpark's data source interface.

A source is a ``pyspark.sql.datasource.DataSource`` with one more method,
``continuousReader(schema) -> DataSourceContinuousReader``. Names follow PySpark's
``DataSourceStreamReader``.

Offsets are JSON values (dict, list, str, int) and always name the position of the **next** record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from engine.errors import BadRecordError, ProtocolError

if TYPE_CHECKING:
    from engine.checkpoint.storage.contract import Storage

Offset = Any

TUNING_OPTIONS: Final = frozenset(
    {"maxOffsetsPerTrigger", "maxRowsPerSecond", "pollIntervalMs", "startingOffsets",
     "startingTimestamp"}
)  # fmt: skip
"""How fast, and where a new query begins: what hardly any source knows its data by."""


class PartitionReader(ABC):
    """Reads one partition on an executor, for as long as the query lives.

    :ivar on_bad_record: what to do with a record that cannot be parsed. Where it is None,
        :meth:`read` raises; otherwise it calls this, and goes on behind the record.
    """

    on_bad_record: Callable[[BadRecordError], None] | None = None
    interruptible: ClassVar[bool] = False
    """Whether :meth:`interrupt` works. A reader for which it does not is asked every few
    milliseconds, because an epoch ends between two reads."""

    @abstractmethod
    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        """The records that are there, or None if none came within ``timeout_s`` seconds.

        Returns as soon as anything is there, and never later than ``timeout_s`` plus the time of
        one fetch: an epoch ends between two calls. A batch has at least one row, and its columns
        are those of the schema that the reader was made with.

        :raises SourceError: the partition cannot be read.
        :raises BadRecordError: a record cannot be parsed, and :attr:`on_bad_record` is None.
        """

    @property
    @abstractmethod
    def offset(self) -> Offset:
        """The position behind everything that :meth:`read` has returned. Beware of off by one:
        a new reader that starts here returns exactly the records that this one has not."""

    @property
    def exhausted(self) -> bool:
        """Whether everything before ``until`` was returned; always False without ``until``."""
        return False

    @property
    def caught_up(self) -> bool | None:
        """Whether :meth:`read` has returned all that was there when it looked last. None: the
        reader cannot tell, and has if a read returns nothing. Of a partition that has not, the
        query's watermark waits for what it has still to bring."""
        return None

    @property
    def has_more(self) -> bool:
        """Whether something has come since, as far as can be told at once. Asked of a partition
        that had caught up, at the end of an epoch in which others kept the task busy: what they
        have brought makes nothing late that was there."""
        return self.caught_up is False

    @property
    def in_order(self) -> bool:
        """Whether event times come one behind another, more or less, as in one log; not so where
        logs are read one behind another. Asked of a partition that has not caught up: of one in
        order the newest event time tells how far it has come."""
        return True

    @property
    def midway(self) -> bool:
        """Whether :attr:`offset` is ahead of what :meth:`read` has returned, because what lies
        before it can only be read as a whole. No epoch ends there: it is as long as that takes."""
        return False

    def committed(self, end: Offset) -> None:  # noqa: B027
        """Everything before ``end``, an :attr:`offset` of this reader, is in the commit log. Told
        between two epochs, of several only the last; that of a last epoch before :meth:`close`.
        A task that fails is told no more. For what has to be let go where it was read: the driver's
        side has a ``commit`` of its own."""

    def take(self, work: Any) -> None:
        """Read this as well: what :class:`HandingOut` has for this partition. Called from another
        thread, in the order in which the driver has handed it out and closed epochs."""
        raise ProtocolError(f"{type(self).__name__} was handed {type(work).__name__}.")

    def interrupt(self) -> None:  # noqa: B027
        """Have a :meth:`read` that waits return at once, or the next one if none does. Called from
        another thread."""

    def close(self) -> None:  # noqa: B027
        """Release what is held. Not called when the process is killed."""


class PartitionsReader(ABC):
    """Reads several partitions on an executor over what they share, such as a connection.

    :ivar on_bad_record: as of a :class:`PartitionReader`.
    """

    on_bad_record: Callable[[BadRecordError], None] | None = None
    interruptible: ClassVar[bool] = False

    @abstractmethod
    def read(self, timeout_s: float) -> tuple[int, pa.RecordBatch] | None:
        """As :meth:`PartitionReader.read`: records of one of the partitions, and which it is by its
        place among them. A partition that has many must not keep the others waiting."""

    @property
    @abstractmethod
    def offsets(self) -> Sequence[Offset]:
        """As :attr:`PartitionReader.offset`, of each partition."""

    @property
    def caught_up(self) -> Collection[int] | None:
        """As :attr:`PartitionReader.caught_up`: the places of those that have. None: it cannot
        tell, and all have if a read returns nothing."""
        return None

    def having_more(self, places: Sequence[int]) -> Collection[int]:
        """As :attr:`PartitionReader.has_more`: those of these places that have. They have caught up
        no more."""
        caught_up = self.caught_up
        return () if caught_up is None else [each for each in places if each not in caught_up]

    @property
    def exhausted(self) -> bool:
        """Whether everything before ``until`` was returned, of all partitions."""
        return False

    def interrupt(self) -> None:  # noqa: B027
        """As :meth:`PartitionReader.interrupt`."""

    def close(self) -> None:  # noqa: B027
        """As :meth:`PartitionReader.close`."""


class HandingOut(ABC):
    """What the driver finds during one run, and its tasks read: files of a folder, for example."""

    @abstractmethod
    def next(self, timeout_s: float) -> Mapping[int, Any] | None:
        """What there is to be read now: by the number of a partition of the source, something for
        its :meth:`PartitionReader.take`. None if there is nothing within ``timeout_s`` seconds. All
        of it is read before an epoch ends that the driver closes later, or none is begun.

        On a thread of its own, which waits for nobody else.

        :raises SourceError: the source cannot be looked at.
        """


class DataSourceContinuousReader(ABC):
    """The driver's side of a source. Is pickled to the executors, where only :meth:`open` is
    called.

    :cvar tuningOptions: those of the source's options that may change between two starts: they tell
        neither which data is read nor what its offsets look like. In any case.
    :cvar recordColumns: those that tell one record of a partition from the others: they are read
        whether or not the query uses them, so that dead letters and errors name the record.
    :cvar readsOnce: what was read cannot be read again: it is lost if it is not committed when
        something fails. Such a query starts only with a sink whose rows do not stay either, or if
        ``acceptsLoss``, which the user has said by an option ``failOnDataLoss`` of the source.
    :cvar keepsCommitted: what is committed can be read again, beside a query that runs: False where
        the source lets go of it, or has one reader at a time.
    :cvar runsInBatches: Spark itself runs this source in micro-batches, and not continuously: so
        the offset log is written as these can go on with it.
    """

    tuningOptions: Collection[str] = TUNING_OPTIONS
    recordColumns: Collection[str] = ()
    readsOnce: ClassVar[bool] = False
    acceptsLoss: bool = False
    keepsCommitted: ClassVar[bool] = True
    runsInBatches: ClassVar[bool] = False

    handsOut: ClassVar[bool] = False
    """Whether :meth:`handingOut` gives partitions their work: so nobody knows beforehand in which
    of them a record will be."""

    keepsLog: ClassVar[bool] = False
    """Whether the source keeps a log of its own in the checkpoint, from its beginning on, in the
    place of its :meth:`initialOffset`."""

    def openLog(self, storage: Storage, folder: str) -> None:
        """Where that log is; told before all else of each attempt.

        :param folder: of the storage, for example ``sources/0``.
        """
        raise ProtocolError(f"{type(self).__name__} keeps no log.")

    @abstractmethod
    def initialOffset(self) -> Offset:
        """Where a new query starts. Asked once in the life of a checkpoint: the answer is kept."""

    @abstractmethod
    def partitions(self, start: Offset) -> Sequence[Any]:
        """Split the stream from ``start`` on into picklable partitions. A task reads one, or
        several in turn where there are fewer slots. Asked once before tasks are started, which an
        attempt to run the query does once; twice if it first has to run an epoch again whose end is
        in the offset log: from the end of the epoch before, and from that one's.

        A partition may have a ``name`` that tells it from the others of the source, and stays the
        same when there are others beside it; without one its place among them does. Where it would
        have other records then, an ``exact_name`` tells it from that one, too.

        :raises SourceError: ``start`` is not an offset of this source, or no longer exists.
        """

    @abstractmethod
    def open(self, partition: Any, until: Offset | None = None) -> PartitionReader:
        """On the executor: start reading one of :meth:`partitions`.

        :param until: an offset of the whole stream: return no record behind it, and be
            :attr:`PartitionReader.exhausted` when all before it were returned. Used to run an
            epoch again whose end is already in the offset log; a partition that is new since then
            is not in it, and may not be in what :meth:`mergeOffsets` makes.
        """

    def openTogether(
        self, partitions: Sequence[Any], until: Offset | None = None
    ) -> PartitionsReader | None:
        """As :meth:`open`, for all partitions of a task; None if each is opened by itself."""
        return None

    def handingOut(self, start: Offset, until: Offset | None = None) -> HandingOut | None:
        """What gives :meth:`partitions` their work while they are open; None if they find it
        themselves. Asked once per run, before its tasks start.

        :param until: as of :meth:`open`.
        """
        return None

    @abstractmethod
    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        """One offset of the whole stream from those of all partitions, in partition order. Asked
        once for each epoch, in their order, when this run has just held the checkpoint."""

    def hasComeTo(self, logged: Offset, end: Offset) -> bool:
        """Whether an epoch that was run again to ``logged`` has come to it.

        :param end: of :meth:`mergeOffsets`. A source whose partitions may vanish leaves out of
            ``logged`` what nobody can read to its end any more.
        """
        return bool(end == logged)

    def needsReconfiguration(self) -> bool:
        """Whether :meth:`partitions` of the present would be others than those of this run: asked
        twice a second while the query runs, on a thread of its own. The engine then finishes the
        open epoch and starts new tasks from there."""
        return False

    def latestOffset(self, start: Offset) -> Offset | None:
        """Where the stream ends now: what lag, and waiting for all that is there, are measured by.
        None if the source cannot tell. May be called from any thread.

        :param start: where the query has come to, or where it begins.
        :raises SourceError: the source cannot be asked.
        """
        return None

    def knownEnd(self) -> Offset | None:
        """Where the stream ended when the source saw it last: asks nobody, for progress reports are
        made with each commit, and the lease tells of it with each heartbeat, from another thread,
        and once more after :meth:`stop`. None if it has not seen it."""
        return None

    def hasReached(self, committed: Offset, wanted: Offset) -> bool | None:
        """Whether everything before ``wanted`` also comes before ``committed``, or is not in the
        source any more and will never be read. None for offsets whose order is known without this
        method, see :mod:`engine.sources.offset_order`. Asked after each commit, while others wait:
        it must not take long."""
        return None

    def prune(self, columns: Sequence[str]) -> DataSourceContinuousReader | None:
        """A reader whose batches have only these columns, in this order; None if there is none.
        Records that are bad only in other columns are then read without an error."""
        return None

    def commit(self, end: Offset) -> None:  # noqa: B027
        """Everything before ``end`` is durable in the sink and will never be asked for again.
        Called from a thread of its own; if it takes long, of several epochs only for the last."""

    def stop(self) -> None:  # noqa: B027
        """The query has ended: release what the driver's side holds."""
