"""Keys that stay in their partitions, on a real Spark."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine import register, write_stream
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.epoch_state import EpochState
from engine.errors import ConfigError
from engine.query.handle import ContinuousQuery
from engine.state.committed_state import committed_state

pytestmark = pytest.mark.spark
WAIT_S = 60
FILES, KEYS = 4, 3
BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Story:
    """Files that grow: each has keys of its own, and stays in its partition."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self.folder = spark, folder
        self._seq = 0
        (folder / "in").mkdir()
        self.grow(0)

    def grow(self, rows: int) -> None:
        """By so many rows in each file, one a second of event time: fewer than the watermark waits
        for, as one file may be read before another."""
        for file in range(FILES):
            with (self.folder / "in" / f"{file}.json").open("a") as lines:
                for seq in range(self._seq, self._seq + rows):
                    at = (BEGAN + timedelta(seconds=seq)).isoformat()
                    lines.write(json.dumps({"k": f"{file}-{seq % KEYS}", "at": at}) + "\n")
        self._seq += rows

    @property
    def events(self) -> DataFrame:
        reader = self._spark.readStream.format("tail").schema("k STRING, at TIMESTAMP")
        reader = reader.option("path", str(self.folder / "in")).option("fileFormat", "json")
        return reader.option("numPartitions", 2).load().withWatermark("at", "150 seconds")

    def start(self, *, unique: bool = False, **options: Any) -> ContinuousQuery:
        """:param unique: rows are deduplicated first: they are counted behind an exchange then."""
        events = self.events.dropDuplicates(["k", "at"]) if unique else self.events
        counts = events.groupBy(F.window("at", "10 seconds"), "k").count()
        writer = write_stream(counts.select("window.start", "k", "count")).format("parquet")
        writer = writer.option("path", str(self.folder / "out"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.options(**options).trigger(continuous="100 milliseconds").start()
        assert isinstance(query, ContinuousQuery)
        return query

    def assert_counted_once(self) -> None:
        """All windows that the watermark has closed, and each of them once."""
        checkpoint = Checkpoint(str(self.folder / "checkpoint"))
        entry = checkpoint.offsets.get(checkpoint.committed_epoch())
        assert entry is not None
        closed_ms = EpochState.of(entry).next_watermark_ms
        expected = sorted(
            (BEGAN + timedelta(seconds=start), f"{file}-{key}", _count(start, key))
            for start in range(0, self._seq, 10)
            if (BEGAN + timedelta(seconds=start + 10)).timestamp() * 1000 <= closed_ms
            for file in range(FILES)
            for key in range(KEYS)
        )
        rows = self._spark.read.parquet(str(self.folder / "out")).collect()
        found = sorted((row.start.astimezone(timezone.utc), row.k, row["count"]) for row in rows)
        assert found == expected
        assert found


def _count(start: int, key: int) -> int:
    return sum(seq % KEYS == key for seq in range(start, start + 10))


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Story:
    register(spark)
    return Story(spark, tmp_path)


def test_counts_where_they_are_read_on_any_number_of_tasks(story: Story) -> None:
    for per_task in (1, 2, 1):
        query = story.start(keysStayInPartitions=True, partitionsPerTask=per_task)
        for _ in range(2):
            story.grow(130)
            query.processAllAvailable()
        assert query.awaitEpoch(query.status["epoch"] + 2, WAIT_S)
        progress = query.lastProgress
        assert progress is not None
        (operator,) = progress["stateOperators"]
        assert operator["numShufflePartitions"] == 2 // per_task
        assert query.drain(WAIT_S)
        story.assert_counted_once()


def test_a_step_behind_has_its_exchange(story: Story) -> None:
    for turn in range(2):
        query = story.start(unique=True, keysStayInPartitions=True, reducers=1 + turn)
        for _ in range(2):
            story.grow(130)
            query.processAllAvailable()
        assert query.awaitEpoch(query.status["epoch"] + 2, WAIT_S)
        assert query.drain(WAIT_S)
        story.assert_counted_once()
        state = committed_state(Checkpoint(str(story.folder / "checkpoint")))
        assert state.stages == [0, 1]


def test_options_that_contradict_it_are_refused(story: Story, spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="Option reducers has no meaning: with keysStay"):
        story.start(keysStayInPartitions=True, reducers=2)
    files = spark.readStream.schema("k STRING").json(str(story.folder / "in"))
    writer = write_stream(files.dropDuplicates(["k"])).format("noop")
    writer = writer.option("keysStayInPartitions", "true")
    with pytest.raises(ConfigError, match=r"keysStayInPartitions cannot be set for the source"):
        writer.trigger(continuous="100 milliseconds").start()
    stateless = write_stream(files).format("noop").option("keysStayInPartitions", "true")
    with pytest.raises(ConfigError, match="keysStayInPartitions has no meaning"):
        stateless.trigger(continuous="100 milliseconds").start()
