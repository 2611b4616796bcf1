"""A source and a sink whose every move a test can see and steer, for the engine on threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.adapter import PlainTaskWriter
from engine.sinks.contract import DriverSink, SinkBinding, WriterContext
from engine.sources.contract import DataSourceContinuousReader, Offset, PartitionReader
from engine.task.spec import Reading, TaskSpec, Writing
from engine.wire.connection import Dialing

ONE_ATTEMPT = EngineOptions(
    lease_heartbeat_ms=50,
    retry_infrastructure_for_ms=0,
    retry_storage_for_ms=0,
    retry_source_for_ms=0,
    retry_sink_for_ms=0,
    restarts_user=0,
    restart_delay_ms=10,
)
"""The first failure ends the query."""
HOUR_MS = 3_600_000
NEVER_MS = 100 * 365 * 24 * HOUR_MS
"""An interval of epochs of which no multiple comes while a test runs, as it does of a minute."""
NOT_NAMED = -1
"""The end of a partition that is new since the logged one."""
SCHEMA = pa.schema([pa.field("partition", pa.int32()), pa.field("seq", pa.int64())])


class Feed:
    """The records of each partition: how many there are; record k of partition p is (p, k).

    An exception in ``faults[(partition, seq)]`` is raised once, in place of that record.
    """

    def __init__(self, partitions: int) -> None:
        self.available = [0] * partitions
        self._read: dict[int, int] = {}
        self.faults: dict[tuple[int, int], BaseException] = {}
        self.changed = threading.Condition()

    def add(self, count: int) -> None:
        """Let ``count`` more records appear in every partition."""
        with self.changed:
            self.available = [have + count for have in self.available]
            self.changed.notify_all()

    def await_read(self, count: int, timeout_s: float) -> None:
        """Until ``count`` records of every partition were read, and somebody has asked for more."""
        with self.changed:
            assert self.changed.wait_for(
                lambda: all(self._read.get(p, 0) >= count for p in range(len(self.available))),
                timeout_s,
            ), self._read

    def asked_behind(self, partition: int, seq: int) -> None:
        """A reader has given so many records on; ``changed`` is held."""
        self._read[partition] = seq
        self.changed.notify_all()


class ModelReader(DataSourceContinuousReader):
    """Offsets: ``{"0": next seq, "1": ...}``; of a partition: ``[partition, next seq]``."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.commits: list[Offset] = []
        self.stopped = False
        self.known = 0

    def initialOffset(self) -> Offset:
        return {str(p): 0 for p in range(len(self.feed.available))}

    def partitions(self, start: Offset) -> Sequence[Any]:
        self.known = len(self.feed.available)
        return [(p, start.get(str(p), 0)) for p in range(self.known)]

    def hasComeTo(self, logged: Offset, end: Offset) -> bool:
        left = {p: seq for p, seq in logged.items() if int(p) < self.known}
        return bool(end == left)

    def latestOffset(self, start: Offset) -> Offset | None:
        return {str(p): count for p, count in enumerate(self.feed.available)}

    def needsReconfiguration(self) -> bool:
        return len(self.feed.available) != self.known

    def open(self, partition: Any, until: Offset | None = None) -> PartitionReader:
        index, seq = partition
        end = None if until is None else until.get(str(index), NOT_NAMED)
        return ModelPartitionReader(self.feed, index, seq, end)

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        return {str(p): seq for p, seq in filter(None, offsets)}

    def commit(self, end: Offset) -> None:
        self.commits.append(end)

    def stop(self) -> None:
        self.stopped = True


