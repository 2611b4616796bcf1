"""``foreachBatch``: the user's function of a DataFrame and the epoch, on the driver.

The rows travel to the driver, so this is for results, not for the stream itself: see
:mod:`engine.sinks.shipped` for how many they may be. The function runs while the epoch is being
committed, on the engine's thread: what it takes delays the following commits. Spark jobs that it
starts need free task slots besides those of the continuous tasks.

It is called for epochs that have rows. After a crash it may be called again with the same epoch and
the same rows: a function that must not act twice keeps the epoch.

Source: Spark's ForeachBatchSink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.sinks.shipped import OPTION, SHIPPED_BYTES_MAX, ShippedRows, ship, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class ForeachBatchWriter(DataSourceStreamArrowWriter):
    """:raises ConfigError: ``function`` is no function."""

    shipsRows = True
    tuningOptions = (OPTION,)

    def __init__(
        self,
        function: Callable[[DataFrame, int], object],
        spark: SparkSession,
        schema: StructType,
        bytes_max: int = SHIPPED_BYTES_MAX,
    ) -> None:
        self._bytes_max = bytes_max
        if not callable(function):
            raise ConfigError(
                f"foreachBatch takes a function(DataFrame, epoch), not {type(function).__name__}."
            )
        self._function, self._spark, self._schema = function, spark, schema
        self._arrow_schema = to_arrow(schema, "sink foreachBatch")

    def __getstate__(self) -> dict[str, Any]:
        return {"_bytes_max": self._bytes_max}  # the executors only write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ShippedRows:
        return ship(iterator, "foreachBatch", self._bytes_max)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        tables = unpack(messages, self._arrow_schema)
        if tables:
            rows = pa.concat_tables(tables)
            self._function(self._spark.createDataFrame(rows, self._schema), batchId)
