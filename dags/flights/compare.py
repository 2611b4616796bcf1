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
from engine.checkpoint.storage import open_storage
from engine.sinks.file_sink_log import FOLDER, FileSinkLog
from engine.spark.session import build_session
from flights.query import DELAYED, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def compare_committed(checkpoint: str, output_path: str, input_path: str) -> dict[str, Any]:
    """Compare as of the last committed epoch.

    :return: ``epoch``, ``input_rows``, ``output_rows`` of the batch run, and ``equal``.
    :raises AssertionError: they differ; says how many rows are only in one of the two.
    """
    state = Checkpoint(checkpoint)
    epoch = state.committed_epoch()
    (offset,) = state.committed_offsets(epoch)
    with tempfile.TemporaryDirectory() as folder:
        copy_prefix(Path(input_path), offset, Path(folder))
        spark = build_session({"spark.master": "local[1]"}, "flights compare")
        try:
            result = _compare(spark, folder, _committed_files(output_path, epoch))
        finally:
            spark.stop()
    return {"epoch": epoch, **result}


def copy_prefix(source: Path, offset: dict[str, int], target: Path) -> None:
    """Copy of each file as many bytes as the offset says."""
    for name, count in offset.items():
        copied = target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        with (source / name).open("rb") as whole, copied.open("wb") as prefix:
            prefix.write(whole.read(count))


def _committed_files(output_path: str, epoch: int) -> list[str]:
    """The sink's data files of the epochs up to ``epoch``."""
    log = FileSinkLog(open_storage(f"{output_path}/{FOLDER}"))
    return [file.path for file in log.files(up_to=epoch)]


def _compare(spark: SparkSession, folder: str, files: list[str]) -> dict[str, Any]:
    source = spark.read.schema(SCHEMA).json(folder)
    source.createOrReplaceTempView("source")
    expected = spark.sql(DELAYED)
    found = spark.read.schema(expected.schema).parquet(*files) if files else expected.limit(0)
    missing, surplus = _difference(expected, found), _difference(found, expected)
    rows = expected.count()
    if missing or surplus:
        raise AssertionError(
            f"{missing} of {rows} rows were not committed, {surplus} were committed that the batch "
            "run does not have."
        )
    return {"input_rows": source.count(), "output_rows": rows, "equal": True}


def _difference(left: DataFrame, right: DataFrame) -> int:
    """How many rows of ``left`` have no partner in ``right``; equal rows are counted."""
    return left.exceptAll(right).count()
