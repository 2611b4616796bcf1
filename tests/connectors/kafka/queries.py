"""Queries from topics to a sink that keeps what was committed, on threads: without Spark."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.pipeline.described import describe_connector
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.handle import ContinuousQuery
from engine.sinks.adapter import PlainTaskWriter
from engine.sinks.contract import DriverSink, SinkBinding
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.kafka.partition_reader import KafkaPartitionsReader
from engine.sources.kafka.reader import KafkaReader
from engine.sources.kafka.rows import SCHEMA
from tests.connectors.kafka.topics import Topic
from tests.model import ONE_ATTEMPT
from tests.waiting import wait_until

ROWS = pa.schema(list(SCHEMA)[:-1])


def reader_of(topic: Topic, **options: str) -> KafkaReader:
    """The driver's side of the source, of all columns."""
    source = KafkaDataSource(given(topic, **options))
    return source.continuousReader(source.schema())


def given(topic: Topic, **options: str) -> dict[str, str]:
    """Options; ``__`` in a name stands for a dot."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    if not {"subscribe", "subscribePattern", "assign"} & set(named):
        named["subscribe"] = topic.name
    servers = {"kafka.bootstrap.servers": topic.kafka.bootstrap}
    return {**servers, "startingOffsets": "earliest", **named}


@dataclass
class KeptMessage:
    """What a task wrote in an epoch: topic, partition, offset, value."""

    rows: list[list[str]]


@dataclass
class Kept:
    """What was committed, in the order of epochs."""

    epochs: dict[int, list[list[str]]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def write(self, batches: Iterator[pa.RecordBatch]) -> KeptMessage:
        return KeptMessage(
            [
                [row["topic"], str(row["partition"]), str(row["offset"]), row["value"].decode()]
                for batch in batches
                for row in batch.to_pylist()
            ]
        )

    def commit(self, messages: list[KeptMessage], epoch: int) -> None:
        with self.changed:
            self.epochs.setdefault(epoch, [row for message in messages for row in message.rows])
            self.changed.notify_all()

    def abort(self, messages: list[KeptMessage], epoch: int) -> None:
        pass

    @property
    def rows(self) -> list[list[str]]:
        return [row for epoch in sorted(self.epochs) for row in self.epochs[epoch]]

    @property
    def values(self) -> dict[str, list[int]]:
        """By partition, ``orders-0``: the values in their order."""
        found: dict[str, list[int]] = defaultdict(list)
        for topic, partition, _, value in self.rows:
            found[f"{topic}-{partition}"].append(int(value))
        return found

    def await_all(self, *topics: Topic, seconds: float = 30) -> None:
        """Until everything that was sent is committed: once, and in order."""
        wanted = {
            f"{topic.name}-{number}": list(range(count))
            for topic in topics
            for number, count in enumerate(topic.counts)
            if count
        }
        count = sum(map(len, wanted.values()))
        wait_until(lambda: len(self.rows) >= count, f"{count} records", seconds)
        assert self.values == wanted


def start(
    topic: Topic, folder: Path, sink: Kept, engine: EngineOptions = ONE_ATTEMPT, **options: str
) -> ContinuousQuery:
    """Epochs of 20 ms. :param engine: by default the first failure ends the query."""
    options = given(topic, **options)
    source = KafkaDataSource(options)
    relation = SourceRelation("kafka", options, ROWS)
    binding = StreamBinding(
        Pipeline(relation, (), ROWS),
        source.continuousReader(source.schema()),
        describe_connector("kafka", options),
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
        epoch_interval_ms=20,
        options=engine,
    )
    execution = ContinuousExecution(definition, ThreadLauncher())
    execution.start()
    return ContinuousQuery(execution, str)


def drained(query: ContinuousQuery) -> None:
    """See that it ends in order."""
    assert query.drain(30)


def committed(folder: Path) -> Any:
    """The offset of the one source."""
    (offset,) = Checkpoint(str(folder)).committed_offsets() or (None,)
    return offset


def batches_of(reader: KafkaPartitionsReader, rows: int) -> list[dict[str, Any]]:
    """So many rows, by place and offset."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        if (read := reader.read(0.1)) is not None:
            found.extend(read[1].to_pylist())
        return len(found) >= rows

    wait_until(look, f"{rows} rows")
    return found
