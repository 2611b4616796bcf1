"""Data sources that know nothing of this engine, on real Spark: their checkpoints move between it
and Spark's own micro-batches, and their writers are called as Spark calls them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter

from engine.errors import ConfigError
from engine.query.handle import ContinuousQuery
from engine.query.writer import write_stream
from tests.shelf import SHELVES, put
from tests.sink_files import committed
from tests.spark.other_messages import Counted
from tests.waiting import wait_until

WAIT_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    for source in (*SHELVES, GatheringSink):
        spark.dataSource.register(source)


def continuous(df: DataFrame, folder: Path, rows: int) -> None:
    """Until there are so many rows, in the engine."""
    query = (
        write_stream(df)
        .format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("sourcePollInterval", "10 ms")
        .trigger(continuous="50 ms")
        .start()
    )
    assert isinstance(query, ContinuousQuery)
    wait_until(lambda: len(found(folder)) == rows, "the engine's rows", WAIT_S)
    query.drain(WAIT_S)


def in_spark(df: DataFrame, folder: Path) -> None:
    """All that is there, in micro-batches of Spark's own."""
    query = (
        df.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    query.processAllAvailable()
    query.stop()


def found(folder: Path) -> list[int]:
    """What is committed."""
    return sorted(committed(folder / "out", "id"))


def logged(folder: Path) -> list[str]:
    """The offsets of the newest entry of the log."""
    newest = max((folder / "checkpoint/offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.dumps(json.loads(line)) for line in newest.read_text().splitlines()[2:]]


def test_a_checkpoint_moves_to_the_engine_and_back(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.readStream.format("shelf").option("path", str(tmp_path / "shelf")).load()
    put(tmp_path / "shelf", 10)
    in_spark(df, tmp_path)
    assert logged(tmp_path) == ['{"position": {"next": 10}}']
    put(tmp_path / "shelf", 10)
    continuous(df, tmp_path, 20)
    assert logged(tmp_path) == ['{"position": {"next": 20}}']
    put(tmp_path / "shelf", 10)
    in_spark(df, tmp_path)
    assert found(tmp_path) == list(range(30))


class GatheringSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "gathering"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return GatheringWriter(self.options)


class GatheringWriter(DataSourceStreamWriter):
    """Gathers in ``self`` what it writes, as one may whose every ``write`` is of a fresh copy; and
    returns a message of another module."""

    def __init__(self, options: Any) -> None:
        self.path = options["path"]
        self.rows: list[int] = []
        self.commits = 0

    def write(self, iterator: Iterator[Any]) -> Counted:
        context = TaskContext.get()
        assert context is not None
        self.rows.extend(row.id for row in iterator)
        return Counted(context.partitionId(), self.rows)

    def commit(self, messages: Any, batchId: int) -> None:
        self.commits += 1
        with Path(self.path).open("a") as file:
            for message in messages:
                file.write("".join(f"{self.commits} {number}\n" for number in message.rows))

    def abort(self, messages: Any, batchId: int) -> None:
        pass


def test_a_writer_is_called_as_spark_calls_it(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "shelf", 5)
    df = spark.readStream.format("arrow_shelf").option("path", str(tmp_path / "shelf")).load()
    query = (
        write_stream(df)
        .format("gathering")
        .option("path", str(tmp_path / "written"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(continuous="50 ms")
        .start()
    )

    def written() -> list[str]:
        path = tmp_path / "written"
        return path.read_text().splitlines() if path.exists() else []

    wait_until(lambda: len(written()) >= 5, "the first rows", WAIT_S)
    put(tmp_path / "shelf", 5)
    wait_until(lambda: len(written()) >= 10, "the others", WAIT_S)
    query.stop()
    assert written() == [f"1 {number}" for number in range(10)]


class NothingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "nothing_to_stream"

    def schema(self) -> str:
        return "id bigint"


def test_what_has_no_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(NothingSource)
    df = spark.readStream.format("rate").load()
    with pytest.raises(ConfigError, match=r"a stream writer is not implemented"):
        write_stream(df).format("nothing_to_stream").start(
            checkpointLocation=str(tmp_path / "checkpoint")
        )
    df = spark.readStream.format("nothing_to_stream").load()
    with pytest.raises(ConfigError, match=r"a stream reader is not implemented"):
        write_stream(df).format("noop").start()


def test_an_interval_without_a_polled_source_is_refused(spark: SparkSession) -> None:
    df = spark.readStream.format("rate").load()
    with pytest.raises(ConfigError, match="sourcePollInterval has no meaning"):
        write_stream(df).format("noop").option("sourcePollInterval", "1 second").start()
