"""``memory``: a table in the driver's memory, for tests and debugging.

The query's name is the table's. ``spark.table(name)`` holds the committed epochs. Collecting or
showing it needs no task slot, so that works while continuous tasks occupy them all; filters and
aggregates over it do need one.
:func:`table` and :func:`rows` show them without a JVM. Nothing is ever removed but by a rewind;
with output mode ``complete`` the rows of an epoch take the place of those before.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, WriterCommitMessage

from engine.base.connector_options import Options
from engine.errors import ConfigError
from engine.expressions.schemas import to_pyspark_arrow
from engine.sinks.contract import EXACTLY_ONCE
from engine.sinks.pyspark_rows import data_frame_of, rows_of
from engine.sinks.shipped import (
    SHIPPED_BYTES_MAX,
    RowShipper,
    ShippingWriter,
    one_table,
    shipped_bytes_max,
    unpack,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_VIEW_CHUNK_BYTES: Final = 16 << 20
"""Below Spark's ``arrow.localRelationThreshold``: above it, reading would be a Spark job."""


class MemoryTable:
    """The committed rows of one query.

    :param replaces: the rows of an epoch take the place of all before it.
    """

    def __init__(self, schema: pa.Schema, *, replaces: bool = False) -> None:
        self._schema, self._replaces = schema, replaces
        self._epochs: dict[int, list[pa.Table]] = {}
        self._lock = threading.Lock()

    def add(self, epoch: int, tables: Sequence[pa.Table]) -> bool:
        """False, and nothing changes, if the epoch or a later one is there."""
        with self._lock:
            if self._epochs and epoch <= max(self._epochs):
                return False
            if self._replaces and tables:
                self._epochs = {each: [] for each in self._epochs}
            self._epochs[epoch] = list(tables)
            return True

    def drop_after(self, epoch: int) -> bool:
        """Remove the later epochs; False if there were none."""
        with self._lock:
            kept = {each: tables for each, tables in self._epochs.items() if each <= epoch}
            changed = len(kept) < len(self._epochs)
            self._epochs = kept
            return changed

    def latest_epoch(self) -> int | None:
        with self._lock:
            return max(self._epochs, default=None)

    def read(self) -> pa.Table:
        """All rows, in the order of epochs and, in an epoch, of partitions."""
        with self._lock:
            tables = [table for each in self._epochs.values() for table in each]
        return one_table(tables, self._schema)


_TABLES: Final[dict[str, MemoryTable]] = {}


def table(query_name: str) -> pa.Table:
    """The committed rows of the newest memory query of this name in this process.

    :raises KeyError: there is none.
    """
    return _TABLES[query_name].read()


def rows(query_name: str) -> list[Row]:
    """As :func:`table`, as PySpark rows."""
    return [row for batch in table(query_name).to_batches() for row in rows_of(batch)]


class MemoryDataSource(DataSource):
    """The sink by its name, without a session: the rows are reached with :func:`rows`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options("sink memory", options)
        self._query_name = taken.text("queryName")
        self._bytes_max = shipped_bytes_max(taken)
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "continuous_memory"

    def streamWriter(self, schema: StructType, overwrite: bool) -> MemoryWriter:
        if not self._query_name:
            raise ConfigError(
                "The memory sink needs a name for its table.", hint="Set queryName(...)."
            )
        return MemoryWriter(self._query_name, schema, bytes_max=self._bytes_max, replaces=overwrite)


class MemoryWriter(ShippingWriter):
    """:param spark: where the table is to be seen.
    :param replaces: see :class:`MemoryTable`.
    """

    delivery = EXACTLY_ONCE

    def __init__(
        self,
        query_name: str,
        schema: StructType,
        spark: SparkSession | None = None,
        bytes_max: int = SHIPPED_BYTES_MAX,
        *,
        replaces: bool = False,
    ) -> None:
        super().__init__(RowShipper("memory", bytes_max, takes_empty=replaces))
        self._schema = to_pyspark_arrow(schema, "sink memory")
        self._table = MemoryTable(self._schema, replaces=replaces)
        self._replaces = replaces
        self._view = None if spark is None else SparkView(spark, query_name, schema)
        self._view_is_torn = False
        _TABLES[query_name] = self._table

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        tables = unpack(messages, self._schema)
        if self._view is not None and self._view_is_torn:
            self._view.clear()
            self._view.append([self._table.read()])
            self._view_is_torn = False
        if self._table.add(batchId, tables) and self._view is not None:
            try:
                if self._replaces and tables:
                    self._view.clear()
                self._view.append(tables)
            except BaseException:
                # Part of it may be in the view. The epoch is not committed: it comes again.
                self._table.drop_after(batchId - 1)
                self._view_is_torn = True
                raise

    def latestEpoch(self) -> int | None:
        """The newest committed epoch; None in a new process, where the table is empty."""
        return self._table.latest_epoch()

    def rewind(self, epoch: int) -> None:
        """Drop the rows of later epochs, if there are any: a new process has none at all."""
        if self._table.drop_after(epoch) and self._view is not None:
            self._view.clear()
            self._view.append([self._table.read()])


class SparkView:
    """A temporary view over Spark's own memory sink, which is read when a query is planned.

    Source: Spark's MemorySink and MemoryPlan.
    """

    def __init__(self, spark: SparkSession, name: str, schema: StructType) -> None:
        self._spark, self._schema = spark, schema
        self._parts = 0
        jvm: Any = spark._jvm
        sources = jvm.org.apache.spark.sql.execution.streaming.sources
        self._sink = sources.MemorySink()
        empty = spark.createDataFrame([], schema)
        output = empty._jdf.queryExecution().analyzed().output()
        plan = sources.MemoryPlan(self._sink, output)
        classic = jvm.org.apache.spark.sql.classic
        classic.Dataset.ofRows(spark._jsparkSession, plan).createOrReplaceTempView(name)

    def clear(self) -> None:
        """Remove all rows."""
        self._sink.clear()

    def append(self, tables: Sequence[pa.Table]) -> None:
        """Add rows."""
        for rows_table in tables:
            size = max(1, rows_table.num_rows * _VIEW_CHUNK_BYTES // max(1, rows_table.nbytes))
            for start in range(0, rows_table.num_rows, size):
                # Of a table without columns Arrow slices more rows than there are.
                rows = rows_table.slice(start, min(size, rows_table.num_rows - start))
                part = data_frame_of(self._spark, rows, self._schema)
                # The sink ignores an epoch that it has, so each part gets a number of its own.
                self._sink.write(self._parts, False, part._jdf.collect())
                self._parts += 1
