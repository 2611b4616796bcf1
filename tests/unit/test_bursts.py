"""After a quiet time much comes into all partitions of a task: nothing of it is late because
another partition was read first."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

import pyarrow as pa
import pytest

from engine.coordinator.watermarks import Watermarks
from engine.expressions.row_context import Rows
from engine.pipeline.pipeline import Pipeline, SourceRelation, Watermark
from engine.sources.contract import PartitionReader, PartitionsReader
from engine.task.event_times import EventTimes
from engine.task.inputs import open_input
from engine.task.spec import Reading
from tests.model import Feed, ModelReader

PARTITIONS, BATCHES, ROWS = 4, 6, 60
BEGIN_S = 1_000
SCHEMA = pa.schema([("at", pa.timestamp("us"))])
PIPELINE = Pipeline(SourceRelation("model", {}, SCHEMA), (), SCHEMA)


class Queue(PartitionReader):
    offset = 0

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    @property
    def caught_up(self) -> bool:
        return not self.batches

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        return self.batches.pop(0) if self.batches else None


class Queues(PartitionsReader):
    """Knows of each as much as it knew when it was read last, as a client that is not asked."""

    offsets = (0,) * PARTITIONS

    def __init__(self, queues: Sequence[Queue]) -> None:
        self.queues, self.known, self.turn = queues, set(range(PARTITIONS)), 0

    @property
    def caught_up(self) -> Set[int]:
        return self.known

    def having_more(self, places: Sequence[int]) -> Collection[int]:
        found = [place for place in places if self.queues[place].batches]
        self.known.difference_update(found)
        return found

    def read(self, timeout_s: float) -> tuple[int, pa.RecordBatch] | None:
        for _ in self.queues:
            self.turn = (self.turn + 1) % PARTITIONS
            if (batch := self.queues[self.turn].read(timeout_s)) is not None:
                self.known -= {self.turn}
                self.known |= {self.turn} if self.queues[self.turn].caught_up else set()
                return self.turn, batch
        return None


def batch(first_s: int) -> pa.RecordBatch:
    times = [(BEGIN_S + first_s + row) * 1_000_000 for row in range(ROWS)]
    return pa.record_batch([pa.array(times, pa.timestamp("us"))], schema=SCHEMA)


@pytest.mark.parametrize("before", range(PARTITIONS))
@pytest.mark.parametrize("together", [False, True])
def test_no_row_of_it_is_late(monkeypatch: pytest.MonkeyPatch, together: bool, before: int) -> None:
    """:param before: so many partitions are asked in the first epoch before the burst comes."""
    queues = [Queue() for _ in range(PARTITIONS)]
    source = ModelReader(Feed(PARTITIONS))
    monkeypatch.setattr(source, "open", lambda partition, until: queues[partition])
    if together:
        monkeypatch.setattr(source, "openTogether", lambda partitions, until: Queues(queues))
    read = open_input(Reading(source, tuple(range(PARTITIONS)), PIPELINE), None)
    times, marks = EventTimes(Watermark(0, 0, 0)), Watermarks([1_000])
    times.partition = lambda: read.partition
    at_ms = next_ms = 0
    late = count = 0

    def take(batches: int) -> None:
        nonlocal late, count
        for _ in range(batches):
            if (found := read.read()) is None:
                continue
            count += found.num_rows
            late += sum(each <= at_ms * 1_000 for each in found["at"].cast(pa.int64()).to_pylist())
            times.begin_batch()
            times(Rows(found.num_rows, found.column))
            times.keep()

    def end() -> None:
        nonlocal at_ms, next_ms
        held = times.held_us(read.behind())
        seen = {} if times.newest_us is None else {0: times.newest_us}
        held_us = {0: None if None in held else min(map(int, held))} if held else {}  # type: ignore[arg-type]
        marks.take([seen], held_us=[held_us])
        at_ms, next_ms = next_ms, marks.current_ms  # an epoch late
        read.begin_epoch()
        times.begin_epoch()

    read.begin_epoch()
    queues[0].batches = [batch(-600)]
    take(PARTITIONS + 1)
    end()
    take(before)
    for each in queues:
        each.batches = [batch(ROWS * number) for number in range(BATCHES)]
    for _ in range(PARTITIONS * BATCHES):
        take(1)
        end()
    assert (count, late) == ((PARTITIONS * BATCHES + 1) * ROWS, 0)
    for _ in range(2):
        take(PARTITIONS)
        end()
    assert next_ms == (BEGIN_S + BATCHES * ROWS - 2) * 1_000, "it has come to the end"
