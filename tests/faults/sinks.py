"""The sinks that processes write to and are killed at: three formats of files, a table of Delta and
one of Iceberg, ``foreach``, ``foreachBatch`` and ``foreachBatchArrow`` into SQLite, and a row
writer of somebody else."""

from __future__ import annotations

import csv
import gzip
import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from engine.checkpoint.storage.local_storage import LocalStorage
from engine.query.binding import bind_writer
from engine.sinks.contract import EXACTLY_ONCE, SinkBinding
from engine.sinks.delta.data_source import DeltaDataSource
from engine.sinks.epoch_context import EpochContext
from engine.sinks.files.data_source import CsvDataSource, JsonDataSource, ParquetDataSource
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog
from engine.sinks.foreach import ForeachWriter
from engine.sinks.foreach_batch import BatchContext, ForeachBatchArrowWriter, ForeachBatchWriter
from engine.sinks.iceberg.data_source import IcebergDataSource
from tests.faults.parts import SPARK_SCHEMA, Record
from tests.unit.iceberg_tables import NAME, Lake

FORMATS = {"parquet": ParquetDataSource, "json": JsonDataSource, "csv": CsvDataSource}
LAKES = ("delta", "iceberg")
FUNCTIONS = ("foreachBatch", "foreachBatchArrow")
SINKS = (*FORMATS, *LAKES, "foreach", *FUNCTIONS, "rows")
AT_LEAST_ONCE = ("foreach", "rows")
_TABLE = "create table if not exists records(commit_key, p, seq)"


def binding(name: str, folder: Path) -> SinkBinding:
    """The sink of a query in this folder."""
    writer: Any
    if name in FORMATS:
        source = FORMATS[name]({"path": str(folder / "out"), "compactInterval": "4"})
        writer = source.streamWriter(SPARK_SCHEMA, overwrite=False)
    elif name == "delta":
        source = DeltaDataSource({"path": str(folder / "out")})
        writer = source.streamWriter(SPARK_SCHEMA, overwrite=False)
    elif name == "iceberg":
        source = IcebergDataSource(Lake.at(folder).options)
        writer = source.streamWriter(SPARK_SCHEMA, overwrite=False)
    elif name == "foreach":
        writer = ForeachWriter(_Appender(folder), SPARK_SCHEMA)
    elif name == "foreachBatch":
        # A session is only asked to make a DataFrame of the epoch's rows.
        session: Any = SimpleNamespace(createDataFrame=lambda rows, schema: rows)
        writer = ForeachBatchWriter(_into_sqlite(folder), session, SPARK_SCHEMA)
        writer.delivery = EXACTLY_ONCE
    elif name == "foreachBatchArrow":
        writer = ForeachBatchArrowWriter(partial(_store, folder), SPARK_SCHEMA)
        writer.delivery = EXACTLY_ONCE
    else:
        writer = _RowWriter(folder)
    return bind_writer(writer, name)


def seen(name: str, folder: Path) -> Counter[Record]:
    """What a reader of the sink gets."""
    if name in FUNCTIONS:
        with sqlite3.connect(folder / "table.db") as table:
            table.execute(_TABLE)
            return Counter(table.execute("select p, seq from records").fetchall())
    if name in AT_LEAST_ONCE:
        return Counter(
            tuple(map(int, line.split()))  # type: ignore[misc]
            for path in folder.glob("part-*.txt")
            for line in path.read_text().splitlines()
        )
    found: Counter[Record] = Counter()
    if name == "delta":
        if DeltaTable.is_deltatable(str(folder / "out")):
            rows = DeltaTable(str(folder / "out")).to_pyarrow_table()
            found.update(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        return found
    if name == "iceberg":
        lake = Lake.at(folder)
        if lake.catalog.table_exists(NAME):
            found.update((row["partition"], row["seq"]) for row in lake.read())
        return found
    for file in FileSinkLog(LocalStorage(folder / "out" / FOLDER)).files():
        found.update(_rows(name, Path(unquote(urlsplit(file.path).path))))
    return found


def _rows(name: str, path: Path) -> Iterator[Record]:
    if name == "parquet":
        table = pq.ParquetFile(path).read()
        yield from zip(*(column.to_pylist() for column in table.columns), strict=True)
        return
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as lines:
        if name == "json":
            yield from ((row["partition"], row["seq"]) for row in map(json.loads, lines))
        else:
            yield from ((int(p), int(seq)) for p, seq in csv.reader(lines))


class _Appender:
    """Appends to one file per partition, and synchronises at the end of the epoch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._of_task = threading.local()  # here the tasks are threads, and share this object

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self._of_task.file = (self._folder / f"part-{partition_id}.txt").open("a")
        return True

    def process(self, row: Any) -> None:
        self._of_task.file.write(f"{row.partition} {row.seq}\n")

    def close(self, error: BaseException | None) -> None:
        file = self._of_task.file
        file.flush()
        os.fsync(file.fileno())
        file.close()


class _RowWriter(DataSourceStreamWriter):
    """As somebody writes it who knows only PySpark."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = EpochContext.get()
        assert context is not None
        appender = _Appender(self._folder)
        appender.open(context.partition, context.epoch)
        for row in iterator:
            appender.process(row)
        appender.close(None)
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:
        pass

    def abort(self, messages: Any, batchId: int) -> None:
        pass


def _into_sqlite(folder: Path) -> Callable[[Any, int], None]:
    def write(rows: pa.Table, epoch: int) -> None:
        context = BatchContext.get()
        assert context is not None
        assert context.epoch == epoch
        _store(folder, rows, context)

    return write


def _store(folder: Path, rows: pa.Table, context: BatchContext) -> None:
    """A user's function as our guide wants it: it keeps the key of each commit."""
    key = f"{context.query_id}/{context.timeline}/{context.epoch}"
    with sqlite3.connect(folder / "table.db") as table:
        table.execute(_TABLE)
        known = table.execute("select 1 from records where commit_key = ?", (key,)).fetchone()
        assert context.is_replay or not known
        if known:
            return
        records = [(key, row["partition"], row["seq"]) for row in rows.to_pylist()]
        table.executemany("insert into records values (?, ?, ?)", records)
