"""The body of a task: read, transform and write record batches, epoch after epoch.

One iterator per epoch is handed to the sink's writer, which pulls the records through it as they
arrive. The iterator ends when the driver has closed the epoch; the next epoch's writer starts at
once. The epoch ends between two reads, so the reader's offset is exactly what the writer got.
"""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Iterator

import pyarrow as pa

from engine.base.failpoints import reach
from engine.errors import ContinuousError, SinkError, SourceError, TransformError
from engine.progress.counters import EpochCounters
from engine.sources.contract import PartitionReader
from engine.task.bad_records import BadRecords
from engine.task.channel import Channel
from engine.task.context import EpochContext
from engine.task.spec import TaskSpec
from engine.task.transform import Transform, compile_steps
from engine.wire.connection import Connection, connect
from engine.wire.messages import (
    EpochCommitMessage,
    RecordsArrived,
    SunkEpoch,
    TaskAlive,
    TaskFailed,
    TaskStarted,
    Welcome,
)

_ERRORS = ContinuousError.__module__
MARKER_POLL_S = 0.005
"""An idle reader waits so long between two looks at the marker."""


class TaskDismissed(BaseException):
    """The driver told us to leave. Not an Exception: a writer must not swallow it."""


def run_task(spec: TaskSpec) -> None:
    """Run until the driver dismisses the task, or until its final epoch is reported.

    A failure is told to the driver; it is not raised, because the driver decides what follows.

    :raises AuthenticationError: the driver refused the task.
    :raises OSError: the driver cannot be reached.
    """
    connection = connect(spec.address, spec.secret)
    if not _is_welcome(connection):
        connection.close()
        return
    channel = Channel(
        connection,
        alive=lambda: TaskAlive(spec.run_id, spec.index),
        heartbeat_s=spec.heartbeat_s,
    )
    try:
        _Task(spec, channel).run()
    except TaskDismissed:
        pass
    except BaseException as exc:  # SystemExit of a user's function, too
        error = _as_continuous_error(exc, spec.index)
        channel.send(TaskFailed(spec.run_id, spec.index, error, traceback.format_exc()))
    finally:
        EpochContext.set(None)
        channel.close()


def _is_welcome(connection: Connection) -> bool:
    """Not if the run has ended, or the driver is gone by now."""
    try:
        return isinstance(connection.receive(), Welcome)
    except (EOFError, OSError):
        return False


