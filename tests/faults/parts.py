"""The source, the sinks and the tasks of the simulated query.

Record k of partition p is the pair (p, k). A sink tells what a reader sees, as one set of records
per epoch, or as one for all where it does not know.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from engine.checkpoint.sink_context import SinkContext
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import (
    ContinuousError,
    OffsetOutOfRangeError,
    PreparedEpochLostError,
    SinkCommitRejectedError,
    StaleRunError,
)
from engine.query.binding import bind_writer
from engine.sinks.contract import AT_LEAST_ONCE, EXACTLY_ONCE, DriverSink, SinkBinding
from engine.sinks.files.data_source import JsonDataSource
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog
from tests.faults.processes import SINK, SOURCE, Machine
from tests.model import SCHEMA, Feed, ModelMessage, ModelReader, model_binding

Record = tuple[int, int]
OUT = "/out"
SPARK_SCHEMA = StructType([StructField("partition", IntegerType()), StructField("seq", LongType())])


class Source(ModelReader):
    """Forgets what was acknowledged to it, as a queue does; or not, as a log does."""

    def __init__(self, machine: Machine, partitions: int, *, forgets: bool) -> None:
        super().__init__(Feed(partitions))
        self.machine, self.forgets = machine, forgets
        self.forgotten = [0] * partitions
        self.begins_at_the_end = False

    def initialOffset(self) -> dict[str, int]:
        self.machine.weather.reach(SOURCE)
        if self.begins_at_the_end:
            return {str(p): count for p, count in enumerate(self.feed.available)}
        return super().initialOffset()

    def partitions(self, start: dict[str, int]) -> Sequence[Any]:
        self.machine.weather.reach(SOURCE)
        return super().partitions(start)

    def take(self, partition: int, seq: int, count: int) -> list[Record]:
        """Up to ``count`` records from ``seq`` on.

        :raises OffsetOutOfRangeError: they were acknowledged before.
        :raises OSError: the source is down.
        """
        self.machine.weather.reach(SOURCE)
        if seq < self.forgotten[partition]:
            raise OffsetOutOfRangeError(f"record {seq} of partition {partition} is gone")
        end = min(seq + count, self.feed.available[partition])
        return [(partition, each) for each in range(seq, end)]

    def commit(self, end: dict[str, int]) -> None:
        self.machine.weather.reach(SOURCE)
        for partition, seq in end.items() if self.forgets else ():
            self.forgotten[int(partition)] = max(self.forgotten[int(partition)], seq)


class KeyedSink:
    """A table somewhere else with the epoch as its key: an epoch that is there is not taken again.
    What a run from before a rewind wants to commit is refused.

    :param tells: whether it can tell its newest epoch.
    """

    delivery = EXACTLY_ONCE
    repeats_allowed = False
    shows_whole_epochs = True

    def __init__(self, machine: Machine, tells: bool) -> None:
        self.machine = machine
        self.table: dict[int, list[Record]] = {}
        self.fence = -1
        self.newest_generation: Callable[[], int] = lambda: -1
        if tells:
            self.latestEpoch = lambda: max(self.table, default=-1)
        if self.delivery == EXACTLY_ONCE:
            self.rewind = self._rewind

    def write(self, batches: Iterator[pa.RecordBatch]) -> ModelMessage:
        rows = [[r["partition"], r["seq"]] for batch in batches for r in batch.to_pylist()]
        return ModelMessage(rows)

    def commit(self, messages: Sequence[ModelMessage], epoch: int) -> None:
        self.machine.weather.reach(SINK)
        self.machine.step("sink", f"sink/{epoch}" if epoch not in self.table else "sink")
        current = self.machine.current
        if current is not None and (current.generation or 0) < self.fence:
            raise SinkCommitRejectedError(f"generation {self.fence} has rewound the table")
        if epoch not in self.table:
            self.put(epoch, [(p, seq) for message in messages for p, seq in message.rows])
        self.machine.step("sink answers", "sink")

    def _rewind(self, epoch: int) -> None:
        self.machine.step("sink", "sink")
        self.fence = max(self.fence, self.newest_generation())
        for later in [each for each in self.table if each > epoch]:
            del self.table[later]
        self.machine.step("sink answers", "sink")

    def put(self, epoch: int, rows: list[Record]) -> None:
        self.table[epoch] = rows

    def abort(self, messages: Sequence[ModelMessage], epoch: int) -> None:
        pass

    def has(self, epoch: int, parts: Sequence[Sequence[Record]]) -> None:
        """The sink has taken an epoch before the story begins."""
        self.put(epoch, [row for part in parts for row in part])

    def seen(self) -> Counter[Record]:
        return Counter(row for rows in self.table.values() for row in rows)

    def binding(self) -> SinkBinding:
        return replace(model_binding(self), driver=DriverSink.of(self), description="table")


class LakeSink(KeyedSink):
    """A table that takes several epochs in one step, tells which it has, and refuses runs from
    before the last that has written. Now and then somebody changes it so that it does not take what
    is prepared."""

    mayDropPrepared = True

    def __init__(self, machine: Machine, chance: Random) -> None:
        super().__init__(machine, tells=True)
        self._chance = chance
        self.changes = True
        self._layout = 0

    def write(self, batches: Iterator[pa.RecordBatch]) -> ModelMessage:
        return ModelMessage([[-1, self._layout], *super().write(batches).rows])

    def commit(self, messages: Sequence[ModelMessage], epoch: int) -> None:
        self.commitTogether([(epoch, messages)])

    def commitTogether(self, epochs: Sequence[tuple[int, Sequence[ModelMessage]]]) -> None:
        self.machine.weather.reach(SINK)
        is_news = epochs[-1][0] > max(self.table, default=-1)
        self.machine.step("sink", f"sink/{epochs[-1][0]}" if is_news else "sink")
        self._check_run()
        if self.changes and self._chance.random() < 0.03:
            self._layout += 1
        latest = max(self.table, default=-1)
        for epoch, messages in epochs:
            rows = [(p, seq) for message in messages for p, seq in message.rows]
            if epoch > latest and any(p < 0 and layout != self._layout for p, layout in rows):
                raise PreparedEpochLostError("the table is partitioned in another way")
        for epoch, messages in epochs:
            if epoch > latest:
                rows = [(p, seq) for message in messages for p, seq in message.rows]
                self.put(epoch, [row for row in rows if row[0] >= 0])
        self.machine.step("sink answers", "sink")

    def _rewind(self, epoch: int) -> None:
        self.machine.step("sink", "sink")
        self._check_run()
        for later in [each for each in self.table if each > epoch]:
            del self.table[later]
        self.machine.step("sink answers", "sink")

    def _check_run(self) -> None:
        current = self.machine.current
        generation = -1 if current is None else current.generation or 0
        if generation < self.fence:
            raise StaleRunError(f"generation {self.fence} has written to the table")
        self.fence = generation


class TransactionalSink:
    """A broker with a transaction for each task and epoch, which it aborts when nobody has ended it
    for long: the committed ones are seen one after the other."""

    delivery = EXACTLY_ONCE
    mayDropPrepared = True
    repeats_allowed = False
    shows_whole_epochs = False

    def __init__(self, machine: Machine, chance: Random) -> None:
        self.machine, self._chance = machine, chance
        self.times_out = True
        self._transactions: list[_Transaction] = []

    def write(self, batches: Iterator[pa.RecordBatch]) -> ModelMessage:
        self.machine.weather.reach(SINK)
        rows = [(r["partition"], r["seq"]) for batch in batches for r in batch.to_pylist()]
        self._transactions.append(_Transaction(rows))
        return ModelMessage([[len(self._transactions) - 1]])

    def commit(self, messages: Sequence[ModelMessage], epoch: int) -> None:
        self.machine.weather.reach(SINK)
        self._time_passes(0.05)
        found = [self._of(message) for message in messages]
        if ABORTED not in [each.state for each in found]:
            path = f"sink/{epoch}"
            for each in found:
                self.machine.step("sink", path if each.state == OPEN else "sink")
                path = "sink"
                each.end(COMMITTED, epoch)
        done = [task for task, each in enumerate(found) if each.state == COMMITTED]
        self.machine.step("sink answers", "sink")
        if len(done) < len(found):
            self.abort(messages, epoch)
            raise PreparedEpochLostError("A transaction has timed out.", done=done)

    def abort(self, messages: Sequence[ModelMessage], epoch: int) -> None:
        for message in messages:
            self.machine.step("sink aborts", "sink")
            self._of(message).end(ABORTED, epoch)

    def bind(self, context: SinkContext) -> None:
        self._time_passes(0.3)

    def fenceTasks(self) -> None:
        for each in self._transactions:
            each.end(ABORTED, -1)
        self.machine.step("sink fences", "sink")

    def rewind(self, epoch: int) -> None:
        self.machine.step("sink", "sink")
        for each in self._transactions:
            if each.state == OPEN or each.epoch > epoch:
                each.state = ABORTED
        self.machine.step("sink answers", "sink")

    def seen(self) -> Counter[Record]:
        committed = [each for each in self._transactions if each.state == COMMITTED]
        return Counter(row for each in committed for row in each.rows)

    def binding(self) -> SinkBinding:
        return replace(model_binding(self), driver=DriverSink.of(self), description="broker")

    def _of(self, message: ModelMessage) -> _Transaction:
        return self._transactions[message.rows[0][0]]

    def _time_passes(self, chance: float) -> None:
        for each in self._transactions:
            if self.times_out and each.state == OPEN and self._chance.random() < chance:
                each.state = ABORTED


OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


@dataclass
class _Transaction:
    rows: list[Record]
    state: str = OPEN
    epoch: int = -1

    def end(self, state: str, epoch: int) -> None:
        if self.state == OPEN:
            self.state, self.epoch = state, epoch


class PlainSink(KeyedSink):
    """Shows each record as soon as it is written."""

    delivery = AT_LEAST_ONCE
    repeats_allowed = True

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, tells=False)
        self.shown: Counter[Record] = Counter()

    def write(self, batches: Iterator[pa.RecordBatch]) -> ModelMessage:
        self.machine.weather.reach(SINK)
        message = super().write(batches)
        for partition, seq in message.rows:
            self.machine.step("sink", "sink")
            self.shown[partition, seq] += 1
        return message

    def put(self, epoch: int, rows: list[Record]) -> None:
        pass

    def has(self, epoch: int, parts: Sequence[Sequence[Record]]) -> None:
        self.shown.update(row for part in parts for row in part)

    def seen(self) -> Counter[Record]:
        return self.shown


class FilesSink:
    """The engine's own JSON files, on the same disk as the checkpoint."""

    repeats_allowed = False
    shows_whole_epochs = True

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def binding(self) -> SinkBinding:
        source = JsonDataSource({"path": OUT, "compactInterval": "3"})
        return bind_writer(source.streamWriter(SPARK_SCHEMA, overwrite=False), "json")

    def has(self, epoch: int, parts: Sequence[Sequence[Record]]) -> None:
        """The sink has taken an epoch before the story begins."""
        binding = self.binding()
        batches = [batch_of(part) for part in parts if part]
        binding.driver.commit([binding.writer.write(epoch, iter(batches))], epoch)

    def seen(self) -> Counter[Record]:
        """What a reader of the folder sees now.

        :raises SinkError, OSError, ValueError: it cannot be read.
        """
        found: Counter[Record] = Counter()
        for file in FileSinkLog(LocalStorage(f"{OUT}/{FOLDER}")).files():
            data = self.machine.disk.content(unquote(urlsplit(file.path).path))
            if len(data) != file.size:
                raise ValueError(f"{file.path} has {len(data)} bytes, not {file.size}")
            for line in data.splitlines():
                row = json.loads(line)
                found[row["partition"], row["seq"]] += 1
        return found


UNREADABLE = (ContinuousError, OSError, ValueError, KeyError)
"""What :meth:`FilesSink.seen` raises for a folder that is damaged."""


def batch_of(rows: Sequence[Record]) -> pa.RecordBatch:
    """Records as a task gets them from a reader."""
    columns: list[Any] = [[p for p, _ in rows], [seq for _, seq in rows]]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )
