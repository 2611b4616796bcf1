"""A query that writes to a table of a lake, as the engine drives it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from engine.checkpoint.logs.codec import MessageCodec
from engine.checkpoint.sink_context import BoundContext, Inherited
from engine.sinks.contract import TaskWriter, WriterContext
from engine.sinks.lakes.writer import TableWriter

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
QUERY = "9a5f9e0c-0b5a-4a39-9f0f-3f4a8c1d2e3f"


class Query:
    """One attempt to run a query: starts as the engine starts it."""

    def __init__(
        self,
        sink: TableWriter[Any, Any],
        *,
        generation: int = 0,
        timeline: int = 0,
        logged: int = -1,
        query_id: str = QUERY,
        inherited: Inherited | None = None,
        prepared: Sequence[tuple[int, Any]] = (),
    ) -> None:
        self.sink = sink
        self.context = BoundContext(query_id, "run", generation, timeline, inherited)
        sink.validate()
        sink.bind(self.context)
        self.latest = sink.latestEpoch()
        sink.checkLogged(logged)
        for epoch, message in prepared:
            sink.commit([message], epoch)
        sink.fenceTasks()
        assert sink.leftovers.close(30)

    def task(self, number: int = 0) -> TaskWriter:
        """The executor's side, on its way there."""
        made: TaskWriter = pickle.loads(pickle.dumps(self.sink.taskWriter()))
        run = self.context
        made.open(WriterContext(run.query_id, run.run_id, run.generation, run.timeline, number, 2))
        return made

    def prepare(self, epoch: int, *batches: pa.RecordBatch) -> Any:
        """A task's message, the way through the checkpoint included."""
        message = self.task().write(epoch, iter(batches))
        codec = MessageCodec(self.sink.messageTypes)
        return codec.decode(codec.encode([message]))

    def commit(self, epoch: int, *batches: pa.RecordBatch) -> None:
        self.sink.commit([self.prepare(epoch, *batches), None], epoch)


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": i, "name": f"n{i}"} for i in ids], SCHEMA)
