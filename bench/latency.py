"""rate at 1,000 rows per second: from a row's own timestamp to the writer's hands.

- engine: a sink that stamps every batch as ``write`` receives it (the wall clock in microseconds,
  against timestamps in whole milliseconds).
- spark continuous: it hands rows to no Python code in time, so the row itself looks at the JVM's
  clock in its last projection, in whole milliseconds: the sink's share is missing.
- spark micro-batch: the same projection.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from bench.measure import percentile
from bench.size import sized
from engine import write_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = ("engine", "spark continuous", "spark micro-batch")
WARM_UP_S = sized(5.0, 4.0, 2.0)
MEASURE_S = sized(10.0, 6.0, 2.0)
ROWS_PER_SECOND = 1_000

_EPOCHS: list[list[float]] = []
"""Of the driver: the writer itself may be copied."""


@dataclass
class Latencies(WriterCommitMessage):
    """One entry per row, in milliseconds."""

    values: list[float]


class StampingWriter(DataSourceStreamArrowWriter):
    """Compares each row's timestamp with the clock as the row arrives."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Latencies:
        values: list[float] = []
        for batch in iterator:
            now_us = time.time_ns() // 1000
            stamps = batch.column(0).cast(pa.int64()).to_numpy()
            values.extend(((now_us - stamps) / 1000).tolist())
        return Latencies(values)

    def commit(self, messages: list[Any], batchId: int) -> None:
        _EPOCHS.append([value for message in messages for value in message.values])

    def abort(self, messages: list[Any], batchId: int) -> None:
        return None


class StampingSink(DataSource):
    """Registered as ``stamping``."""

    @classmethod
    def name(cls) -> str:
        return "stamping"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
        return StampingWriter()


def latencies_ms(spark: SparkSession, engine: str) -> list[float]:
    """Milliseconds of each row after the warm-up."""
    rate = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", ROWS_PER_SECOND)
        .option("numPartitions", 2)
        .load()
        .where("value >= 0")
    )
    with tempfile.TemporaryDirectory() as folder:
        if engine == "engine":
            df = rate.selectExpr("timestamp", "value * 3 AS a", "value + 7 AS b")
            return _engine(df, folder)
        clock = "CAST(reflect('java.lang.System', 'currentTimeMillis') AS BIGINT)"
        df = rate.selectExpr("timestamp", f"{clock} - unix_millis(timestamp) AS late")
        trigger = {"continuous": "1 second"} if engine.endswith("continuous") else {}
        writer = df.writeStream.format("memory").queryName("late").outputMode("append")
        handle = (writer.trigger(**trigger) if trigger else writer).start()  # type: ignore[arg-type]
        threading.Event().wait(WARM_UP_S + MEASURE_S + 5)
        handle.stop()
        rows = spark.sql(
            "SELECT late FROM late WHERE timestamp > "
            f"(SELECT max(timestamp) FROM late) - INTERVAL {int(MEASURE_S)} SECONDS"
        ).collect()
        return [float(row.late) for row in rows]


def _engine(df: Any, folder: str) -> list[float]:
    df.sparkSession.dataSource.register(StampingSink)
    handle = (
        write_stream(df)
        .format("stamping")
        .option("checkpointLocation", folder)
        .trigger(continuous="1 second")
        .start()
    )
    assert handle.awaitEpoch(int(WARM_UP_S + MEASURE_S), timeout=60)
    handle.stop()
    return [value for epoch in _EPOCHS[int(WARM_UP_S) :] for value in epoch]


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    from bench.session import session

    with session() as spark:
        values = latencies_ms(spark, engine)
        figures = {f"p{p:g}": percentile(values, p) for p in (50, 99, 99.9)}
        print(json.dumps({**figures, "max": max(values), "rows": len(values)}))
