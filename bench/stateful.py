"""What the benchmarks of queries with state share: two partitions, two reducers, some seconds."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench import latency, throughput
from bench.measure import percentile
from bench.size import sized
from engine import write_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINES = ("engine", "spark micro-batch")
SLOTS = {"engine": 8, "spark micro-batch": 2}
REDUCERS = 2
WARM_UP_S = sized(8.0, 6.0, 1.0)
MEASURE_S = sized(10.0, 6.0, 1.5)
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


def rows_per_second(df: DataFrame, engine: str, mode: str, **options: str) -> float:
    """Rows of all sources per second, of our engine by its offset log, of Spark by its reports.

    :param options: of our engine.
    """
    with tempfile.TemporaryDirectory() as folder:
        if engine == "engine":
            writer: Any = write_stream(df).trigger(continuous="500 milliseconds").options(**options)
            measure = throughput.continuous
        else:
            writer = df.writeStream.trigger(processingTime="0 seconds")
            measure = throughput.micro_batch
        writer = writer.format("noop").outputMode(mode).option("checkpointLocation", folder)
        return measure(writer, folder, WARM_UP_S, MEASURE_S)


def latencies(df: DataFrame, engine: str, mode: str) -> dict[str, float]:
    """From column ``timestamp`` to the last step before the writer, after the warm-up, in
    milliseconds. Of ours that is a Python function, of Spark the JVM's clock, in whole ones."""
    if engine == "engine":
        late = df.select("timestamp").mapInArrow(lateness, "timestamp timestamp, late double")
        writer: Any = write_stream(late).trigger(continuous="1 second")
    else:
        late = df.selectExpr("timestamp", f"{_CLOCK} - unix_millis(timestamp) AS late")
        writer = late.writeStream
    handle = writer.format("memory").queryName("late").outputMode(mode).start()
    threading.Event().wait(latency.WARM_UP_S + latency.MEASURE_S + 5)
    handle.stop()
    rows = df.sparkSession.sql(
        "SELECT late FROM late WHERE timestamp > "
        f"(SELECT max(timestamp) FROM late) - INTERVAL {int(latency.MEASURE_S)} SECONDS"
    ).collect()
    values = [float(row.late) for row in rows]
    return {**{f"p{p}": percentile(values, p) for p in (50, 99)}, "rows": len(values)}


def lateness(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many milliseconds ago the time of each row was."""
    for batch in batches:
        now_us = time.time_ns() // 1000
        stamps = batch.column(0)
        late = (now_us - stamps.cast(pa.int64()).to_numpy()) / 1000
        yield pa.RecordBatch.from_arrays([stamps, pa.array(late)], names=["timestamp", "late"])
