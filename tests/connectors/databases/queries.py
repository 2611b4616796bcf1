"""A sink that writes a table of a database, driven as the engine drives it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from engine.checkpoint.logs.codec import MessageCodec
from engine.checkpoint.sink_context import BoundContext, Inherited
from engine.expressions.types import schema_to_spark
from engine.sinks.builtin_sinks import sink_class
from engine.sinks.contract import TaskWriter, WriterContext

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
CHANGES = pa.schema([*SCHEMA, ("gone", pa.bool_())])
KEYED = {"mode": "upsert", "keyColumns": "id", "deleteColumn": "gone"}
QUERY = "9a5f9e0c-0b5a-4a39-9f0f-3f4a8c1d2e3f"
_OPEN: list[Query] = []


def unbound(sink: str, options: Mapping[str, str], schema: pa.Schema = SCHEMA) -> Any:
    """A sink that is not bound."""
    return sink_class(sink)(CaseInsensitiveDict(options)).streamWriter(
        StructType.fromJson(schema_to_spark(schema)), overwrite=False
    )


class Query:
    """One attempt to run a query: starts as the engine starts it.

    :param sink: a :class:`engine.sinks.databases.writer.TableWriter`.
    """

    def __init__(
        self,
        sink: Any,
        *,
        generation: int = 0,
        timeline: int = 0,
        logged: int = -1,
        query_id: str = QUERY,
        inherited: Inherited | None = None,
        prepared: Sequence[tuple[int, Sequence[Any]]] = (),
    ) -> None:
        self.sink = sink
        self.context = BoundContext(query_id, "run", generation, timeline, inherited)
        self._tasks: dict[int, TaskWriter] = {}
        _OPEN.append(self)
        sink.validate()
        sink.bind(self.context)
        self.latest = sink.latestEpoch()
        sink.checkLogged(logged)
        for epoch, messages in prepared:
            sink.commit(messages, epoch)
        sink.fenceTasks()

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
        """End its tasks, and hold no lock."""
        for task in self._tasks.values():
            task.close()
        self._tasks.clear()
        self.sink._epochs.forget()


def close_all() -> None:
    """Those that the test has left."""
    while _OPEN:
        _OPEN.pop().close()


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": i, "name": f"n{i}"} for i in ids], SCHEMA)


def changes(*given: tuple[int, str | None, bool]) -> pa.RecordBatch:
    names = CHANGES.names
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, each, strict=True)) for each in given], CHANGES
    )
