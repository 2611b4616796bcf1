"""A query that was away for a day, and whose partitions are not read equally fast: as in Spark,
whose micro-batch has all of them, none of what waits there is late."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine import register, write_stream
from engine.query.handle import ContinuousQuery
from engine.sources.tail.tail_offset import partition_of
from tests.sink_files import committed

pytestmark = pytest.mark.spark
BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
DAY_S = 24 * 3600
FEW, MANY = 1_000, 100_000


def of_a_day(rows: int) -> Iterator[str]:
    """As JSON, in the order of their times."""
    for row in range(rows):
        at = BEGAN + timedelta(seconds=row * DAY_S // rows)
        yield json.dumps({"at": at.isoformat()}) + "\n"


def files_of(folder: Path, partitions: int, wanted: list[int]) -> list[Path]:
    """Empty files, each of the partition that is wanted."""
    found: list[Path] = []
    for number in range(1_000):
        if len(found) == len(wanted):
            break
        file = folder / f"{number:03}.json"
        file.touch()
        if partition_of(file.stat().st_ino, partitions) == wanted[len(found)]:
            found.append(file)
    return found


def events(spark: SparkSession, folder: Path, partitions: int) -> DataFrame:
    register(spark)
    reader = spark.readStream.format("tail").schema("at TIMESTAMP").option("path", str(folder))
    return reader.option("fileFormat", "json").option("numPartitions", partitions).load()


@pytest.mark.parametrize(
    ("partitions", "of_files"),
    [
        pytest.param(2, [0, 1], id="one has more to read"),
        pytest.param(1, [0, 0], id="one reads files one behind another"),
    ],
)
def test_nothing_of_a_backlog_is_late(
    spark: SparkSession, tmp_path: Path, partitions: int, of_files: list[int]
) -> None:
    (tmp_path / "in").mkdir()
    few, many = files_of(tmp_path / "in", partitions, of_files)
    few.write_text("".join(of_a_day(FEW)))
    many.write_text("".join(of_a_day(MANY)))
    df = events(spark, tmp_path / "in", partitions).withWatermark("at", "10 minutes")
    query = (
        write_stream(df.groupBy(F.window("at", "1 hour")).count())
        .format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(continuous="20 milliseconds")
        .start()
    )
    assert isinstance(query, ContinuousQuery)
    try:
        query.processAllAvailable()
        with few.open("a") as lines:  # what comes later closes the day
            lines.write(json.dumps({"at": (BEGAN + timedelta(days=1, hours=2)).isoformat()}) + "\n")
        query.processAllAvailable()
        assert query.drain(60)
    finally:
        query.stop()
    counts = committed(tmp_path / "out", "count")
    assert len(counts) == 24
    assert sum(counts) == FEW + MANY
