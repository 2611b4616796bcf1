"""A query of Spark's plan into a table of Delta Lake, with Spark's workers as the executors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="needs the extra delta")

from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.rewind import read_intent
from engine.commands.command_line import main
from engine.query.handle import ContinuousQuery
from engine.query.writer import write_stream
from engine.sinks.delta.table_log import DeltaLog
from engine.spark.drains import finish_batch
from engine.spark.supervised import SparkExecution
from tests.spark.rates import await_read

pytestmark = pytest.mark.spark
WAIT_S = 60


def start(spark: SparkSession, folder: Path, *columns: str, **options: str) -> ContinuousQuery:
    rate = spark.readStream.format("rate").options(rowsPerSecond=500, numPartitions=2).load()
    writer = write_stream(rate.selectExpr("value", "value % 3 AS k", *columns)).format("delta")
    query = (
        writer.options(path=str(folder / "table"), **options)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .partitionBy("k")
        .trigger(continuous="100 milliseconds")
        .start()
    )
    assert isinstance(query, ContinuousQuery)
    return query


def values(folder: Path) -> list[int]:
    table = DeltaTable(str(folder / "table")).to_pyarrow_table()
    assert all(row["k"] == row["value"] % 3 for row in table.to_pylist())
    return sorted(table["value"].to_pylist())


def committed(folder: Path) -> list[int]:
    offsets = Checkpoint(str(folder / "checkpoint")).committed_offsets()
    assert offsets is not None
    read = {int(p): part["value"] for p, part in offsets[0].items()}
    return sorted(v for p, last in read.items() for v in range(p, last + 1, 2))


def test_a_table_is_written_taken_back_and_given_columns(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = start(spark, tmp_path)
    query.explain()
    assert "Delivery   exactly once" in capsys.readouterr().out
    assert query.awaitEpoch(3, WAIT_S)
    await_read(query)
    query.drain(WAIT_S)
    assert values(tmp_path) == committed(tmp_path) != []
    checkpoint = str(tmp_path / "checkpoint")
    assert main(["rewind", checkpoint, "--to-epoch", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["taken_back"] is True
    assert values(tmp_path) == committed(tmp_path)
    query = start(spark, tmp_path, "timestamp", schemaEvolution="add-columns")
    assert query.awaitEpoch(query.status["epoch"] + 2, WAIT_S)
    query.drain(WAIT_S)
    assert values(tmp_path) == committed(tmp_path)
    assert "timestamp" in DeltaTable(str(tmp_path / "table")).schema().to_arrow().names


def test_a_rewind_that_was_interrupted_is_finished_before_spark_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink is the one that the checkpoint tells; Spark's own may be another."""
    query = start(spark, tmp_path)
    assert query.awaitEpoch(3, WAIT_S)
    await_read(query)
    query.drain(WAIT_S)
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))

    def killed(*_: object) -> None:
        raise OSError("power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "remove", killed)
        assert main(["rewind", checkpoint.url, "--to-epoch", "1"]) == 1
    assert read_intent(checkpoint) is not None
    before = values(tmp_path)

    def start_query() -> StreamingQuery:
        assert read_intent(checkpoint) is None
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SparkExecution(checkpoint, finish_batch).start(start_query)
    assert checkpoint.committed_epoch() == 1
    assert values(tmp_path) == committed(tmp_path) != before
