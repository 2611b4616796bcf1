"""What tasks are made of may be large, a table that a stream is joined with for example: it is sent
to executors once, and nothing of it is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine import write_stream
from engine.spark.executor_launcher import SparkLauncher
from engine.spark.warm_workers import WarmWorkers
from tests.spark.test_warm_up import _Part
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
LARGE = 3_000_000
WAIT_S = 60


def _files(spark: SparkSession) -> list[Path]:
    """What PySpark has written for executors."""
    return [path for path in Path(str(spark.sparkContext._temp_dir)).iterdir() if path.is_file()]


def test_a_standby_sends_it_once_however_long_it_waits(spark: SparkSession, tmp_path: Path) -> None:
    before = _files(spark)
    launcher = SparkLauncher(spark)
    parts = [_Part(tmp_path), bytes(LARGE)]
    warm = WarmWorkers(launcher, parts)
    warm.keep()
    assert warm._thread is not None
    warm._thread.join(WAIT_S)
    assert list(tmp_path.iterdir()), "they are loaded"
    sent = set(_files(spark)).difference(before)
    for _ in range(2):
        launcher.warm_up(parts)
    assert set(_files(spark)).difference(before) == sent
    warm.end()
    assert _files(spark) == before
    assert len(sent) == 1


def test_a_run_that_has_ended_leaves_no_copy_of_its_tables(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = _files(spark)
    table = spark.range(LARGE // 8).toDF("value")
    stream = spark.readStream.format("rate").option("rowsPerSecond", "100").load()
    query = (
        write_stream(stream.join(table, "value"))
        .format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(continuous="100 milliseconds")
        .start()
    )
    wait_until(lambda: query.status["epoch"] > 0, "an epoch", WAIT_S)
    query.drain()
    wait_until(lambda: _files(spark) == before, "the end of its job", WAIT_S)
