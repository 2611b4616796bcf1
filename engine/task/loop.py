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
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from engine.base.failpoints import reach
from engine.base.listing import partitions_named
from engine.checkpoint.logs.codec import cannot_store
from engine.errors import ContinuousError, SinkError, SourceError, TransformError
from engine.expressions.times import zone_rules
from engine.pipeline.pipeline import IDLE
from engine.progress.counters import EpochCounters
from engine.sinks.epoch_context import EpochContext
from engine.sources.contract import Offset
from engine.task.bad_records import BadRecords
from engine.task.blame import blaming, closing, undoing
from engine.task.channel import Channel
from engine.task.inputs import INTERRUPTED_POLL_S, MARKER_POLL_S, open_input
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


class TaskDismissed(BaseException):
    """The driver told us to leave. Not an Exception: a writer must not swallow it."""


def run_task(spec: TaskSpec) -> None:
    """Run until the driver dismisses the task: if it drains, when the final epoch is committed.

    A failure is told to the driver; it is not raised, because the driver decides what follows.

    :raises AuthenticationError: the driver refused the task.
    :raises OSError: the driver cannot be reached.
    """
    assert spec.dialing is not None
    connection = connect(spec.dialing)
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
        error = _as_continuous_error(exc, spec.reading.numbers)
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
        self._writer = spec.writing.writer
        self._bad = BadRecords(
            spec.writing.on_bad_record, spec.reading.source, lambda: self._input.partition
        )
        self._partitions = spec.reading.numbers
        self._told_epoch = -1
        """The newest that the driver knows not to be empty."""
        self._ends: dict[int, tuple[Offset, ...]] = {}
        """Where the epochs end that are reported, and not known to be committed."""
        self._failure: BaseException | None = None

    def run(self) -> None:
        spec, partitions = self._spec, self._partitions
        if (rules := spec.reading.pipeline.zone_rules) is not None:
            zone_rules.go_by(rules)  # before anything of the source, the steps or the sink runs
        self._input = open_input(
            spec.reading, self._bad.unreadable if self._bad.tolerates else None
        )
        self._channel.on_word, self._channel.on_work = self._input.interrupt, self._input.take
        with closing(self._input.close, "closing the source"):
            with blaming(TransformError, "loading the query's functions", partitions):
                transform = compile_steps(
                    spec.reading.pipeline,
                    lambda steps, batch: self._bad.sift(steps, batch, self._input.offset),
                    spec.reading.first_partition,
                )
            if transform.wants_idle:
                self._input.wait_s = MARKER_POLL_S
            with blaming(SinkError, "opening the sink", partitions):
                self._writer.open(spec.identity)
            with closing(self._close_writer, "closing the sink"):
                self._channel.send(
                    TaskStarted(spec.run_id, spec.index, socket.gethostname(), os.getpid())
                )
                self._run_epochs(transform)

    def _close_writer(self) -> None:
        with blaming(SinkError, "closing the sink", self._partitions):
            self._writer.close()

    def _run_epochs(self, transform: Transform) -> None:
        spec, channel = self._spec, self._channel
        epoch, committed = spec.first_epoch, spec.first_epoch - 1
        while channel.dismissed is None:
            committed = self._tell_committed(committed)
            counters = EpochCounters()
            with undoing(partial(self._writer.aborted, epoch), f"the sink's aborted({epoch})"):
                message = self._write(transform, epoch, counters)
                reach("report.before")
                self._report(epoch, message, counters)
            reach("report.after")
            if spec.reading.until is not None or epoch == channel.final_epoch:
                while channel.dismissed is None:  # the writer is to know whether it was committed
                    channel.await_word(INTERRUPTED_POLL_S)
            epoch += 1
        self._tell_committed(committed)

    def _tell_committed(self, told: int) -> int:
        """Tell the writer of the epochs behind ``told``, and the source of the last of them; the
        last one that was told."""
        committed = self._channel.committed_epoch
        for epoch in range(told + 1, committed + 1):
            with blaming(SinkError, "the sink's committed()", self._partitions, epoch):
                self._writer.committed(epoch)
            if (ends := self._ends.pop(epoch, None)) is not None and epoch == committed:
                self._input.committed(ends)
        return max(told, committed)

    def _report(self, epoch: int, message: Any, counters: EpochCounters) -> None:
        spec, offsets = self._spec, self._input.offsets
        report = EpochCommitMessage(spec.run_id, spec.index, epoch, offsets, message, counters)
        with blaming(SinkError, "sending the writer's message", self._partitions, epoch):
            try:
                self._channel.send(report)
            except ContinuousError:
                raise
            except Exception as exc:  # of pickling it: it is the same in the next attempt
                raise cannot_store(message, exc) from exc
        self._ends[epoch] = offsets

    def _write(self, transform: Transform, epoch: int, counters: EpochCounters) -> Any:
        """Write one epoch; the message for the driver."""
        message = self._written(transform, epoch, counters)
        if self._failure is not None:
            raise self._failure  # the writer swallowed it, and would lose the record
        return self._with_letters(message, epoch)

    def _written(self, transform: Transform, epoch: int, counters: EpochCounters) -> Any:
        identity = self._spec.identity
        self._bad.begin(epoch, counters)
        EpochContext.set(
            EpochContext(
                identity.query_id, identity.run_id, identity.generation, identity.task, epoch
            )
        )
        batches = self._remembering(self._epoch(transform, epoch, counters))
        with blaming(SinkError, "the sink's write", self._partitions, epoch):
            message = self._writer.write(epoch, batches)
            for _ in batches:
                raise SinkError(
                    "The sink's write() returned before the end of its iterator.",
                    hint="Consume all batches: what was not read would be lost.",
                )
        return message

    def _with_letters(self, message: Any, epoch: int) -> Any:
        writer = self._spec.writing.letters
        if writer is None:
            return message
        with blaming(SinkError, "writing dead letters", self._partitions, epoch):
            letters = self._bad.letters()
            kept = writer.write(epoch, iter([letters])) if letters.num_rows else None
            return SunkEpoch(message, kept)

    def _remembering(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except GeneratorExit:
            raise
        except BaseException as exc:
            self._failure = exc
            raise

    def _epoch(
        self, transform: Transform, epoch: int, counters: EpochCounters
    ) -> Iterator[pa.RecordBatch]:
        arrivals = _Arrivals(self._remembering(self._read(epoch, counters, transform.wants_idle)))
        transforming = blaming(TransformError, "the query's expressions", self._partitions, epoch)
        results = transform.stream(arrivals)
        while True:
            with transforming:
                batch = next(results, None)
            if batch is None:
                for _ in arrivals:  # a function that reads no further drops the epoch's other rows
                    pass
                counters.observed = transform.observed()
                return
            if batch.num_rows:  # a stage with timers returns rows though none have come
                self._tell_filled(epoch)
            yield batch
            counters.rows_written += batch.num_rows
            counters.read_to_written.record(
                (time.perf_counter_ns() - arrivals.last_ns) // 1000, batch.num_rows
            )

    def _read(
        self, epoch: int, counters: EpochCounters, tells_idle: bool
    ) -> Iterator[pa.RecordBatch]:
        channel, source = self._channel, self._input
        bounded, done = self._spec.reading.until is not None, self._spec.reading.done
        reading = blaming(SourceError, "reading the source", lambda: (source.partition,), epoch)
        asking = blaming(SinkError, "the sink's full()", self._partitions, epoch)
        while not (is_closed := channel.closed_epoch >= epoch) or source.midway:
            if channel.dismissed is not None:
                raise TaskDismissed
            with asking:
                # Nobody would close a bounded one, or a second time one that is closed.
                is_full = not bounded and not is_closed and self._writer.full()
            if is_full:
                channel.await_word(INTERRUPTED_POLL_S)
                continue
            with reading:
                batch = source.read_on() if is_closed else source.read()
            if batch is not None and source.partition in done:
                continue
            if batch is not None or counters.bad_records:
                self._tell_filled(epoch)
            if batch is not None:
                counters.rows_read += batch.num_rows
                yield batch
            elif bounded and source.exhausted:
                return
            elif tells_idle:
                yield IDLE

    def _tell_filled(self, epoch: int) -> None:
        """Once per epoch, if the driver wants to know."""
        if self._spec.reading.tells_arrivals and self._told_epoch < epoch:
            self._told_epoch = epoch
            self._channel.send(RecordsArrived(self._spec.run_id, self._spec.index, epoch))


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


def _as_continuous_error(error: BaseException, partitions: Sequence[int]) -> ContinuousError:
    if isinstance(error, ContinuousError):
        # A class of the user's own may not be known, or not loadable, on the driver.
        return error if type(error).__module__ == _ERRORS else _nearest(error)
    return ContinuousError(
        f"The task of {partitions_named(partitions)} failed: {type(error).__name__}: {error}",
        partition=partitions[0],
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
