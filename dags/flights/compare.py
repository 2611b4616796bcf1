"""Compares what a query has committed with the same query run in batch over the same input.

The committed offsets say how many bytes of each file the query has read up to an epoch, and the
sink's log says which files it has written until then. Both stand still, whatever the running query
does meanwhile.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.storage.opening import open_storage
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog
from engine.sources.tail.tail_offset import positions_of
from engine.spark.session import build_session
from flights.feed import departures
from flights.query import DELAYED, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compare_committed(checkpoint: str, output_path: str, input_path: str) -> dict[str, Any]:
    """Compare as of the last committed epoch.

    :return: ``epoch``, ``input_rows``, ``output_rows`` of the batch run, and ``equal``.
    :raises AssertionError: they differ; says how many rows are only in one of the two.
    """
    state = Checkpoint(checkpoint)
    epoch = state.committed_epoch()
    (offset,) = state.committed_offsets(epoch)
    with tempfile.TemporaryDirectory() as folder:
        input_rows = copy_prefix(Path(input_path), offset, Path(folder))
        rows = _count_if_equal(folder, _committed_files(output_path, epoch))
    return {"epoch": epoch, "input_rows": input_rows, "output_rows": rows, "equal": True}


def compare_table(table: str) -> dict[str, Any]:
    """Compare a table of Delta with the query over all departures that there are.

    :return: ``table_version``, ``input_rows``, ``output_rows`` of the batch run, and ``equal``.
    :raises AssertionError: they differ; says how many rows are only in one of the two.
    """
    from deltalake import DeltaTable

    found, input_rows = DeltaTable(table), 0
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "all.jsonl").open("w") as file:
            for departure in departures():
                file.write(f"{departure.line}\n")
                input_rows += 1
        rows = _count_if_equal(folder, found.file_uris())
    version = found.version()
    return {"table_version": version, "input_rows": input_rows, "output_rows": rows, "equal": True}


def copy_prefix(source: Path, offset: Any, target: Path) -> int:
    """Copy of each file as many bytes as the offset says; how many lines that are."""
    lines = 0
    for file in positions_of(offset):
        with (source / file.name).open("rb") as whole:
            prefix = whole.read(file.position)
        (target / file.name).write_bytes(prefix)
        lines += prefix.count(b"\n")
    return lines


def _count_if_equal(folder: str, files: list[str]) -> int:
    # The query runs on the same machine: leave it its core.
    conf = {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"}
    spark = build_session(conf, "flights compare")
    try:
        rows, missing, surplus = _compare(spark, folder, files)
    finally:
        spark.stop()
    if missing or surplus:
        raise AssertionError(
            f"{missing} of {rows} rows were not committed, {surplus} were committed that the batch "
            "run does not have."
        )
    return rows


def _committed_files(output_path: str, epoch: int) -> list[str]:
    """The sink's data files of the epochs up to ``epoch``."""
    log = FileSinkLog(open_storage(f"{output_path}/{FOLDER}"))
    return [file.path for file in log.files(up_to=epoch)]


def _compare(spark: SparkSession, folder: str, files: list[str]) -> tuple[int, int, int]:
    """Rows expected; those that are missing; those too many. A row counts as often as it occurs."""
    spark.read.schema(SCHEMA).json(folder).createOrReplaceTempView("source")
    expected = spark.sql(DELAYED)
    found = spark.read.schema(expected.schema).parquet(*files) if files else expected.limit(0)
    both = expected.selectExpr("*", "1 AS here", "0 AS there").unionAll(
        found.selectExpr("*", "0 AS here", "1 AS there")
    )
    groups = both.groupBy(*expected.columns).agg({"here": "sum", "there": "sum"})
    here, there = "`sum(here)`", "`sum(there)`"
    (row,) = groups.selectExpr(
        f"coalesce(sum({here}), 0)",
        f"coalesce(sum(greatest({here} - {there}, 0)), 0)",
        f"coalesce(sum(greatest({there} - {here}, 0)), 0)",
    ).collect()
    return int(row[0]), int(row[1]), int(row[2])
