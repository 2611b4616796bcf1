"""The partitions that a task reads: in turn, and woken when the driver has sent word."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sources.contract import PartitionReader
from engine.sources.rate import RateReader
from engine.sources.tail.data_source import TailDataSource
from engine.task.inputs import INTERRUPTED_POLL_S, MARKER_POLL_S, TaskInput
from engine.task.spec import Reading
from tests.model import SCHEMA, Feed, ModelReader

WAIT_S = 30.0
PIPELINE = Pipeline(SourceRelation("model", {}, SCHEMA), (), SCHEMA)


def idle_rate(folder: Path) -> PartitionReader:
    reader = RateReader(1, 10_000)  # its first row is due in three hours
    return reader.open(reader.partitions(reader.initialOffset())[0])


def idle_tail(folder: Path) -> PartitionReader:
    schema = StructType().add("id", "long")
    options = {"path": str(folder), "fileFormat": "json"}
    reader = TailDataSource(options).continuousReader(schema)
    return reader.open(reader.partitions(reader.initialOffset())[0])


@pytest.mark.parametrize("idle", [idle_rate, idle_tail])
def test_a_reader_that_waits_is_interrupted(idle: object, tmp_path: Path) -> None:
    reader: PartitionReader = idle(tmp_path)  # type: ignore[operator]
    assert reader.interruptible
    got: list[object] = []
    waiting = threading.Thread(target=lambda: got.append(reader.read(10 * WAIT_S)))
    waiting.start()
    reader.interrupt()  # before it waits, or while it does
    waiting.join(WAIT_S)
    assert got == [None]
    reader.close()


def task_input(feed: Feed) -> TaskInput:
    reader = ModelReader(feed)
    partitions = tuple(reader.partitions(reader.initialOffset()))
    return TaskInput(Reading(reader, partitions, PIPELINE, first_partition=4), None)


def rows(batch: pa.RecordBatch | None) -> list[int]:
    return [] if batch is None else batch.column("partition").to_pylist()


def test_a_busy_partition_does_not_keep_the_others_waiting() -> None:
    feed = Feed(3)
    source = task_input(feed)
    feed.add(2)
    feed.available[0] = 100
    seen = [(rows(source.read()), source.partition) for _ in range(6)]
    assert sorted(seen[:3]) == [([0], 4), ([1], 5), ([2], 6)]
    assert sorted(seen[3:]) == [([0], 4), ([1], 5), ([2], 6)]
    assert source.offsets == ([0, 2], [1, 2], [2, 2])
    assert [rows(source.read()) for _ in range(3)] == [[0], [0], [0]]
    assert source.offset == [0, 5]


def test_one_that_is_interrupted_waits_longer_than_several() -> None:
    assert task_input(Feed(2)).wait_s == MARKER_POLL_S
    assert task_input(Feed(1)).wait_s == MARKER_POLL_S  # the model's cannot be interrupted
    reader = RateReader(1, 1)
    reading = Reading(reader, tuple(reader.partitions(reader.initialOffset())), PIPELINE)
    assert TaskInput(reading, None).wait_s == INTERRUPTED_POLL_S
