"""What the benchmarks of queries with state share: two partitions, two reducers, some seconds."""

from __future__ import annotations

import tempfile
import threading
from typing import TYPE_CHECKING, Any

from bench import latency, throughput
from bench.measure import percentile
from engine import write_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINES = ("engine", "spark micro-batch")
SLOTS = {"engine": 8, "spark micro-batch": 2}
REDUCERS = 2
WARM_UP_S = 8.0
MEASURE_S = 10.0
ENOUGH = 40_000_000
"""Rows per second that our source never reaches."""
_CLOCK = "CAST(reflect('java.lang.System', 'currentTimeMillis') AS BIGINT)"


def rate(spark: SparkSession, rows_per_second: int) -> DataFrame:
    """Two partitions of it; states lie on two reducers."""
    spark.conf.set("spark.sql.shuffle.partitions", REDUCERS)
    return (
        spark.readStream.format("rate")
        .option("rowsPerSecond", rows_per_second)
        .option("numPartitions", 2)
        .load()
    )


def rows_per_second(df: DataFrame, engine: str, mode: str) -> float:
    """Rows of all sources per second, of our engine by its offset log, of Spark by its reports."""
    with tempfile.TemporaryDirectory() as folder:
        if engine == "engine":
            writer: Any = write_stream(df).trigger(continuous="500 milliseconds")
            measure = throughput.continuous
        else:
            writer = df.writeStream.trigger(processingTime="0 seconds")
            measure = throughput.micro_batch
        writer = writer.format("noop").outputMode(mode).option("checkpointLocation", folder)
        return measure(writer, folder, WARM_UP_S, MEASURE_S)


def latencies(df: DataFrame, engine: str, mode: str) -> dict[str, float]:
    """Milliseconds from column ``timestamp`` to the writer's hands, after the warm-up; of Spark,
    as in :mod:`bench.latency`, to its last projection."""
    with tempfile.TemporaryDirectory() as folder:
        if engine == "engine":
            values = latency.stamped(df, folder, mode)
        else:
            values = _of_micro_batch(df, mode)
    return {**{f"p{p}": percentile(values, p) for p in (50, 99)}, "rows": len(values)}


def _of_micro_batch(df: DataFrame, mode: str) -> list[float]:
    late = df.selectExpr("timestamp", f"{_CLOCK} - unix_millis(timestamp) AS late")
    handle = late.writeStream.format("memory").queryName("late").outputMode(mode).start()  # type: ignore[arg-type]
    threading.Event().wait(latency.WARM_UP_S + latency.MEASURE_S + 5)
    handle.stop()
    rows = df.sparkSession.sql(
        "SELECT late FROM late WHERE timestamp > "
        f"(SELECT max(timestamp) FROM late) - INTERVAL {int(latency.MEASURE_S)} SECONDS"
    ).collect()
    return [float(row.late) for row in rows]
