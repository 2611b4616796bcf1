"""A sink of PostgreSQL, driven as the engine drives it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.checkpoint.logs.codec import MessageCodec
from engine.checkpoint.sink_context import SinkContext
from engine.expressions.types import schema_to_spark
from engine.sinks.builtin_sinks import sink_class
from engine.sinks.contract import TaskWriter, WriterContext
from engine.sinks.postgres.data_source import PostgresWriter
from tests.servers.postgresql import PostgreSQL

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
CHANGES = pa.schema([*SCHEMA, ("gone", pa.bool_())])
OPEN: list[Query] = []
"""Those that the test has left."""
QUERY = "9a5f9e0c-0b5a-4a39-9f0f-3f4a8c1d2e3f"


def writer(
    server: PostgreSQL, table: str, schema: pa.Schema = SCHEMA, **options: str
) -> PostgresWriter:
    """A sink that is not bound."""
    given = CaseInsensitiveDict({**server.options, "table": table, **options})
    made = sink_class("postgres")(given).streamWriter(
        StructType.fromJson(schema_to_spark(schema)), overwrite=False
    )
    assert isinstance(made, PostgresWriter)
    return made


class Query:
    """One attempt to run a query: starts as the engine starts it."""

    def __init__(
        self,
        sink: PostgresWriter,
        *,
        generation: int = 0,
        timeline: int = 0,
        logged: int = -1,
        query_id: str = QUERY,
        prepared: Sequence[tuple[int, Sequence[Any]]] = (),
    ) -> None:
        self.sink = sink
        self.context = SinkContext(query_id, "run", generation, timeline)
        self._tasks: dict[int, TaskWriter] = {}
        sink.validate()
        sink.bind(self.context)
        self.latest = sink.latestEpoch()
        sink.checkLogged(logged)
        for epoch, messages in prepared:
            sink.commit(messages, epoch)
        sink.fenceTasks()
        OPEN.append(self)

    def task(self, number: int = 0) -> TaskWriter:
        """The executor's side, on its way there."""
        if number not in self._tasks:
            made: TaskWriter = pickle.loads(pickle.dumps(self.sink.taskWriter()))
            run = self.context
            made.open(
                WriterContext(run.query_id, run.run_id, run.generation, run.timeline, number, 2)
            )
            self._tasks[number] = made
        return self._tasks[number]

    def prepare(self, epoch: int, *batches: pa.RecordBatch, task: int = 0) -> Any:
        """A task's message, the way through the checkpoint included."""
        message = self.task(task).write(epoch, iter(batches))
        codec = MessageCodec(self.sink.messageTypes)
        return codec.decode(codec.encode([message]))

    def commit(self, epoch: int, *batches: pa.RecordBatch) -> None:
        self.sink.commit([self.prepare(epoch, *batches), None], epoch)
        for task in self._tasks.values():
            task.committed(epoch)

    def close(self) -> None:
        for task in self._tasks.values():
            task.close()
        self._tasks.clear()


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": i, "name": f"n{i}"} for i in ids], SCHEMA)


def changes(*given: tuple[int, str | None, bool]) -> pa.RecordBatch:
    names = CHANGES.names
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, each, strict=True)) for each in given], CHANGES
    )


def read(server: PostgreSQL, query: str) -> list[tuple[Any, ...]]:
    with server.connect() as connection:
        return list(connection.execute(query).fetchall())


def read_nothing(server: PostgreSQL, statements: str) -> None:
    with server.connect() as connection:
        connection.execute(statements)


def ids(server: PostgreSQL, table: str) -> list[int]:
    return [row[0] for row in read(server, f"SELECT id FROM {table} ORDER BY id")]


def stages(server: PostgreSQL, schema: str) -> list[str]:
    return [
        row[0]
        for row in read(
            server,
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = "
            f"'{schema}'::regnamespace AND relname ~ '^continuous_[0-9a-f]{{12}}_' ORDER BY 1",
        )
    ]
