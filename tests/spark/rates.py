"""Spark's test source, and how far queries have read it."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

from engine.query.handle import ContinuousQuery
from tests.waiting import wait_until

WAIT_S = 60


def rate(spark: SparkSession, rows_per_second: int = 100, partitions: int = 2) -> DataFrame:
    return (
        spark.readStream.format("rate")
        .option("rowsPerSecond", rows_per_second)
        .option("numPartitions", partitions)
        .load()
    )


def assert_complete(values: list[int], partitions: int = 2) -> None:
    """Of each partition from its first row on; at the end one may be a row ahead."""
    for partition in range(partitions):
        found = sorted(value for value in values if value % partitions == partition)
        assert found == list(range(partition, partition + partitions * len(found), partitions))
        assert found


def values_read(query: ContinuousQuery) -> list[int]:
    """The last value of each partition of the rate sources that is committed; negative: none is."""
    progress = query.lastProgress
    ends = (
        [] if progress is None else [json.loads(each["endOffset"]) for each in progress["sources"]]
    )
    return [position["value"] for end in ends for position in end.values()]


def await_read(query: ContinuousQuery, value: int = 0) -> None:
    """Until each partition is committed up to a value, or beyond. That epochs are committed tells
    nothing of it: they may be empty."""

    def is_read() -> bool:
        assert query.isActive, query.exception()
        return min(values_read(query), default=-1) >= value

    wait_until(is_read, f"all partitions are read up to {value}", WAIT_S)
