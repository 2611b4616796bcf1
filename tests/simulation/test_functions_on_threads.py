"""Python functions inside of a running query: epochs stay exact, whatever the function does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import IntegerType, LongType, StructField, StructType
from pyspark.util import PythonEvalType

from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.functions.invoke import start_map
from engine.pipeline.pipeline import FunctionSession, MapBatches, Pipeline, PythonFunction
from engine.query.handle import ContinuousQuery
from tests.model import SCHEMA, Feed, ModelSink, definition

WAIT_S = 30
ROW = StructType([StructField("partition", IntegerType()), StructField("seq", LongType())])
Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def start(folder: Path, feed: Feed, sink: ModelSink, function: Function) -> ContinuousQuery:
    command = cloudpickle.dumps((function, ROW))
    mapped = PythonFunction("mapped", (command,), (0,), (None,), pa.struct(list(SCHEMA)))
    step = MapBatches(
        PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
        mapped,
        SCHEMA,
        SCHEMA,
        FunctionSession({}),
        start_map,
    )
    plain = definition(feed, sink, folder)
    (stream,) = plain.streams
    mapping = replace(stream, pipeline=Pipeline(stream.pipeline.source, (step,), SCHEMA))
    execution = ContinuousExecution(replace(plain, streams=(mapping,)), ThreadLauncher())
    execution.start()
    return ContinuousQuery(execution, str)


def test_rows_held_back_are_committed_with_their_epoch(tmp_path: Path) -> None:
    def held_back(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from list(batches)

    feed, sink = Feed(2), ModelSink()
    for _ in range(3):  # each start goes on where the one before has stopped
        query = start(tmp_path / "checkpoint", feed, sink, held_back)
        feed.add(10)
        query.processAllAvailable()
        assert query.drain(WAIT_S)
        assert query.exception() is None
    assert sink.assert_exactly_once(2) == 60


def test_rows_that_a_function_does_not_read_are_dropped(tmp_path: Path) -> None:
    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iter(())

    feed, sink = Feed(2), ModelSink()
    feed.add(10)
    query = start(tmp_path / "checkpoint", feed, sink, nothing)
    query.processAllAvailable()
    assert query.drain(WAIT_S)
    assert query.exception() is None
    assert sink.rows() == []
    last = query.lastProgress
    assert last is not None
    assert last["sources"][0]["endOffset"] == '{"0":10,"1":10}'
