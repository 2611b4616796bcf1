"""The body of a task: read, transform and write record batches, epoch after epoch.

One iterator per epoch is handed to the sink's writer, which pulls the records through it as they
arrive. The iterator ends when the driver has closed the epoch; the next epoch's writer starts at
once. The epoch ends between two reads, so the reader's offset is exactly what the writer got.

A task may get its rows from other tasks in place of a source, and send them to others in place of
a sink. What it remembers from one epoch to the next is written, as of the end of each, beside the
next one; the epoch is reported when that is durable.
"""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from engine.base.failpoints import reach
from engine.checkpoint.logs.codec import cannot_store
from engine.errors import (
    CheckpointError,
    ContinuousError,
    SinkError,
    TaskLostError,
    TransformError,
)
from engine.expressions.times import zone_rules
from engine.progress.counters import EpochCounters
from engine.sinks.contract import TaskWriter
from engine.sinks.epoch_context import EpochContext
from engine.sources.contract import Offset
from engine.state.arrays import within
from engine.state.contract import EventClock
from engine.task.bad_records import BadRecords
from engine.task.blame import blaming, closing, undoing
from engine.task.by_partition import ReadPartitions
from engine.task.channel import Channel, TaskDismissed
from engine.task.inputs import INTERRUPTED_POLL_S
from engine.task.keeping import Keeping, budget_of
from engine.task.late_letters import late_letters
from engine.task.memory import MemoryLimit
from engine.task.opening import open_intake
from engine.task.reporting import Reporter
from engine.task.sending import SendingWriter
from engine.task.spec import TaskSpec
from engine.task.transform import Transform, compile_steps
from engine.wire.connection import Connection, connect
from engine.wire.messages import (
    Address,
    EpochCommitMessage,
    LettersAlone,
    StateLoading,
    SunkEpoch,
    TaskAlive,
    TaskFailed,
    TaskStarted,
    TaskWired,
    Welcome,
)

_ERRORS = ContinuousError.__module__


def run_task(spec: TaskSpec) -> None:
    """Run until the driver dismisses the task: if it drains, when the final epoch is committed.

    A failure is told to the driver; it is not raised, because the driver decides what follows.

    :raises AuthenticationError: the driver refused the task.
    :raises OSError: the driver cannot be reached.
    """
    assert spec.dialing is not None
    connection = connect(spec.dialing, silence_max_s=spec.silence_max_s)
    if not _is_welcome(connection):
        connection.close()
        return
    channel = Channel(
        connection,
        alive=lambda: TaskAlive(spec.run_id, spec.index),
        heartbeat_s=spec.heartbeat_s,
    )
    try:
        _Task(spec, channel, connection.own_host).run()
    except TaskDismissed:
        pass
    except BaseException as exc:  # SystemExit of a user's function, too
        _tell_failure(channel, exc, spec)
    finally:
        EpochContext.set(None)
        channel.close()


def _is_welcome(connection: Connection) -> bool:
    """Not if the run has ended, or the driver is gone by now."""
    try:
        return isinstance(connection.receive(), Welcome)
    except (EOFError, OSError):
        return False


def _tell_failure(channel: Channel, error: BaseException, spec: TaskSpec) -> None:
    trace = "".join(traceback.format_exception(error))
    channel.send(TaskFailed(spec.run_id, spec.index, _as_continuous_error(error, spec), trace))