class _Task:
    def __init__(self, spec: TaskSpec, channel: Channel) -> None:
        self._spec = spec
        self._channel = channel
        self._bad = BadRecords(spec.on_bad_record, spec.source, spec.index)
        self._failure: BaseException | None = None

    def run(self) -> None:
        spec = self._spec
        with _blaming(SourceError, "opening the source", spec.index):
            reader = spec.reader.open(spec.source_partition, spec.until)
            if self._bad.tolerates:
                reader.on_bad_record = self._bad.unreadable
        try:
            with _blaming(TransformError, "loading the query's functions", spec.index):
                transform = compile_steps(
                    spec.pipeline, lambda steps, batch: self._bad.sift(steps, batch, reader.offset)
                )
            self._channel.send(
                TaskStarted(spec.run_id, spec.index, socket.gethostname(), os.getpid())
            )
            self._run_epochs(reader, transform)
        finally:
            reader.close()

    def _run_epochs(self, reader: PartitionReader, transform: Transform) -> None:
        spec, channel = self._spec, self._channel
        epoch = spec.first_epoch
        while channel.dismissed is None:
            counters = EpochCounters()
            self._bad.begin(epoch, counters)
            EpochContext.set(
                EpochContext(spec.query_id, spec.run_id, spec.generation, spec.index, epoch)
            )
            batches = self._remembering(self._epoch(reader, transform, epoch, counters))
            with _blaming(SinkError, "the sink's write", spec.index, epoch):
                message = spec.write(batches)
                for _ in batches:
                    raise SinkError(
                        "The sink's write() returned before the end of its iterator.",
                        hint="Consume all batches: what was not read would be lost.",
                    )
            if self._failure is not None:
                raise self._failure  # the writer swallowed it, and would lose the record
            if spec.write_letters is not None:
                with _blaming(SinkError, "writing dead letters", spec.index, epoch):
                    letters = self._bad.letters()
                    kept = spec.write_letters(iter([letters])) if letters.num_rows else None
                    message = SunkEpoch(message, kept)
            reach("report.before")
            with _blaming(SinkError, "sending the writer's message", spec.index, epoch):
                channel.send(
                    EpochCommitMessage(
                        spec.run_id, spec.index, epoch, reader.offset, message, counters
                    )
                )
            reach("report.after")
            if spec.until is not None or epoch == channel.final_epoch:
                return
            epoch += 1

    def _remembering(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except GeneratorExit:
            raise
        except BaseException as exc:
            self._failure = exc
            raise

    def _epoch(
        self, reader: PartitionReader, transform: Transform, epoch: int, counters: EpochCounters
    ) -> Iterator[pa.RecordBatch]:
        arrivals = _Arrivals(self._remembering(self._read(reader, epoch, counters)))
        transforming = _blaming(TransformError, "the query's expressions", self._spec.index, epoch)
        results = transform.stream(arrivals)
        while True:
            with transforming:
                batch = next(results, None)
            if batch is None:
                for _ in arrivals:  # a function that reads no further drops the epoch's other rows
                    pass
                return
            yield batch
            counters.rows_written += batch.num_rows
            counters.read_to_written.record(
                (time.perf_counter_ns() - arrivals.last_ns) // 1000, batch.num_rows
            )

    def _read(
        self, reader: PartitionReader, epoch: int, counters: EpochCounters
    ) -> Iterator[pa.RecordBatch]:
        channel = self._channel
        bounded = self._spec.until is not None
        untold = self._spec.tells_arrivals
        reading = _blaming(SourceError, "reading the source", self._spec.index, epoch)
        while channel.closed_epoch < epoch:
            if channel.dismissed is not None:
                raise TaskDismissed
            with reading:
                batch = reader.read(MARKER_POLL_S)
            if untold and (batch is not None or counters.bad_records):
                channel.send(RecordsArrived(self._spec.run_id, self._spec.index, epoch))
                untold = False
            if batch is not None:
                counters.rows_read += batch.num_rows
                yield batch
            elif bounded and reader.exhausted:
                return


class _Arrivals:
    """Remembers when it has returned a batch for the last time."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.last_ns = 0

    def __iter__(self) -> _Arrivals:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        self.last_ns = time.perf_counter_ns()
        return batch


class _blaming:
    """Errors inside the block become errors of the engine that say whose they are."""

    def __init__(
        self, blame: type[ContinuousError], doing: str, partition: int, epoch: int | None = None
    ) -> None:
        self._blame, self._doing = blame, doing
        self._partition, self._epoch = partition, epoch

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception):
            return
        if not isinstance(error, ContinuousError):
            raise self._blame(
                f"Partition {self._partition} failed in {self._doing}: "
                f"{type(error).__name__}: {error}",
                partition=self._partition,
                epoch=self._epoch,
            ) from error
        error.partition = self._partition if error.partition is None else error.partition
        error.epoch = self._epoch if error.epoch is None else error.epoch


def _as_continuous_error(error: BaseException, partition: int) -> ContinuousError:
    if isinstance(error, ContinuousError):
        # A class of the user's own may not be known, or not loadable, on the driver.
        return error if type(error).__module__ == _ERRORS else _nearest(error)
    return ContinuousError(
        f"The task of partition {partition} failed: {type(error).__name__}: {error}",
        partition=partition,
    )


def _nearest(error: ContinuousError) -> ContinuousError:
    """The same error as one of the engine's own classes."""
    own: type[ContinuousError] = next(
        base for base in type(error).__mro__ if base.__module__ == _ERRORS
    )
    nearest = own.__new__(own)
    ContinuousError.__init__(
        nearest,
        f"{type(error).__name__}: {error.message}",
        hint=error.hint,
        epoch=error.epoch,
        partition=error.partition,
    )
    return nearest
