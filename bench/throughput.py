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

from bench.size import sized
from engine import write_stream
from engine.checkpoint.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINES = ("engine", "spark continuous", "spark micro-batch")
WARM_UP_S = sized(6.0, 5.0, 1.0)
MEASURE_S = sized(8.0, 5.0, 1.5)
LATE_S = 90.0
"""A batch of Spark's that takes longer than all of that is waited for."""
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
        writer: Any = write_stream(df) if engine == "engine" else df.writeStream
        writer = writer.format("noop").option("checkpointLocation", folder)
        if engine == "spark micro-batch":
            return micro_batch(writer.trigger(processingTime="0 seconds"), folder)
        return continuous(writer.trigger(continuous="500 milliseconds"), folder)


def continuous(
    writer: Any, folder: str, warm_up_s: float = WARM_UP_S, measure_s: float = MEASURE_S
) -> float:
    """Rows per second by the offset log, of all sources.

    :param writer: of a query that was not started; its checkpoint is in the folder.
    """
    handle = writer.start()
    checkpoint = Checkpoint(folder)
    try:
        _wait_for_epoch(checkpoint, 1, timeout_s=60)
        _pause(warm_up_s)
        first = _newest(checkpoint)
        _pause(measure_s)
        last = _newest(checkpoint)
    finally:
        handle.stop()
    return (last[1] - first[1]) / (last[0] - first[0])


def _newest(checkpoint: Checkpoint) -> tuple[float, int]:
    """When the newest epoch was committed, and how many rows there were until then."""
    epoch = checkpoint.committed_epoch()
    offsets = checkpoint.committed_offsets(epoch)
    committed_s = (Path(checkpoint.storage.path(f"commits/{epoch}"))).stat().st_mtime
    return committed_s, sum(max(part["value"] for part in offset.values()) for offset in offsets)


def micro_batch(
    writer: Any, _folder: str, warm_up_s: float = WARM_UP_S, measure_s: float = MEASURE_S + 4
) -> float:
    """Rows per second of the time that batches take, by Spark's own reports."""
    handle = writer.start()
    try:
        _pause(warm_up_s)
        seen = len(handle.recentProgress)
        _pause(measure_s)
        deadline_s = time.monotonic() + LATE_S
        while not (reports := [p for p in handle.recentProgress[seen:] if p["numInputRows"]]):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"no batch within {LATE_S:g} s")
            _pause(0.1)
    finally:
        handle.stop()
    rows = sum(report["numInputRows"] for report in reports)
    busy_ms = sum(report["durationMs"]["triggerExecution"] for report in reports)
    return float(rows / busy_ms * 1000)


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
