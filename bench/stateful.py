"""What the benchmarks of queries with state share: two partitions, two reducers, some seconds."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f

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
    milliseconds. Of ours that is a Python function, which notes it in a file: a table in the
    driver's memory would keep both cores busy. Of Spark it is the JVM's clock, in whole ones."""
    with tempfile.TemporaryDirectory() as folder:
        if engine == "engine":
            noted = df.mapInArrow(partial(note_lateness, folder), df.schema)
            writer: Any = write_stream(noted).trigger(continuous="1 second").format("noop")
        else:
            noted = df.withColumn("late", f.expr(f"{_CLOCK} - unix_millis(timestamp)"))
            writer = noted.writeStream.format("memory").queryName("late")
        handle = writer.outputMode(mode).start()
        threading.Event().wait(latency.WARM_UP_S + latency.MEASURE_S + 5)
        handle.stop()
        if engine == "engine":
            noted = [np.fromfile(each, np.int64) for each in Path(folder).iterdir()]
            stamps, late_us = np.concatenate(noted).reshape(-1, 2).T
            late = late_us / 1000
        else:
            rows = df.sparkSession.sql("SELECT unix_micros(timestamp), late FROM late").toArrow()
            stamps, late = (column.to_numpy() for column in rows.columns)
    values = late[stamps > stamps.max() - latency.MEASURE_S * 1_000_000].tolist()
    return {**{f"p{p}": percentile(values, p) for p in (50, 99)}, "rows": len(values)}


def note_lateness(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write down when each row was due, and how many microseconds ago that was: a file for each
    process, and little at once, for what is done at the end of an epoch delays the next one."""
    with Path(folder, str(os.getpid())).open("ab", buffering=1 << 20) as file:
        for batch in batches:
            now_us = time.time_ns() // 1000
            stamps = batch.column("timestamp").cast(pa.int64()).to_numpy()
            file.write(np.stack([stamps, now_us - stamps], 1).tobytes())
            yield batch
