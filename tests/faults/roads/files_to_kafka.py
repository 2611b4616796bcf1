"""Spark's file source to Kafka, exactly once. Each world has a folder and a topic of its own."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql.types import StringType, StructField, StructType

from engine.execution.definition import StreamBinding
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.contract import SinkBinding
from engine.sources.files import file_formats
from engine.sources.files.data_source import JsonSource
from engine.sources.files.reader import FilesRun
from engine.sources.files.source_log import FileSourceLog
from tests.faults.roads import handed_mutants
from tests.faults.roads.beside import beside
from tests.faults.roads.kafka_to_kafka import ABORTED, KafkaToKafka, sink_of
from tests.faults.roads.road import BETWEEN, PLACES, Setup

FEED_EVERY_S = 0.03
ROWS = 6
"""Of a file."""
ANY_PARTITION = "a file that is read again goes to any partition"
COLUMNS = StructType([StructField("value", StringType())])


def _forgets() -> None:
    right = FilesRun.__init__

    def init(self: Any, *given: Any) -> None:
        right(self, *given)
        self._entries.clear()

    FilesRun.__init__ = init  # type: ignore[method-assign]


def _passes_over() -> None:
    right = FilesRun.__init__

    def init(self: Any, *given: Any) -> None:
        right(self, *given)
        self._bound.clear()
        self._keys.clear()

    FilesRun.__init__ = init  # type: ignore[method-assign]


def _logs_what_is_found() -> None:
    right = FilesRun.merge

    def merge(self: Any, done: Any) -> Any:
        if self._reading is None and self.out:
            done = list(self.out.values())
            self.out = {}
        return right(self, done)

    FilesRun.merge = merge  # type: ignore[method-assign]


def _logs_late() -> None:
    """Behind the offset that names it: as if it were written with the commit."""
    right = FileSourceLog.add
    late: list[Callable[[], Any]] = []

    def add(self: Any, files: Any) -> int:
        for each in late:
            each()
        late[:] = [lambda: right(self, files)]
        return int(self.latest + 1 + (len(late) > 1))

    FileSourceLog.add = add  # type: ignore[method-assign]


class FilesToKafka(KafkaToKafka):
    level = "L5 files to Kafka"
    places = (*PLACES, "transactions.told", "sourceLog.before", "sourceLog.after")
    between = (*BETWEEN, "transactions.told")
    brought_out: ClassVar = {ANY_PARTITION: (ABORTED,)}
    mutants: ClassVar[Mapping[str, Callable[[], None]]] = {
        **handed_mutants.MUTANTS,
        ANY_PARTITION: handed_mutants.any_partition,
        "files that were read are forgotten": _forgets,
        "files of an entry behind the checkpoint are taken for read": _passes_over,
        "files are logged as read when they are found": _logs_what_is_found,
        "files are logged behind the offset that names them": _logs_late,
    }

    def make(self, name: str) -> dict[str, str]:
        return {"bootstrap": self.bootstrap, "sink": self.new_topic(f"out-{name}")}

    @contextmanager
    def feeding(self, setup: Setup) -> Iterator[None]:
        folder, stop = _folder(setup), threading.Event()

        def feed() -> None:
            number = 0
            while not stop.wait(FEED_EVERY_S):
                lines = [json.dumps({"value": f"{number} {row}"}) for row in range(ROWS)]
                written = folder / ".written"
                written.write_text("\n".join(lines))
                written.rename(folder / f"{number}.json")
                number += 1

        with beside(feed, stop):
            yield

    def went_in(self, setup: Setup) -> Counter[bytes]:
        return Counter(
            json.loads(line)["value"].encode()
            for file in _folder(setup).glob("*.json")
            for line in file.read_text().splitlines()
        )

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        file_formats.BLOCK_BYTES = 50  # type: ignore[misc]  # several batches of a file
        source = JsonSource({"path": str(_folder(setup)), "numPartitions": "2"})
        schema = to_arrow(COLUMNS, "source json")
        pipeline = Pipeline(SourceRelation("json", {}, schema), (), schema)
        return StreamBinding(pipeline, source.continuousReader(COLUMNS), "json")

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        return sink_of(setup, COLUMNS)


def _folder(setup: Setup) -> Path:
    folder = Path(setup.folder) / "in"
    folder.mkdir(exist_ok=True)
    return folder


ROAD = FilesToKafka