class ModelPartitionReader(PartitionReader):
    def __init__(self, feed: Feed, index: int, seq: int, end: int | None) -> None:
        self._feed, self._index, self._seq, self._end = feed, index, seq, end

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        with self._feed.changed:
            self._feed.asked_behind(self._index, self._seq)
            if self.exhausted or not self._feed.changed.wait_for(
                lambda: self._feed.available[self._index] > self._seq, timeout_s
            ):
                return None
            fault = self._feed.faults.pop((self._index, self._seq), None)
        if fault is not None:
            raise fault
        row = {"partition": self._index, "seq": self._seq}
        self._seq += 1
        return pa.RecordBatch.from_pylist([row], schema=SCHEMA)

    @property
    def offset(self) -> Offset:
        return [] if self._end == NOT_NAMED else [self._index, self._seq]

    @property
    def exhausted(self) -> bool:
        return self._end is not None and self._seq >= self._end


@dataclass
class ModelMessage:
    """What a task wrote in an epoch: (partition, seq) pairs."""

    rows: list[list[int]]


@dataclass
class ModelSink:
    """Keeps what was committed; ``fail_commit`` raises for an epoch, once."""

    committed: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    commit_calls: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    fail_commit: dict[int, Exception] = field(default_factory=dict)

    def write(self, batches: Iterator[pa.RecordBatch]) -> ModelMessage:
        rows = [[r["partition"], r["seq"]] for batch in batches for r in batch.to_pylist()]
        return ModelMessage(rows)

    def commit(self, messages: list[ModelMessage], epoch: int) -> None:
        self.commit_calls.append(epoch)
        if epoch in self.fail_commit:
            raise self.fail_commit.pop(epoch)
        rows = [(p, seq) for message in messages for p, seq in message.rows]
        self.committed.setdefault(epoch, rows)

    def abort(self, messages: list[ModelMessage], epoch: int) -> None:
        self.aborted.append(epoch)

    def rows(self) -> list[tuple[int, int]]:
        """All committed records, in the order of epochs."""
        return [row for epoch in sorted(self.committed) for row in self.committed[epoch]]

    def assert_exactly_once(self, partitions: int) -> int:
        """No record lost, repeated or out of order; returns how many there are."""
        rows = self.rows()
        for partition in range(partitions):
            seqs = [seq for p, seq in rows if p == partition]
            assert seqs == list(range(len(seqs))), f"partition {partition}: {seqs}"
        return len(rows)


def model_binding(sink: Any) -> SinkBinding:
    """A sink with ``write``, ``commit`` and ``abort`` as a query has it."""
    driver = replace(
        DriverSink.of(sink),
        commit=lambda messages, epoch: sink.commit(messages, epoch),  # a test may put another there
        delivery="exactly once",
    )
    return SinkBinding(driver, PlainTaskWriter(sink.write), "model", ("tests.model",))


def silent_binding(**offers: Any) -> SinkBinding:
    """A sink that takes everything and keeps nothing.

    :param offers: what its driver's side has beyond it.
    """
    driver = DriverSink(lambda messages, epoch: None, lambda messages, epoch: None, **offers)
    return SinkBinding(driver, PlainTaskWriter(list), "nothing")


def definition(
    feed: Feed, sink: ModelSink, folder: Path, *, interval_ms: int = 20, **options: Any
) -> QueryDefinition:
    """A query from the feed to the sink with a checkpoint in ``folder``."""
    relation = SourceRelation("model", {}, SCHEMA)
    return QueryDefinition(
        name="model",
        streams=(StreamBinding(Pipeline(relation, (), SCHEMA), ModelReader(feed), "model"),),
        sink=model_binding(sink),
        checkpoint=Checkpoint(str(folder)),
        epoch_interval_ms=interval_ms,
        options=replace(ONE_ATTEMPT, **options),
    )


def task_spec(made: QueryDefinition, dialing: Dialing) -> TaskSpec:
    """The task of its first partition, from the beginning, of a run without a driver."""
    return TaskSpec(
        identity=WriterContext("q", "r", 0, 0, task=0, tasks=1),
        index=0,
        reading=Reading(made.streams[0].reader, ((0, 0),), made.streams[0].pipeline),
        writing=Writing(made.sink.writer),
        first_epoch=0,
        dialing=dialing,
    )
