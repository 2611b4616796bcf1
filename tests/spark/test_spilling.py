"""A state of many times its budget, through kills and restarts, on Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from engine import write_stream
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import StateTooLargeError
from engine.query.handle import ContinuousQuery
from engine.sinks import memory
from engine.state.committed_state import committed_state, tables_of
from tests.spark.test_continuous_query import worker_pids
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S: Final = 180
KEYS: Final = 800_000
FILES: Final = 16
BUDGET: Final = 4 << 20
MEMORY: Final = 330 << 20
"""Of the process of a task, which has half of it without state."""


class Story:
    """Files, and a count by key of their rows; each key is in three of them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        (folder / "in").mkdir()
        self.arrived = 0

    def arrive(self) -> None:
        """A file; each key is in three neighbours."""
        start, count = self.arrived * KEYS // FILES, 3 * KEYS // FILES
        numbers = pa.array([(start + n) % KEYS for n in range(count)])
        keys = pc.binary_join_element_wise("key" * 30, numbers.cast(pa.string()), "-")
        table = pa.table({"k": keys, "n": numbers})
        pq.write_table(table, self.folder / "new")
        (self.folder / "new").rename(self.folder / "in" / f"{self.arrived}.parquet")
        self.arrived += 1

    def counts(self) -> DataFrame:
        rows = self.spark.readStream.schema("k STRING, n LONG").parquet(str(self.folder / "in"))
        return rows.groupBy("k").agg(F.count("*").alias("c"), F.sum("n").alias("s"))

    def start(self, **options: Any) -> ContinuousQuery:
        writer = write_stream(self.counts()).format("noop").outputMode("update")
        given = {
            "checkpointLocation": self.folder / "checkpoint",
            "reducers": 1,
            "stateSpillAfterBytes": BUDGET,
            "stateScratchFolder": self.scratch,
            "stateMemoryMaxBytes": MEMORY,
            **options,
        }
        for name, value in given.items():
            writer = writer.option(name, str(value))
        query = writer.trigger(continuous="1 second").start()
        assert isinstance(query, ContinuousQuery)
        return query

    def state(self) -> pa.Table:
        checkpoint = Checkpoint(str(self.folder / "checkpoint"))
        (rows,) = tables_of(checkpoint, committed_state(checkpoint), 1).values()
        return rows.combine_chunks()


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Story:
    return Story(spark, tmp_path)


@pytest.mark.sampled(0.5)
def test_a_state_of_many_times_its_budget(story: Story) -> None:
    for _ in range(3):
        story.arrive()
    query = story.start()
    try:
        query.processAllAvailable()
        story.arrive()
        for pid in worker_pids():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: query.status["restarts"] or not query.isActive, "a restart", WAIT_S)
        assert [*story.scratch.iterdir()] == [], "a kill leaves nothing"
        query.processAllAvailable()
        assert query.drain(WAIT_S)
        for _ in range(FILES - 4):
            story.arrive()
        query = story.start(reducers=2)
        query.processAllAvailable()
        assert query.drain(WAIT_S)
    finally:
        query.stop()
    assert query.exception() is None
    assert [*story.scratch.iterdir()] == []
    state = story.state()
    assert state.nbytes > 16 * BUDGET
    expected = story.spark.read.parquet(str(story.folder / "in")).groupBy("k").count().count()
    assert expected == KEYS
    names = state.column_names
    keys, counts, sums = (state.column(n) for n in ("k", names[3], names[4]))
    numbers = pc.cast(pc.utf8_slice_codeunits(keys, 91), pa.int64())
    assert sorted(numbers.to_pylist()) == [*range(KEYS)]
    assert set(counts.to_pylist()) == {3}
    assert pc.all(pc.equal(sums, pc.multiply(numbers, 3))).as_py()


@pytest.mark.sampled(0.5)
def test_the_same_in_memory_is_too_large(story: Story) -> None:
    for _ in range(FILES):
        story.arrive()
    query = story.start(stateSpillAfterBytes=0)
    with pytest.raises(StateTooLargeError, match="stateMemoryMaxBytes"):
        query.awaitTermination(WAIT_S)


class Counting(StatefulProcessor):
    """How many rows a key has had, and that once more when their time is over."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "c long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        (before,) = self.count.get() or (0,)
        self.count.update((before + len(list(rows)),))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        (count,) = self.count.get()
        yield Row(k=key[0], c=count)


def test_state_of_a_processor(spark: SparkSession, tmp_path: Path) -> None:
    """Through a kill, and to another number of tasks; the budget is less than a page."""
    (tmp_path / "in").mkdir()
    (tmp_path / "scratch").mkdir()

    def arrive(name: str, numbers: range) -> None:
        pq.write_table(pa.table({"k": [f"key {n}" for n in numbers]}), tmp_path / name)
        (tmp_path / name).rename(tmp_path / "in" / f"{name}.parquet")

    def start(reducers: int) -> ContinuousQuery:
        rows = spark.readStream.schema("k STRING").parquet(str(tmp_path / "in"))
        told = rows.groupBy("k").transformWithState(
            Counting(), "k string, c long", "update", "ProcessingTime"
        )
        writer = write_stream(told).format("memory").queryName(f"spilled_{reducers}")
        for name, value in {
            "checkpointLocation": tmp_path / "checkpoint",
            "reducers": reducers,
            "stateSpillAfterBytes": 1,
            "stateScratchFolder": tmp_path / "scratch",
        }.items():
            writer = writer.option(name, str(value))
        query = writer.outputMode("update").trigger(continuous="200 milliseconds").start()
        assert isinstance(query, ContinuousQuery)
        return query

    def told(query: ContinuousQuery) -> set[tuple[str, int]]:
        table = memory.table(str(query.name))
        return set(zip(table["k"].to_pylist(), table["c"].to_pylist(), strict=True))

    query = start(1)
    try:
        arrive("first", range(300))
        wait_until(lambda: len(told(query)) == 300, "timers", WAIT_S)
        for pid in worker_pids():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: query.status["restarts"] or not query.isActive, "a restart", WAIT_S)
        arrive("second", range(100, 400))
        expected = {(f"key {n}", 1 + (100 <= n < 300)) for n in range(400)}
        wait_until(lambda: expected <= told(query), "timers behind the restart", WAIT_S)
        assert query.drain(WAIT_S)
        query = start(2)
        arrive("third", range(400))
        expected = {(f"key {n}", 2 + (100 <= n < 300)) for n in range(400)}
        wait_until(lambda: told(query) == expected, "timers in two tasks", WAIT_S)
        assert query.drain(WAIT_S)
    finally:
        query.stop()
    assert query.exception() is None
    assert [*(tmp_path / "scratch").iterdir()] == []
