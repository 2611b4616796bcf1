"""Output mode complete on a real Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from engine import write_stream
from tests.waiting import wait_until

pytestmark = pytest.mark.spark


def test_a_result_that_becomes_empty_clears_the_memory_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def arrive(name: str, value: int) -> None:
        (tmp_path / name).write_text(json.dumps({"k": "a", "v": value}))
        (tmp_path / name).rename(folder / f"{name}.json")

    arrive("first", 1)
    stream = spark.readStream.schema("k STRING, v BIGINT").json(str(folder))
    small = stream.groupBy("k").agg(F.sum("v").alias("total")).where("total < 5")
    query = (
        write_stream(small)
        .format("memory")
        .queryName("small_totals")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(continuous="100 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()
        assert [tuple(row) for row in spark.table("small_totals").collect()] == [("a", 1)]
        epoch = query.status["epoch"]
        query.awaitEpoch(epoch + 2, 30)  # an epoch without anything new changes nothing
        assert len(spark.table("small_totals").collect()) == 1
        arrive("second", 100)
        wait_until(lambda: not spark.table("small_totals").collect(), "an empty table")
    finally:
        query.stop()
