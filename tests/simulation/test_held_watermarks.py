"""A watermark moves when it can, though nothing more comes and empty epochs may be long."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.epoch_state import EpochState, Marks
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.pipeline.pipeline import Pipeline, SourceRelation, Watermark
from engine.query.handle import ContinuousQuery
from engine.sources.contract import HandingOut, Offset
from engine.sources.handed.partition_reader import OpenUnit
from engine.sources.handed.reader import HandedReader, HandedRun
from engine.sources.handed.work import Work
from tests.model import definition
from tests.simulation.story import WAIT_S, Story
from tests.waiting import wait_until

TIMED = pa.schema(
    [("partition", pa.int32()), ("seq", pa.int64()), ("t", pa.timestamp("us", "UTC"))]
)
MINUTE_MS = 60_000


class Table(HandedReader):
    """Two partitions; what the driver finds is what the test has told it. Row ``n`` is of minute
    ``n`` of 1970."""

    def __init__(self) -> None:
        super().__init__(2)
        self.rows: list[int] = []
        self.is_all = False

    def initialOffset(self) -> Offset:
        return 0

    def latestOffset(self, start: Offset) -> Offset | None:
        return None

    def handingOut(self, start: Offset, until: Offset | None = None) -> HandingOut:
        self._run = TableRun(self, start)
        return self._run

    def unit_reader(self) -> OpenUnit:
        return read_row


class TableRun(HandedRun[int]):
    def __init__(self, table: Table, start: int) -> None:
        super().__init__(2)
        self._table, self._found, self._merged = table, start, start

    def next(self, timeout_s: float) -> Mapping[int, Work] | None:
        with self.changed:
            news = self._table.rows[self._found :]
            self._found += len(news)
            works = self.works([(row, str(row), row) for row in news])
            told = self.told(works, is_all=self._table.is_all)
            if told is None:
                self.changed.wait(min(timeout_s, 0.01))
            return told

    def merge(self, done: Sequence[int]) -> Offset:
        self._merged += len(done)
        return self._merged


def read_row(row: int) -> Iterator[pa.RecordBatch]:
    at = dt.datetime.fromtimestamp(60 * row, dt.timezone.utc)
    yield pa.RecordBatch.from_pylist([{"partition": 0, "seq": row, "t": at}], schema=TIMED)


def timed(story: Story, interval_ms: int, *tables: Table, **options: Any) -> QueryDefinition:
    """Each table has a watermark of its own."""
    options = {"interval_ms": interval_ms, "empty_epoch_interval": "1 hour", **options}
    made = definition(story.feed, story.sink, story.folder, **options)
    relation = SourceRelation("model", {}, TIMED)
    streams = (
        StreamBinding(Pipeline(relation, (Watermark(2, 0, number),), TIMED), table, "model")
        for number, table in enumerate(tables)
    )
    return replace(made, streams=tuple(streams))


def start(made: QueryDefinition) -> ContinuousQuery:
    execution = ContinuousExecution(made, ThreadLauncher(), None)
    execution.start()
    return ContinuousQuery(execution, str)


def marks(checkpoint: Checkpoint) -> Marks:
    return newest(checkpoint).marks


def newest(checkpoint: Checkpoint) -> EpochState:
    epoch = checkpoint.committed_epoch()
    entry = None if epoch is None or epoch < 0 else checkpoint.offsets.get(epoch)
    return EpochState() if entry is None else EpochState.of(entry)


def is_at(checkpoint: Checkpoint, row: int) -> Any:
    """Whether an epoch that is committed brings the watermark of this row."""
    return lambda: newest(checkpoint).next_watermark_ms == row * MINUTE_MS


@pytest.mark.parametrize("interval_ms", [20, 0])
def test_of_one_that_was_held_back(story: Story, interval_ms: int) -> None:
    """The rows' epoch was over when the driver told that they were all."""
    table = Table()
    query = start(timed(story, interval_ms, table))
    for row in range(1, 4):
        table.is_all = False
        table.rows.append(row)
        rows = [(0, each) for each in range(1, row + 1)]
        wait_until(lambda rows=rows: story.sink.rows() == rows, "the row", WAIT_S)  # type: ignore[misc]
        wait_until(
            lambda row=row: marks(story.checkpoint).newest_ms == (row * MINUTE_MS,),  # type: ignore[misc]
            "its mark",
            WAIT_S,
        )
        assert marks(story.checkpoint).come_to_ms < (row * MINUTE_MS,), "it is held back"
        table.is_all = True
        wait_until(is_at(story.checkpoint, row), "the watermark", WAIT_S)
    assert query.drain(WAIT_S)


@pytest.mark.parametrize("interval_ms", [20, 0])
def test_behind_a_restart(story: Story, interval_ms: int) -> None:
    """The run before has ended while it was held back, and the next one finds nothing more."""
    table = Table()
    made = timed(story, interval_ms, table)
    query = start(made)
    table.rows.append(1)
    wait_until(lambda: marks(story.checkpoint).newest_ms == (MINUTE_MS,), "its mark", WAIT_S)
    assert query.drain(WAIT_S)
    assert marks(story.checkpoint).come_to_ms == (0,)
    table.is_all = True
    query = start(made)
    wait_until(is_at(story.checkpoint, 1), "the watermark", WAIT_S)
    assert query.drain(WAIT_S)


@pytest.mark.parametrize("interval_ms", [20, 0])
def test_when_one_of_two_has_seen_nothing_for_a_time(story: Story, interval_ms: int) -> None:
    """``watermarkIdleAfter`` is over in the middle of an empty epoch."""
    silent, other = Table(), Table()
    silent.is_all = other.is_all = True
    query = start(timed(story, interval_ms, silent, other, watermark_idle_after_ms=500))
    silent.rows.append(1)
    wait_until(lambda: marks(story.checkpoint).come_to_ms == (MINUTE_MS, 0), "its mark", WAIT_S)
    other.rows.extend([2, 5])
    wait_until(is_at(story.checkpoint, 5), "the watermark", WAIT_S)
    assert marks(story.checkpoint).come_to_ms == (MINUTE_MS, 5 * MINUTE_MS)
    assert query.drain(WAIT_S)
