"""Queries from files or tables to a sink that keeps what was committed, on threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ContinuousError
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.execution.restart_budget import blame
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.handle import ContinuousQuery
from engine.sinks.adapter import PlainTaskWriter
from engine.sinks.contract import DriverSink, SinkBinding
from tests.model import ONE_ATTEMPT
from tests.waiting import wait_until

WAIT_S = 60
KEPT = replace(ONE_ATTEMPT, min_epochs_to_retain=10_000)
"""By default the logs keep a hundred epochs, which are two seconds of empty ones."""


@dataclass
class KeptRows:
    """What a task wrote in an epoch."""

    rows: list[dict[str, Any]]


@dataclass
class Kept:
    """What was committed, by epoch.

    :ivar fails: called before each commit.
    """

    epochs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    fails: Callable[[int], None] = lambda epoch: None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def write(self, batches: Iterator[pa.RecordBatch]) -> KeptRows:
        return KeptRows([_plain(row) for batch in batches for row in batch.to_pylist()])

    def commit(self, messages: list[KeptRows], epoch: int) -> None:
        self.fails(epoch)
        with self.changed:
            self.epochs.setdefault(epoch, [row for message in messages for row in message.rows])
            self.changed.notify_all()

    def abort(self, messages: list[KeptRows], epoch: int) -> None:
        pass

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for epoch in sorted(self.epochs) for row in self.epochs[epoch]]

    def values(self, column: str = "value") -> list[Any]:
        return sorted(row[column] for row in self.rows)

    def await_rows(self, count: int) -> None:
        wait_until(lambda: len(self.rows) >= count, f"{count} rows", WAIT_S)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint holds without the help of a class."""
    return {key: str(value) if isinstance(value, datetime) else value for key, value in row.items()}


def start(
    source: Any,
    schema: StructType,
    folder: Path,
    sink: Kept,
    engine: EngineOptions = KEPT,
    interval_ms: int = 20,
) -> ContinuousQuery:
    """:param source: a data source. :param engine: by default the first failure ends the query."""
    rows = to_arrow(schema, source.name())
    binding = StreamBinding(
        Pipeline(SourceRelation(source.name(), {}, rows), (), rows),
        source.continuousReader(schema),
        source.name(),
    )
    definition = QueryDefinition(
        name=None,
        streams=(binding,),
        sink=SinkBinding(
            replace(DriverSink.of(sink), delivery="exactly once"),
            PlainTaskWriter(sink.write),
            "kept",
            (__name__,),
        ),
        checkpoint=Checkpoint(str(folder)),
        epoch_interval_ms=interval_ms,
        options=engine,
    )
    execution = ContinuousExecution(definition, ThreadLauncher())
    execution.start()
    return ContinuousQuery(execution, str)


def all_read(query: ContinuousQuery) -> None:
    """Read all that is there, and end in order."""
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    assert query.exception() is None


def failure(query: ContinuousQuery) -> str:
    """Why it has ended."""
    wait_until(lambda: not query.isActive, "the query ends", WAIT_S)
    return str(query.exception())


def final_failure(query: ContinuousQuery) -> str:
    """The same, of what is no outage: another try would find the same."""
    told, error = failure(query), query.exception()
    assert isinstance(error, ContinuousError)
    assert blame(error) is None, told
    return told


def committed(folder: Path) -> Any:
    """The offset of the one source."""
    (offset,) = Checkpoint(str(folder)).committed_offsets() or (None,)
    return offset
