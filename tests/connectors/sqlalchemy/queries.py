"""A sink of SQLAlchemy, driven as the engine drives it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.checkpoint.logs.codec import MessageCodec
from engine.checkpoint.sink_context import SinkContext
from engine.expressions.types import schema_to_spark
from engine.sinks.builtin_sinks import sink_class
from engine.sinks.contract import WriterContext
from engine.sinks.sqlalchemy.data_source import SqlAlchemyWriter

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
CHANGES = pa.schema([*SCHEMA, ("gone", pa.bool_())])
QUERY = "9a5f9e0c-0b5a-4a39-9f0f-3f4a8c1d2e3f"
_OPEN: list[Query] = []


class Database:
    """One to write to, and to look into.

    :param table: of the test.
    """

    def __init__(self, url: str, table: str) -> None:
        self.url, self.table = url, table
        self.engine = sa.create_engine(url, poolclass=sa.pool.NullPool)

    @property
    def dialect(self) -> str:
        return self.engine.dialect.name

    def run(self, *statements: str) -> None:
        with self.engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def read(self, query: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(query)]

    def ids(self) -> list[int]:
        return [row[0] for row in self.read(f"SELECT id FROM {self.table} ORDER BY id")]

    def writer(self, schema: pa.Schema = SCHEMA, **options: str) -> SqlAlchemyWriter:
        """A sink that is not bound."""
        given = CaseInsensitiveDict({"url": self.url, "table": self.table, **options})
        made = sink_class("sqlalchemy")(given).streamWriter(
            StructType.fromJson(schema_to_spark(schema)), overwrite=False
        )
        assert isinstance(made, SqlAlchemyWriter)
        return made


class Query:
    """One attempt to run a query: starts as the engine starts it."""

    def __init__(
        self,
        sink: SqlAlchemyWriter,
        *,
        generation: int = 0,
        timeline: int = 0,
        logged: int = -1,
        query_id: str = QUERY,
        prepared: Sequence[tuple[int, Sequence[Any]]] = (),
    ) -> None:
        self.sink = sink
        self.context = SinkContext(query_id, "run", generation, timeline)
        _OPEN.append(self)
        sink.validate()
        sink.bind(self.context)
        self.latest = sink.latestEpoch()
        sink.checkLogged(logged)
        for epoch, messages in prepared:
            sink.commit(messages, epoch)
        sink.fenceTasks()

    def prepare(self, epoch: int, *batches: pa.RecordBatch, task: int = 0) -> Any:
        """A task's message, the way through the checkpoint included."""
        made = pickle.loads(pickle.dumps(self.sink.taskWriter()))
        run = self.context
        made.open(WriterContext(run.query_id, run.run_id, run.generation, run.timeline, task, 2))
        codec = MessageCodec(self.sink.messageTypes)
        return codec.decode(codec.encode([made.write(epoch, iter(batches))]))

    def commit(self, epoch: int, *batches: pa.RecordBatch) -> None:
        self.sink.commit([self.prepare(epoch, *batches), None], epoch)


def close_all() -> None:
    """Nothing of a test holds a lock."""
    while _OPEN:
        _OPEN.pop().sink._epochs.forget()


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": i, "name": f"n{i}"} for i in ids], SCHEMA)


def changes(*given: tuple[int, str | None, bool]) -> pa.RecordBatch:
    names = CHANGES.names
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, each, strict=True)) for each in given], CHANGES
    )
