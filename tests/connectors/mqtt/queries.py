"""Queries from topics to a sink that keeps what was committed, on threads: without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
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
from engine.sources.contract import Offset, PartitionReader
from engine.sources.mqtt.data_source import MqttReader, MqttSource
from engine.sources.mqtt.rows import SCHEMA
from tests.model import ONE_ATTEMPT
from tests.servers.mqtt import MqttBroker
from tests.waiting import wait_until


def source(broker: MqttBroker, topics: str, **options: str) -> MqttReader:
    """The driver's side."""
    found = MqttSource({"url": broker.url, "topics": topics, **options})
    return found.continuousReader(found.schema())


def opened(reader: MqttReader, start: Offset, until: Offset | None = None) -> PartitionReader:
    """As a task opens it."""
    copy: MqttReader = pickle.loads(pickle.dumps(reader))
    (partition,) = pickle.loads(pickle.dumps(reader.partitions(start)))
    return copy.open(partition, until)


def read(task: PartitionReader, count: int) -> list[bytes]:
    """So many payloads; and nothing more is there."""
    found: list[bytes] = []

    def look() -> bool:
        if (batch := task.read(0.005)) is not None:
            found.extend(batch.column("payload").to_pylist())
        return len(found) >= count

    wait_until(look, f"{count} messages")
    assert task.read(0.05) is None
    return found


@dataclass
class KeptMessage:
    """What a task wrote in an epoch."""

    rows: list[bytes]


@dataclass
class Kept:
    """What was committed."""

    epochs: dict[int, list[bytes]] = field(default_factory=dict)

    def write(self, batches: Iterator[pa.RecordBatch]) -> KeptMessage:
        return KeptMessage(
            [value for batch in batches for value in batch.column("payload").to_pylist()]
        )

    def commit(self, messages: list[KeptMessage], epoch: int) -> None:
        self.epochs.setdefault(epoch, [row for message in messages for row in message.rows])

    def abort(self, messages: list[KeptMessage], epoch: int) -> None:
        pass

    @property
    def payloads(self) -> list[bytes]:
        return [row for epoch in sorted(self.epochs) for row in self.epochs[epoch]]

    def await_all(self, *payloads: bytes, seconds: float = 60) -> None:
        """Until each of these is committed."""
        wanted = set(payloads)
        wait_until(lambda: wanted <= set(self.payloads), f"{len(wanted)} messages", seconds)


def start(
    broker: MqttBroker,
    topics: str,
    folder: Path,
    sink: Kept,
    engine: EngineOptions = ONE_ATTEMPT,
    **options: Any,
) -> ContinuousQuery:
    """Epochs of 20 ms. :param engine: by default the first failure ends the query."""
    given = {"url": broker.url, "topics": topics, **options}
    found = MqttSource(given)
    binding = StreamBinding(
        Pipeline(SourceRelation("mqtt", given, SCHEMA), (), SCHEMA),
        found.continuousReader(found.schema()),
        describe_connector("mqtt", given),
    )
    definition = QueryDefinition(
        name=None,
        streams=(binding,),
        sink=SinkBinding(
            DriverSink.of(sink),
            PlainTaskWriter(sink.write),
            "kept",
            message_modules=(__name__,),
        ),
        checkpoint=Checkpoint(str(folder / "checkpoint")),
        epoch_interval_ms=20,
        options=engine,
    )
    execution = ContinuousExecution(definition, ThreadLauncher())
    execution.start()
    return ContinuousQuery(execution, str)
