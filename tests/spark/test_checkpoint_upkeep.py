"""Spark itself goes on from copies of its checkpoints, and behind a prune of its logs."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.copies import copy_checkpoint
from engine.checkpoint.retention import prune
from engine.errors import ConfigError
from engine.sinks.files.file_sink_log import FOLDER
from engine.sinks.files.file_sink_upkeep import prune_sink

pytestmark = pytest.mark.spark


def lines(spark: SparkSession, folder: Path) -> DataFrame:
    folder.mkdir(exist_ok=True)
    return spark.readStream.format("text").load(str(folder))


def add_file(folder: Path, name: str, *values: str) -> None:
    """It appears whole."""
    written = folder / f".{name}"
    written.write_text("\n".join(values))
    written.rename(folder / f"{name}.txt")


def test_a_copy_of_a_running_stateful_query(spark: SparkSession, tmp_path: Path) -> None:
    """State and the source's own log come along: counts go on, and no file is read twice."""
    source, values = tmp_path / "in", ["a", "b", "a"]

    def counts(name: str, checkpoint: Path) -> StreamingQuery:
        counted = lines(spark, source).groupBy("value").count()
        writer = counted.writeStream.format("memory").outputMode("complete").queryName(name)
        return writer.option("checkpointLocation", str(checkpoint)).start()

    def result(name: str) -> dict[str, int]:
        return {row["value"]: row["count"] for row in spark.table(name).collect()}

    original = counts("original", tmp_path / "one")
    try:
        for number in range(3):
            add_file(source, str(number), *values)
            original.processAllAvailable()
        report = copy_checkpoint(
            Checkpoint(str(tmp_path / "one")), Checkpoint(str(tmp_path / "two"))
        )
        add_file(source, "later", "a", "c")
        original.processAllAvailable()
    finally:
        original.stop()
    copy = counts("copy", tmp_path / "two")
    try:
        copy.processAllAvailable()
        assert str(copy.id) == report.query_id != str(original.id)
    finally:
        copy.stop()
    assert result("copy") == result("original") == Counter([*values * 3, "a", "c"])


def test_a_files_sink_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    source, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")

    def run(*files: str) -> None:
        writer = lines(spark, source).writeStream.format("parquet").outputMode("append")
        query = writer.option("checkpointLocation", str(checkpoint)).start(str(out))
        try:
            for name in files:
                add_file(source, name, name)
                query.processAllAvailable()
        finally:
            query.stop()

    def read() -> list[str]:
        return sorted(row["value"] for row in spark.read.parquet(str(out)).collect())

    written = [str(number) for number in range(8)]
    run(*written)
    spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    log = out / FOLDER
    for path in log.iterdir():
        os.utime(path, (path.stat().st_mtime - 3600,) * 2)
    abandoned = out / "part-00000-00000000-0000-4000-8000-000000000000-c000.snappy.parquet"
    abandoned.write_bytes(b"half a file")

    opened = Checkpoint(str(checkpoint))
    prune(opened, keep_epochs=2)
    with pytest.raises(ConfigError, match="does not tell which sink"):
        prune_sink(opened)
    with pytest.raises(ConfigError, match="No run of this engine"):
        prune_sink(opened, str(out), orphans_older_than_s=3600)
    report = prune_sink(opened, str(out))

    assert report is not None
    left = {path.name for path in log.iterdir() if not path.name.startswith(".")}
    assert (report.removed_entries, left) == (2, {"2.compact", "3", "4", "5.compact", "6", "7"})
    assert abandoned.exists()
    assert read() == written
    run("8", "9")
    assert read() == [*written, "8", "9"]
