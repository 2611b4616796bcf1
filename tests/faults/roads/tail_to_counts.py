"""Files that grow and are rotated, counted by key and window, to Parquet files.

A line has a number, which is its second of event time as well. Each window has to be told once,
with all of its lines, when the watermark has passed it; those that are still open when the query
has drained stand in the state of its last epoch. Both together are a batch query over all lines.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructType, TimestampType

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.epoch_state import EpochState
from engine.execution.definition import StreamBinding
from engine.expressions.releases import SPARK_VERSION
from engine.expressions.tree import Expr
from engine.pipeline.pipeline import Pipeline, Project, SourceRelation, Watermark
from engine.pipeline.stateful import APPEND, Aggregate, Exchange, Exchanged, GroupRows
from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.files.data_source import FilesWriter, ParquetDataSource
from engine.sources.tail.data_source import TailDataSource
from engine.state.restoring import read_tables
from tests.faults.roads.beside import beside
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import PLACES, Road, Setup
from tests.faults.roads.state_mutants import MUTANTS

FILES = 2
FEED_EVERY_S = 0.01
ROTATED_EVERY = 200
KEYS = 7
WINDOW = 50
DELAY_MS = 6_000_000
"""In event time: a minute of feeding, for one task may be late by an outage."""
_LONG, _TIME = pa.int64(), pa.timestamp("us", tz="UTC")
_LINES = pa.schema([pa.field("number", _LONG)])
_EVENTS = pa.schema([pa.field("key", _LONG), pa.field("time", _TIME), pa.field("at", _TIME)])
_COUNTS = pa.schema([pa.field("key", _LONG), pa.field("at", _TIME), pa.field("count", _LONG)])
_COLUMNS = StructType().add("key", LongType()).add("at", TimestampType()).add("count", LongType())


def text_of(number: int) -> bytes:
    """What is counted: the key of a line, and its window."""
    return b"%d %d" % (number % KEYS, number - number % WINDOW)


class TailToCounts(Road):
    """Each world has a folder for its lines, and one for its counts."""

    level = "L5 tail counted by window"
    places = (*PLACES, "data.written", "sinkLog.after", "snapshot.before", "snapshot.after")
    mutants: ClassVar = {COMMITTED_EARLY: commit_before_log, **MUTANTS}

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        self._folder = folder
        yield

    def make(self, name: str) -> dict[str, str]:
        where = {end: str(self._folder / name / end) for end in ("in", "out")}
        for folder in where.values():
            Path(folder).mkdir(parents=True)
        return where

    def feeding(self, setup: Setup) -> AbstractContextManager[None]:
        return _feeding(Path(setup.where["in"]))

    def went_in(self, setup: Setup) -> Counter[bytes]:
        files = Path(setup.where["in"]).iterdir()
        return Counter(
            text_of(json.loads(line)["number"])
            for file in files
            for line in file.read_bytes().splitlines()
        )

    def came_out(self, setup: Setup) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        for file in _writer(setup).log.files():
            _add(found, pq.read_table(file.path))
        checkpoint = Checkpoint(setup.checkpoint)
        entry = checkpoint.offsets.get(checkpoint.committed_epoch())
        assert entry is not None
        state = EpochState.of(entry)
        tables = read_tables(
            checkpoint.storage,
            state.handles,
            range(state.key_groups or 0),
            query_id=None,
            watermark_ms=state.next_watermark_ms,
        )
        for table in tables.values():
            _add(found, table.drop_columns(["#group", "#gone"]))
        return found

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        given = {"path": setup.where["in"], "fileFormat": "json", "numPartitions": str(FILES)}
        columns = StructType().add("number", LongType())
        reader = TailDataSource(given).continuousReader(columns)
        return StreamBinding(_lines(), reader, "tail")

    @classmethod
    def stages(cls, setup: Setup) -> tuple[Pipeline, ...]:
        count = Aggregate("Count", (_literal(1),), _LONG)
        group = GroupRows("counts", (0, 2), (count,), _COUNTS, APPEND, event_time=1)
        return (Pipeline(Exchanged((_EVENTS,), ((0,),)), (group,), _COUNTS),)

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        return bind_writer(_writer(setup), "parquet")


def _add(found: Counter[bytes], counts: pa.Table) -> None:
    keys, times, values = (column.to_pylist() for column in counts.columns[:3])
    for key, at, count in zip(keys, times, values, strict=True):
        found[b"%d %d" % (key, int(at.timestamp()))] += count


def _column(ordinal: int, dtype: pa.DataType) -> Expr:
    return Expr("Column", (), dtype, True, {"ordinal": ordinal, "name": f"c{ordinal}"})


def _literal(value: int) -> Expr:
    return Expr("Literal", (), _LONG, False, {"value": value})


def _lines() -> Pipeline:
    def op(name: str, *children: Expr, dtype: pa.DataType = _LONG) -> Expr:
        return Expr(name, children, dtype, True, {"eval_mode": "ANSI", SPARK_VERSION: "4.2.0"})

    number = _column(0, _LONG)
    begins = op("Subtract", number, op("Remainder", number, _literal(WINDOW)))
    columns = (
        op("Remainder", number, _literal(KEYS)),
        op("SecondsToTimestamp", number, dtype=_TIME),
        op("SecondsToTimestamp", begins, dtype=_TIME),
    )
    steps = (Project(columns, _EVENTS), Watermark(1, DELAY_MS))
    return Pipeline(
        SourceRelation("tail", {}, _LINES), steps, _EVENTS, exchange=Exchange(1, (0, 2))
    )


def _writer(setup: Setup) -> FilesWriter:
    sink = ParquetDataSource({"path": setup.where["out"]})
    return sink.streamWriter(_COLUMNS, overwrite=False)


@contextmanager
def _feeding(folder: Path) -> Iterator[None]:
    """A line for each file, again and again."""
    stop = threading.Event()

    def feed() -> None:
        number = WINDOW  # what happened at 0 is late from the start
        while not stop.wait(FEED_EVERY_S):
            number += 1
            for file in range(FILES):
                path = folder / f"{file}.log"
                with path.open("a") as lines:
                    lines.write(json.dumps({"number": number}) + "\n")
                if number % ROTATED_EVERY == 0:
                    path.rename(folder / f"{file}.log.{number}")

    with beside(feed, stop):
        yield


ROAD = TailToCounts
