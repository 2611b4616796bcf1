"""A table of Delta to Kafka, exactly once. Each world has a table and a topic of its own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import deltalake
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from engine.execution.definition import StreamBinding
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.contract import SinkBinding
from engine.sources.delta.data_source import DeltaSource
from engine.sources.lakes.position import TablePosition
from engine.sources.lakes.run import TableRun
from tests.faults.roads import handed_mutants
from tests.faults.roads.beside import beside
from tests.faults.roads.kafka_to_kafka import ABORTED, KafkaToKafka, sink_of
from tests.faults.roads.road import BETWEEN, PLACES, Setup

FEED_EVERY_S = 0.1
PARTS = 3
ENDS_EARLY = "an epoch that is run again leaves out a half-read version"
COLUMNS = StructType([StructField("value", StringType())])


def forgets_ahead() -> None:
    """Files that were read before others."""
    right = TablePosition.offset
    TablePosition.offset = lambda self: right(replace(self, ahead=frozenset()))  # type: ignore[method-assign]


def passes_over() -> None:
    """What is found is taken for read."""
    right = TableRun.merge

    def merge(self: Any, done: Any) -> Any:
        self._open.clear()
        return right(self, done)

    TableRun.merge = merge  # type: ignore[method-assign]


def ends_early() -> None:
    """An epoch that is run again ends with the versions that are whole in it."""
    TableRun._end = property(lambda self: self._until.at)  # type: ignore[method-assign,assignment]
    right = TableRun._take

    def take(self: Any, *given: Any) -> None:
        until = self._until
        self._until = until and replace(until, ahead=frozenset(), at=(until.at[0], 0))
        right(self, *given)
        self._until = until

    TableRun._take = take  # type: ignore[method-assign]


class DeltaToKafka(KafkaToKafka):
    level = "L5 Delta to Kafka"
    places = (*PLACES, "transactions.told")
    between = (*BETWEEN, "transactions.told")
    brought_out: ClassVar = {ENDS_EARLY: (ABORTED,)}
    mutants: ClassVar[Mapping[str, Callable[[], None]]] = {
        **handed_mutants.MUTANTS,
        "files that were read before others are forgotten": forgets_ahead,
        "what is found is taken for read": passes_over,
        ENDS_EARLY: ends_early,
    }

    def make(self, name: str) -> dict[str, str]:
        return {"bootstrap": self.bootstrap, "sink": self.new_topic(f"out-{name}")}

    @contextmanager
    def feeding(self, setup: Setup) -> Iterator[None]:
        stop = threading.Event()
        self.append(setup, 0)

        def feed() -> None:
            number = 1
            while not stop.wait(FEED_EVERY_S):
                self.append(setup, number)
                number += 1

        with beside(feed, stop):
            yield

    @staticmethod
    def append(setup: Setup, number: int) -> None:
        """A version of several files."""
        deltalake.write_deltalake(_table(setup), rows(number), mode="append", partition_by=["part"])

    def went_in(self, setup: Setup) -> Counter[bytes]:
        table = deltalake.DeltaTable(_table(setup)).to_pyarrow_table(columns=["value"])
        return Counter(text.encode() for text in table.column(0).to_pylist())

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        source = DeltaSource({"path": _table(setup), "numPartitions": "2", "pollIntervalMs": "20"})
        schema = to_arrow(COLUMNS, "source delta")
        pipeline = Pipeline(SourceRelation("continuous_delta", {}, schema), (), schema)
        return StreamBinding(pipeline, source.continuousReader(COLUMNS), "delta")

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        return sink_of(setup, COLUMNS)


def rows(number: int) -> pa.Table:
    """Those of a version, each in a file of its own."""
    texts = [f"{number} {part}" for part in range(PARTS)]
    return pa.table({"value": texts, "part": list(range(PARTS))})


def _table(setup: Setup) -> str:
    return str(Path(setup.folder) / "table")


ROAD = DeltaToKafka
