"""What a task gets, epoch by epoch: from a source until the driver closes the epoch, or from other
tasks until all of them have ended it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from engine.errors import ProtocolError, SinkError, SourceError, TaskLostError
from engine.exchange.receiver import Receiver
from engine.pipeline.pipeline import IDLE, Watermark
from engine.pipeline.stateful import SIDE
from engine.progress.counters import EpochCounters
from engine.sources.contract import Offset
from engine.state.contract import EventClock
from engine.task.blame import blaming
from engine.task.channel import Channel, TaskDismissed
from engine.task.inputs import INTERRUPTED_POLL_S, MARKER_POLL_S, Behind, TaskInput
from engine.task.spec import Reading, TaskSpec
from engine.wire.messages import Address, RecordsArrived

_ROWS_MAX: Final = 1 << 17
_BYTES_MAX: Final = 1 << 28
"""So many rows, and bytes, are put together at most, of what has arrived at once."""


class Origin(NamedTuple):
    """Where a record comes from, for errors and letters.

    :param source: its name, or that of the task that got it from others.
    :param partition: its number; None of a task that reads no source.
    :param offset: behind the last batch.
    """

    source: str
    partition: int | None
    offset: Offset | None


class Intake(ABC):
    """See the module.

    :param clock: hears how each epoch ends, before its batches do.
    :ivar address: where it takes rows from other tasks, if it does.
    """

    address: Address | None = None

    def __init__(self, spec: TaskSpec, channel: Channel, clock: EventClock) -> None:
        self._spec, self._channel, self._clock = spec, channel, clock

    @property
    @abstractmethod
    def offsets(self) -> tuple[Offset, ...]:
        """Where each partition stands behind the batches so far; none without a source."""

    @abstractmethod
    def batches(
        self, epoch: int, counters: EpochCounters, *, tells_idle: bool
    ) -> Iterator[pa.RecordBatch]:
        """Those of an epoch, as they come.

        :param tells_idle: :data:`~engine.pipeline.pipeline.IDLE` stands among them whenever nothing
            has come for a while.
        :raises TaskDismissed: the task has to leave.
        """

    @property
    @abstractmethod
    def origin(self) -> Origin:
        """Where the last batch came from."""

    @property
    def partition(self) -> int:
        """The number of the one that the last batch came from."""
        raise ProtocolError(f"{type(self).__name__} reads no partition.")

    def behind(self) -> Mapping[int, Behind]:
        """At the end of an epoch: the numbers of the partitions for which a watermark waits."""
        return {}

    def fill(self, epoch: int) -> None:  # noqa: B027
        """The epoch is not empty, whatever :meth:`batches` has returned."""

    def committed(self, ends: tuple[Offset, ...]) -> None:  # noqa: B027
        """Everything before these earlier :attr:`offsets` is in the commit log.

        :raises SourceError: a partition's source failed to take it.
        """

    def take(self, work: Mapping[int, Any]) -> None:
        """Read what was handed out. From any thread."""
        raise ProtocolError(f"{type(self).__name__} was handed work.")

    @abstractmethod
    def interrupt(self) -> None:
        """Look at once at what the driver has said. From any thread."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held.

        :raises SourceError: that failed.
        """


class SourceIntake(Intake):
    """The partitions that the task reads.

    :param is_full: whether the sink takes no more in this epoch.
    """

    def __init__(
        self,
        spec: TaskSpec,
        reading: Reading,
        source: TaskInput,
        channel: Channel,
        clock: EventClock,
        is_full: Callable[[], bool],
    ) -> None:
        super().__init__(spec, channel, clock)
        self._reading, self._source, self._is_full = reading, source, is_full
        self._has_watermark = any(isinstance(each, Watermark) for each in spec.pipeline.steps)
        self._told_epoch = -1
        """The newest that the driver knows not to be empty."""

    @property
    def offsets(self) -> tuple[Offset, ...]:
        return self._source.offsets

    @property
    def origin(self) -> Origin:
        return Origin(self._reading.source, self._source.partition, self._source.offset)

    @property
    def partition(self) -> int:
        return self._source.partition

    def behind(self) -> Mapping[int, Behind]:
        return self._source.behind() if self._has_watermark else {}

    def committed(self, ends: tuple[Offset, ...]) -> None:
        if self._reading.tells_commits:
            self._source.committed(ends)

    def take(self, work: Mapping[int, Any]) -> None:
        self._source.take(work)

    def interrupt(self) -> None:
        self._source.interrupt()

    def close(self) -> None:
        self._source.close()

    def batches(
        self, epoch: int, counters: EpochCounters, *, tells_idle: bool
    ) -> Iterator[pa.RecordBatch]:
        channel, source = self._channel, self._source
        source.begin_epoch()
        bounded, done = self._reading.until is not None, self._reading.done
        if tells_idle:
            source.wait_s = MARKER_POLL_S
        reading = blaming(SourceError, "reading the source", lambda: (source.partition,), epoch)
        asking = blaming(SinkError, "the sink's full()", self._reading.numbers, epoch)
        while not (is_closed := channel.closed_epoch >= epoch) or source.midway:
            if channel.dismissed is not None:
                raise TaskDismissed
            with asking:
                # Nobody would close a bounded one, or a second time one that is closed.
                is_full = not bounded and not is_closed and self._is_full()
            if is_full:
                channel.await_word(INTERRUPTED_POLL_S)
                continue
            with reading:
                batch = source.read_on() if is_closed else source.read()
            if batch is not None and source.partition in done:
                continue
            # What has released a watermark does not wait for the end of an empty epoch.
            if (
                batch is not None
                or counters.bad_records
                or (self._has_watermark and source.has_released)
            ):
                self.fill(epoch)
            if batch is not None:
                counters.rows_read += batch.num_rows
                yield batch
            elif bounded and source.exhausted:
                break
            elif tells_idle:
                yield IDLE
        self._end(epoch)

    def fill(self, epoch: int) -> None:
        """Tells the driver, once per epoch, if it wants to know."""
        if self._reading.tells_arrivals and self._told_epoch < epoch:
            self._told_epoch = epoch
            self._channel.send(RecordsArrived(self._spec.run_id, self._spec.index, epoch))

    def _end(self, epoch: int) -> None:
        marker, time = self._channel.take_marker(epoch), self._spec.time
        if marker is None:  # its end was given
            self._clock.end(
                next_watermark_ms=time.end_watermark_ms, next_opened_ms=time.opened_ms, final=True
            )
        else:
            self._clock.end(
                next_watermark_ms=marker.next_watermark_ms,
                next_opened_ms=marker.next_opened_ms,
                final=marker.final,
            )


class ExchangeIntake(Intake):
    """The rows that other tasks send. A sink that is full is not asked: the end of the epoch stands
    behind the rows that are under way."""

    def __init__(
        self,
        spec: TaskSpec,
        receiver: Receiver,
        sides: tuple[pa.Schema, ...],
        address: Address,
        channel: Channel,
        clock: EventClock,
    ) -> None:
        super().__init__(spec, channel, clock)
        self._receiver = receiver
        self.address = address
        self._schemas = sides
        if len(sides) > 1:
            self._schemas = tuple(
                schema.with_metadata({SIDE: b"%d" % side}) for side, schema in enumerate(sides)
            )

    @property
    def offsets(self) -> tuple[Offset, ...]:
        return ()

    @property
    def origin(self) -> Origin:
        return Origin(self._spec.named, None, None)

    def interrupt(self) -> None:
        self._receiver.interrupt()

    def close(self) -> None:
        self._receiver.close()

    def batches(
        self, epoch: int, counters: EpochCounters, *, tells_idle: bool
    ) -> Iterator[pa.RecordBatch]:
        channel, receiver = self._channel, self._receiver
        receiving = blaming(TaskLostError, "receiving rows", self._spec.named, epoch)
        while (end := receiver.end) is None:
            if channel.dismissed is not None:
                raise TaskDismissed
            try:
                with receiving:
                    arrived = receiver.read(MARKER_POLL_S if tells_idle else INTERRUPTED_POLL_S)
            except Exception:
                if channel.dismissed is not None:  # the others leave, too
                    raise TaskDismissed from None
                raise
            if not arrived and tells_idle:
                yield IDLE
            yield from self._together(arrived)
        receiver.go_on()
        channel.take_marker(epoch)  # which came in band
        self._clock.end(
            next_watermark_ms=end.next_watermark_ms,
            next_opened_ms=end.next_opened_ms,
            final=end.final,
            filled=end.filled,
        )

    def _together(self, arrived: list[tuple[int, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """What has arrived at once, in batches that are worth while."""
        for side, schema in enumerate(self._schemas):
            waiting: list[pa.RecordBatch] = []
            rows = nbytes = 0
            for each, batch in arrived:
                if each != side:
                    continue
                size = batch.get_total_buffer_size()
                rows += batch.num_rows
                nbytes += size
                if waiting and (rows > _ROWS_MAX or nbytes > _BYTES_MAX):
                    yield _joined(waiting, schema)
                    waiting, rows, nbytes = [], batch.num_rows, size
                waiting.append(batch)
            if waiting:
                yield _joined(waiting, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    return batch.replace_schema_metadata(schema.metadata)
