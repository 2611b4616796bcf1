"""rate → filter → three projections → noop, as fast as it goes, on two partitions.

All engines read the same ``rate`` source, with a rate that none of them reaches, and write nothing.
The continuous ones are measured by their own offset log (both write the same JSON), micro-batch by
its progress reports; the first seconds of each are warm-up and not counted.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import write_stream
from engine.checkpoint.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINES = ("engine", "spark continuous", "spark micro-batch")
WARM_UP_S = 6.0
MEASURE_S = 8.0
ROWS_PER_SECOND = {
    "engine": 2_000_000_000,
    "spark continuous": 2_000_000_000,
    "spark micro-batch": 40_000_000,
}


def query(spark: SparkSession, rows_per_second: int) -> DataFrame:
    """The DataFrame that every engine runs."""
    return (
        spark.readStream.format("rate")
        .option("rowsPerSecond", rows_per_second)
        .option("numPartitions", 2)
        .load()
        .where("value % 10 < 5")  # half of the rows, and some of each partition
        .selectExpr("timestamp", "value * 3 AS a", "value + 7 AS b", "value - 1000 AS c")
    )


def rows_per_second(spark: SparkSession, engine: str) -> float:
    """Source rows per second that one engine gets through."""
    df = query(spark, ROWS_PER_SECOND[engine])
    with tempfile.TemporaryDirectory() as folder:
        if engine == "spark micro-batch":
            return _micro_batch(df, folder)
        return _continuous(df, folder, engine)


def _continuous(df: DataFrame, folder: str, engine: str) -> float:
    writer: Any = write_stream(df) if engine == "engine" else df.writeStream
    handle = (
        writer.format("noop")
        .option("checkpointLocation", folder)
        .trigger(continuous="500 milliseconds")
        .start()
    )
    checkpoint = Checkpoint(folder)
    try:
        _wait_for_epoch(checkpoint, 1, timeout_s=60)
        _pause(WARM_UP_S)
        first = _newest(checkpoint)
        _pause(MEASURE_S)
        last = _newest(checkpoint)
    finally:
        handle.stop()
    return (last[1] - first[1]) / (last[0] - first[0])


def _newest(checkpoint: Checkpoint) -> tuple[float, int]:
    """When the newest epoch was committed, and how many rows there were until then."""
    epoch = checkpoint.committed_epoch()
    (offset,) = checkpoint.committed_offsets(epoch)
    committed_s = (Path(checkpoint.storage.path(f"commits/{epoch}"))).stat().st_mtime
    return committed_s, max(part["value"] for part in offset.values())


def _micro_batch(df: DataFrame, folder: str) -> float:
    handle = (
        df.writeStream.format("noop")
        .option("checkpointLocation", folder)
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        _pause(WARM_UP_S)
        seen = len(handle.recentProgress)
        _pause(MEASURE_S + 4)
        reports = [p for p in handle.recentProgress[seen:] if p["numInputRows"]]
    finally:
        handle.stop()
    rows = sum(report["numInputRows"] for report in reports)
    busy_ms = sum(report["durationMs"]["triggerExecution"] for report in reports)
    return rows / busy_ms * 1000


def _wait_for_epoch(checkpoint: Checkpoint, epoch: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while checkpoint.committed_epoch() < epoch:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no epoch {epoch} within {timeout_s} s")
        _pause(0.1)


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def main(engine: str) -> None:
    """Measure one engine in this process and print its figure as JSON."""
    from bench.session import session

    with session() as spark:
        print(json.dumps({"rows_per_second": rows_per_second(spark, engine)}))