class _Task:
    """:param host: this machine's address, as others reach it."""

    def __init__(self, spec: TaskSpec, channel: Channel, host: str) -> None:
        self._spec = spec
        self._channel = channel
        self._host = host
        self._whose = spec.numbers or spec.named
        self._clock = EventClock.starting(
            spec.time.watermark_ms,
            opened_ms=spec.time.opened_ms,
            lag_ms=spec.pipeline.watermark_lag_ms,
            keeps_late=spec.writing.keeps_late,
        )
        self._writer = self._its_writer()
        self._bad = BadRecords(spec.writing.on_bad_record, lambda: self._intake.origin)
        self._reporter = Reporter(channel, self._send, self._fail, self._whose)
        self._ends: dict[int, tuple[Offset, ...]] = {}
        """Where the epochs end that are reported, and not known to be committed."""
        self._failure: BaseException | None = None

    def _its_writer(self) -> TaskWriter:
        spec, exchange = self._spec, self._spec.pipeline.exchange
        if exchange is None:
            return spec.writing.writer
        assert spec.dialing is not None
        return SendingWriter(
            spec.own_place, exchange, spec.groups, self._clock, spec.dialing.secret
        )

    def _reads(self) -> ReadPartitions | None:
        """The partitions of a task that keeps their state."""
        reading, kept = self._spec.reading, self._spec.kept
        if reading is None or kept is None:
            return None
        before = reading.first_partition - kept.owned.start  # of the query, not of the stream
        return ReadPartitions(
            kept.owned,
            lambda: self._intake.partition - before,
            frozenset(number - before for number in reading.done),
        )

    def run(self) -> None:
        with within(budget_of(self._spec.kept)):
            self._run()

    def _run(self) -> None:
        spec, channel = self._spec, self._channel
        if (rules := spec.pipeline.zone_rules) is not None:
            zone_rules.go_by(rules)  # before anything of the source, the steps or the sink runs
        self._intake = open_intake(
            spec,
            channel,
            self._clock,
            host=self._host,
            on_bad_record=self._bad.unreadable if self._bad.tolerates else None,
            is_full=lambda: self._writer.full(),
        )
        channel.on_word, channel.on_work = self._hear, self._intake.take
        with closing(self._intake.close, "closing the source"):
            with blaming(TransformError, "loading the query's functions", self._whose):
                transform = compile_steps(
                    spec.pipeline,
                    self._bad.sift,
                    0 if spec.reading is None else spec.reading.first_partition,
                    self._clock,
                    spec.groups,
                    None if spec.kept is None else spec.kept.owned,
                    self._reads(),
                )
            if spec.reading is not None:
                transform.read_from(lambda: self._intake.partition)
            self._keeping = Keeping(spec, transform.stateful, self._clock)
            self._memory = MemoryLimit(
                0 if spec.kept is None else spec.kept.memory_max_bytes,
                spec.named,
                [each.name for each in transform.stateful],
            )
            self._restore()
            with blaming(SinkError, "opening the sink", self._whose):
                self._writer.open(spec.identity)
            with closing(self._close_writer, "closing the sink"):
                self._start(self._intake.address)
                with (
                    closing(self._keeping.close, "the upkeep of the state"),
                    closing(self._reporter.close, "writing the state"),
                ):
                    self._run_epochs(transform)

    def _restore(self) -> None:
        spec, channel = self._spec, self._channel
        takes_time = spec.kept is not None and bool(spec.kept.restored)
        if takes_time:
            channel.send(StateLoading(spec.run_id, spec.index))
        with blaming(CheckpointError, "reading its state", self._whose):
            self._keeping.restore()
        self._memory.check()
        if takes_time:
            channel.send(StateLoading(spec.run_id, spec.index, is_over=True))

    def _hear(self) -> None:
        """Word from the driver, on the channel's thread."""
        self._intake.interrupt()
        if self._channel.dismissed is not None and isinstance(self._writer, SendingWriter):
            self._writer.close()  # who is to take what it sends may have left

    def _fail(self, error: BaseException) -> None:
        """An epoch cannot be reported; on the reporter's thread."""
        _tell_failure(self._channel, error, self._spec)
        self._channel.leave("an epoch could not be reported")

    def _start(self, address: Address | None) -> None:
        spec, channel = self._spec, self._channel
        where = socket.gethostname(), os.getpid()
        channel.send(TaskStarted(spec.run_id, spec.index, *where, address))
        if not spec.is_wired:
            return
        while channel.wiring is None:
            if channel.dismissed is not None:
                raise TaskDismissed
            channel.await_word(INTERRUPTED_POLL_S)
        if isinstance(self._writer, SendingWriter):
            try:
                self._writer.connect(channel.wiring)
            except TaskLostError:
                if channel.dismissed is not None:
                    raise TaskDismissed from None
                raise
        channel.send(TaskWired(spec.run_id, spec.index))

    def _close_writer(self) -> None:
        with blaming(SinkError, "closing the sink", self._whose):
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
            if self._clock.is_final:
                while channel.dismissed is None:  # the writer is to know whether it was committed
                    channel.await_word(INTERRUPTED_POLL_S)
            self._clock.go_on()
            epoch += 1
        self._tell_committed(committed)

    def _tell_committed(self, told: int) -> int:
        """Tell the writer of the epochs behind ``told``, and the source of the last of them; the
        last one that was told."""
        committed = self._channel.committed_epoch
        for epoch in range(told + 1, committed + 1):
            with blaming(SinkError, "the sink's committed()", self._whose, epoch):
                self._writer.committed(epoch)
            if (ends := self._ends.pop(epoch, None)) is not None and epoch == committed:
                self._intake.committed(ends)
        return max(told, committed)

    def _report(self, epoch: int, message: Any, counters: EpochCounters) -> None:
        spec, offsets = self._spec, self._intake.offsets
        with blaming(CheckpointError, "writing its state", self._whose, epoch):
            snapshot = self._keeping.snapshot(epoch)
        report = EpochCommitMessage(spec.run_id, spec.index, epoch, offsets, message, counters)
        self._reporter.report(report, snapshot)
        self._ends[epoch] = offsets

    def _send(self, report: EpochCommitMessage) -> None:
        message = report.writer_message
        with blaming(SinkError, "sending the writer's message", self._whose, report.epoch):
            try:
                self._channel.send(report)
            except ContinuousError:
                raise
            except Exception as exc:  # of pickling it: it is the same in the next attempt
                raise cannot_store(message, exc) from exc

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
        begun_ns = time.perf_counter_ns()
        try:
            with blaming(SinkError, "the sink's write", self._whose, epoch):
                message = self._writer.write(epoch, batches)
                for _ in batches:
                    raise SinkError(
                        "The sink's write() returned before the end of its iterator.",
                        hint="Consume all batches: what was not read would be lost.",
                    )
        except TaskLostError:
            if self._channel.dismissed is not None:  # who was to take the rows has left, too
                raise TaskDismissed from None
            raise
        took_us = (time.perf_counter_ns() - begun_ns) // 1000
        counters.writing_us = max(0, took_us - counters.reading_us - counters.transforming_us)
        return message

    def _with_letters(self, message: Any, epoch: int) -> Any:
        writer = self._spec.writing.letters
        if writer is None:
            return message
        with blaming(SinkError, "writing dead letters", self._whose, epoch):
            late = late_letters(self._clock.late_rows, epoch, self._intake.origin.source)
            letters = (each for each in chain([self._bad.letters()], late) if each.num_rows)
            first = next(letters, None)
            kept = None if first is None else writer.write(epoch, chain([first], letters))
        if self._spec.writes:
            return SunkEpoch(message, kept)
        return None if kept is None else LettersAlone(kept)

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
        intake = self._intake
        read = intake.batches(epoch, counters, tells_idle=transform.wants_idle)
        arrivals = _Arrivals(self._remembering(read), self._memory)
        transforming = blaming(TransformError, "the query's expressions", self._whose, epoch)
        results = transform.stream(arrivals)
        discards = self._spec.discards and epoch == self._spec.first_epoch
        asking_ns, asked_ns = 0, time.perf_counter_ns()
        while True:
            with transforming:
                batch = next(results, None)
            if batch is None:
                for _ in arrivals:  # a function that reads no further drops the epoch's other rows
                    pass
                asking_ns += time.perf_counter_ns() - asked_ns
                counters.reading_us = arrivals.waited_ns // 1000
                counters.transforming_us = max(0, asking_ns - arrivals.waited_ns) // 1000
                counters.observed = transform.observed()
                counters.event_times_us = transform.event_times_us()
                counters.held_us = transform.held_us(intake.behind())
                counters.late_rows, counters.due_ms = dict(self._clock.late), self._clock.due_ms
                counters.state_rows = {each.name: each.row_count for each in transform.stateful}
                if self._writer.takes_empty and self._clock.is_filled and not counters.rows_written:
                    yield transform.empty
                return
            if discards:
                continue
            asking_ns += time.perf_counter_ns() - asked_ns
            if batch.num_rows:  # a stage with timers returns rows though none have come
                intake.fill(epoch)
            yield batch
            counters.rows_written += batch.num_rows
            asked_ns = time.perf_counter_ns()
            if arrivals.last_ns is not None:
                counters.read_to_written.record(
                    (asked_ns - arrivals.last_ns) // 1000, batch.num_rows
                )


class _Arrivals:
    """Remembers when it has returned a batch for the last time; None: there was none, and rows of
    this epoch are what a watermark has closed. And for how long it was waited for them."""

    def __init__(self, batches: Iterator[pa.RecordBatch], memory: MemoryLimit) -> None:
        self._batches, self._memory = batches, memory
        self.last_ns: int | None = None
        self.waited_ns = 0

    def __iter__(self) -> _Arrivals:
        return self

    def __next__(self) -> pa.RecordBatch:
        asked_ns = time.perf_counter_ns()
        try:
            batch = next(self._batches)
        finally:  # at the end, too
            came_ns = time.perf_counter_ns()
            self.waited_ns += came_ns - asked_ns
        self._memory.arrived(batch.num_rows)
        self.last_ns = came_ns
        return batch


def _as_continuous_error(error: BaseException, spec: TaskSpec) -> ContinuousError:
    if isinstance(error, ContinuousError):
        # A class of the user's own may not be known, or not loadable, on the driver.
        return error if type(error).__module__ == _ERRORS else _nearest(error)
    return ContinuousError(
        f"The task of {spec.named} failed: {type(error).__name__}: {error}",
        partition=spec.numbers[0] if spec.numbers else None,
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
