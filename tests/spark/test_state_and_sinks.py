"""A windowed count into each kind of sink, and with its checkpoint in an object store: each window
once, though all workers are killed while it is open."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine import write_stream
from engine.checkpoint.checkpoint import Checkpoint
from engine.query.handle import ContinuousQuery
from engine.query.writer import ContinuousStreamWriter
from engine.state.committed_state import committed_state, tables_of
from tests.connectors.kafka.topics import Topic
from tests.faults.roads.kafka_topics import all_of
from tests.servers.kafka import Kafka
from tests.servers.s3 import S3
from tests.sink_files import letters_in
from tests.spark.test_continuous_query import worker_pids
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 90
Row = tuple[int, str, int]
FILES = (
    [(0, "a"), (1, "b"), (2, "a"), (11, "a")],
    [(3, "b"), (12, "c"), (13, "c")],
    [(25, "b"), (14, "a")],
    [(60, "z")],
)
"""Of each the second, and the key, of its records; 10 seconds late they still count."""
COUNTS: list[Row] = sorted([(0, "a", 2), (0, "b", 2), (10, "a", 2), (10, "c", 2), (20, "b", 1)])


class Story:
    """A query, and the files that it reads."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.checkpoint, self.settings = str(folder / "checkpoint"), dict[str, str]()
        self.interval = "100 milliseconds"
        (folder / "in").mkdir()

    def arrive(self, number: int) -> None:
        rows = (
            {"k": k, "t": f"2026-01-01 12:{at // 60:02d}:{at % 60:02d}"} for at, k in FILES[number]
        )
        (self.folder / str(number)).write_text("\n".join(map(json.dumps, rows)))
        (self.folder / str(number)).rename(self.folder / "in" / f"{number}.json")

    def counts(self) -> DataFrame:
        """Second, key and count of each window of ten seconds."""
        rows = self.spark.readStream.schema("k STRING, t TIMESTAMP").json(str(self.folder / "in"))
        windows = rows.withWatermark("t", "10 seconds").groupBy(F.window("t", "10 seconds"), "k")
        second = F.second("window.start").alias("at")
        return windows.agg(F.count("*").alias("c")).select(second, "k", "c")

    def play(
        self, sink: Callable[[ContinuousStreamWriter], ContinuousStreamWriter], df: DataFrame
    ) -> None:
        """From the first file to the end of the query, through a kill."""
        self.arrive(0)
        writer = sink(write_stream(df)).trigger(continuous=self.interval)
        for name, value in {"checkpointLocation": self.checkpoint, **self.settings}.items():
            writer = writer.option(name, value)
        query = writer.start()
        assert isinstance(query, ContinuousQuery)
        try:
            query.processAllAvailable()
            self.arrive(1)
            for pid in worker_pids():
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: query.status["restarts"] or not query.isActive, "a restart", WAIT_S)
            for number in (2, 3):
                self.arrive(number)
                query.processAllAvailable()
            assert query.drain(WAIT_S)
        finally:
            query.stop()
        assert query.exception() is None


@pytest.fixture
def story(spark: SparkSession, tmp_path: Path) -> Story:
    return Story(spark, tmp_path)


def test_foreach_batch(story: Story) -> None:
    told: dict[int, list[Row]] = {}

    def keep(df: DataFrame, epoch: int) -> None:
        rows = [tuple(row) for row in df.collect()]
        assert told.setdefault(epoch, rows) == rows, "an epoch that is told again has its rows"

    story.play(lambda writer: writer.foreachBatch(keep), story.counts())
    assert sorted(row for rows in told.values() for row in rows) == COUNTS


def test_a_table_of_delta(story: Story) -> None:
    pytest.importorskip("deltalake", reason="needs the extra delta")
    from deltalake import DeltaTable

    path = str(story.folder / "table")
    story.play(lambda writer: writer.format("delta").option("path", path), story.counts())
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert sorted((row["at"], row["k"], row["c"]) for row in rows) == COUNTS


def test_a_topic(story: Story, kafka: Kafka) -> None:
    target = Topic.new(kafka, 2)

    def sink(writer: ContinuousStreamWriter) -> ContinuousStreamWriter:
        servers = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": target.name}
        return writer.format("kafka").options(**servers, delivery="exactly-once")

    story.play(sink, story.counts().select(F.to_json(F.struct("at", "k", "c")).alias("value")))
    found = map(json.loads, all_of(kafka.bootstrap, target.name).elements())
    assert sorted((row["at"], row["k"], row["c"]) for row in found) == COUNTS


def test_a_checkpoint_in_an_object_store(story: Story, s3: S3) -> None:
    story.interval = "500 milliseconds"  # an epoch is some twenty requests
    story.checkpoint = f"s3://{s3.bucket()}/checkpoint"
    settings: dict[str, Any] = {
        "key": "test", "secret": "test", "client_kwargs": {"endpoint_url": s3.endpoint},
    }  # fmt: skip
    story.settings = {
        "checkpointStorage.key": "test",
        "checkpointStorage.secret": "test",
        "checkpointStorage.client_kwargs.endpoint_url": s3.endpoint,
    }
    path = str(story.folder / "out")
    story.play(lambda writer: writer.format("json").option("path", path), story.counts())
    rows = letters_in(story.folder / "out")
    assert sorted((row["at"], row["k"], row["c"]) for row in rows) == COUNTS
    checkpoint = Checkpoint(story.checkpoint, settings)
    (table,) = tables_of(checkpoint, committed_state(checkpoint), 1).values()
    assert table["k"].to_pylist() == ["z"], "what no watermark has closed"
