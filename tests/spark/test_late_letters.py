"""Late rows as dead letters, on a real Spark: of each kind of step, through a kill."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine import write_stream
from engine.errors import ConfigError
from engine.query.handle import ContinuousQuery
from engine.query.writer import ContinuousStreamWriter
from tests.parity.stateful import custom_queries  # noqa: F401  its classes travel by value
from tests.parity.stateful.custom_processors import CountFrames
from tests.sink_files import letters_in
from tests.spark.test_continuous_query import worker_pids
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 60
COLUMNS = "k STRING, g INT, v DOUBLE, n BIGINT, t TIMESTAMP"
Build = Callable[[DataFrame], DataFrame]


def windows(df: DataFrame) -> DataFrame:
    return df.groupBy(F.window("t", "10 seconds"), "k").agg(F.sum("n").alias("total"))


STEPS: dict[str, Build] = {
    "aggregate": windows,
    "sessions": lambda df: df.groupBy(F.session_window("t", "2 seconds"), "k").count(),
    "deduplicate": lambda df: df.dropDuplicates(["k", "t"]),
    "custom": lambda df: df.groupBy("k").transformWithStateInPandas(
        CountFrames(), "k STRING, n BIGINT", "append", "EventTime"
    ),
}


def write(df: DataFrame, folder: Path, **options: str) -> ContinuousStreamWriter:
    writer = write_stream(df).format("noop").trigger(continuous="100 milliseconds")
    given = {
        "checkpointLocation": str(folder / "checkpoint"),
        "onLateRecord": "dead-letter",
        "deadLetterPath": str(folder / "letters"),
        **options,
    }
    for name, value in given.items():
        writer = writer.option(name, value)
    return writer


@pytest.fixture
def arrive(tmp_path: Path) -> Callable[..., None]:
    (tmp_path / "in").mkdir()

    def body(name: str, *seconds: int) -> None:
        """A row for each second behind noon."""
        rows = (
            {"k": f"key {at}", "n": at, "t": f"2026-01-01 12:{at // 60:02d}:{at % 60:02d}"}
            for at in seconds
        )
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
        (tmp_path / name).rename(tmp_path / "in" / f"{name}.json")

    return body


def stream(spark: SparkSession, folder: Path, delay: str = "10 seconds") -> DataFrame:
    df = spark.readStream.schema(COLUMNS).json(str(folder / "in"))
    return df.withWatermark("t", delay)


def late_keys(folder: Path) -> list[str]:
    return sorted(json.loads(letter["record"])["k"] for letter in letters_in(folder / "letters"))


@pytest.mark.parametrize("step", STEPS)
def test_each_late_row_is_a_letter_once(
    spark: SparkSession, tmp_path: Path, arrive: Callable[..., None], step: str
) -> None:
    arrive("first", 90, 100)
    query = write(STEPS[step](stream(spark, tmp_path)), tmp_path).start()
    assert isinstance(query, ContinuousQuery)
    dropped: dict[int, int] = {}

    def process() -> None:
        """And note what reports tell: a hundred are kept, which are those of ten seconds."""
        query.processAllAvailable()
        for each in query.recentProgress:
            dropped[each["batchId"]] = each["stateOperators"][0]["numRowsDroppedByWatermark"]

    try:
        process()
        wait_until(lambda: watermark_of(query).endswith("12:01:30.000Z"), "the watermark")
        before = query.status["epoch"]
        arrive("second", 3, 101, 17)
        process()
        assert late_keys(tmp_path) == ["key 17", "key 3"]
        progress, letter = query.lastProgress, letters_in(tmp_path / "letters")[0]
        assert progress is not None
        assert letter["operator"] == progress["stateOperators"][0]["operatorName"]
        assert letter["watermark"] == "2026-01-01T12:01:30.000Z"
        assert letter["epoch"] >= before
        arrive("third", 4, 102)
        for pid in worker_pids():
            os.kill(pid, signal.SIGKILL)
        process()
        arrive("fourth", 5)
        process()
        assert query.drain(WAIT_S)
        assert query.status["restarts"]
    finally:
        query.stop()
    assert late_keys(tmp_path) == ["key 17", "key 3", "key 4", "key 5"]
    assert sum(dropped.values()) == 4


def watermark_of(query: ContinuousQuery) -> str:
    progress = query.lastProgress
    return "" if progress is None else str(progress.get("eventTime", {}).get("watermark"))


@pytest.mark.parametrize(
    ("build", "mode"),
    [
        (lambda df: df.select("k"), "append"),
        (windows, "complete"),
        (lambda df: df.drop("t").dropDuplicates(["k"]), "append"),
        (lambda df: df.groupBy("k").count(), "update"),
    ],
)
def test_the_option_is_refused_where_no_row_is_late(
    spark: SparkSession, tmp_path: Path, arrive: Callable[..., None], build: Build, mode: str
) -> None:
    with pytest.raises(ConfigError, match="onLateRecord is 'dead-letter', and no row"):
        write(build(stream(spark, tmp_path)), tmp_path).outputMode(mode).start()
    assert not (tmp_path / "letters").exists()


def test_the_option_needs_a_folder_and_this_engine(
    spark: SparkSession, tmp_path: Path, arrive: Callable[..., None]
) -> None:
    df = windows(stream(spark, tmp_path))
    with pytest.raises(ConfigError, match="letters need a folder"):
        write(df, tmp_path, deadLetterPath="").start()
    with pytest.raises(ConfigError, match="Option onLateRecord cannot be 'dead-letter'"):
        write(df, tmp_path).trigger(processingTime="1 second").start()
