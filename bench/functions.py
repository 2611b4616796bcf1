"""A Python UDF at 1,000 rows per second, epochs of 3 s: from a row's own timestamp to the call.

The function itself looks at the clock and returns how late it was called, in milliseconds, against
timestamps in whole milliseconds. Spark's continuous mode calls a UDF when 10,000 rows have gathered
or the epoch ends.
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
    from pyspark.sql import DataFrame, SparkSession

ENGINES = ("engine", "spark continuous")
EPOCH_S = 3
WARM_UP_EPOCHS = 2
EPOCHS = sized(6, 5, 3)
ROWS_PER_SECOND = 1_000

_EPOCHS: list[list[float]] = []
"""Of the driver: the writer itself may be copied."""


@dataclass
class Lateness(WriterCommitMessage):
    """One entry per row, in milliseconds."""

    values: list[float]


class CollectingWriter(DataSourceStreamArrowWriter):
    """Keeps the values of the only column, by epoch."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Lateness:
        return Lateness([value for batch in iterator for value in batch.column(0).to_pylist()])

    def commit(self, messages: list[Any], batchId: int) -> None:
        _EPOCHS.append([value for message in messages for value in message.values])

    def abort(self, messages: list[Any], batchId: int) -> None:
        return None


class CollectingSink(DataSource):
    """Registered as ``collecting``."""

    @classmethod
    def name(cls) -> str:
        return "collecting"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
        return CollectingWriter()


def late_calls(spark: SparkSession) -> DataFrame:
    """How late the function is called for each row of the rate source."""
    from pyspark.sql.functions import udf

    late = udf(lambda micros: time.time() * 1000 - micros / 1000, "double")
    rate = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", ROWS_PER_SECOND)
        .option("numPartitions", 2)
        .load()
    )
    return rate.selectExpr("unix_micros(timestamp) AS micros").select(late("micros").alias("late"))


def latencies_ms(spark: SparkSession, engine: str) -> list[float]:
    """Milliseconds of each row after the warm-up."""
    df = late_calls(spark)
    trigger = f"{EPOCH_S} seconds"
    with tempfile.TemporaryDirectory() as folder:
        if engine == "engine":
            spark.dataSource.register(CollectingSink)
            handle = (
                write_stream(df)
                .format("collecting")
                .option("checkpointLocation", folder)
                .trigger(continuous=trigger)
                .start()
            )
            assert handle.awaitEpoch(EPOCHS, timeout=90)
            handle.stop()
            return [value for epoch in _EPOCHS[WARM_UP_EPOCHS:] for value in epoch]
        writer = df.writeStream.format("memory").queryName("calls").outputMode("append")
        query = writer.trigger(continuous=trigger).start()
        threading.Event().wait((EPOCHS + 2) * EPOCH_S)
        query.stop()
        values = [float(row.late) for row in spark.sql("SELECT late FROM calls").collect()]
        return values[len(values) * WARM_UP_EPOCHS // EPOCHS :]


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    from bench.session import session

    with session() as spark:
        values = latencies_ms(spark, engine)
        figures = {f"p{p:g}": percentile(values, p) for p in (50, 99)}
        print(json.dumps({**figures, "max": max(values), "rows": len(values)}))
