"""Python functions without Spark's JVM: pickled as PySpark does it, run by the task's transform."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType
from pyspark.util import PythonEvalType

from engine.errors import SourceError, TransformError
from engine.expressions.tree import Expr
from engine.functions.invoke import start_functions, start_map
from engine.pipeline.pipeline import (
    EvalPython,
    FunctionSession,
    MapBatches,
    Pipeline,
    PythonFunction,
    SourceRelation,
    Step,
    schema_behind,
)
from engine.task.transform import Transform, compile_steps

INT = pa.int64()
SOURCE = pa.schema([("n", INT), ("s", pa.string())])
ROW = StructType([StructField("n", LongType()), StructField("s", StringType())])
SESSION = FunctionSession({"spark.sql.session.timeZone": "UTC"})


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(values, INT), pa.array([str(value) for value in values])], schema=SOURCE
    )


def column(ordinal: int) -> Expr:
    field = SOURCE.field(ordinal)
    return Expr("Column", (), field.type, True, {"ordinal": ordinal, "name": field.name})


def function(call: Callable[..., Any], kind: DataType, dtype: pa.DataType) -> PythonFunction:
    command = cloudpickle.dumps((call, kind))
    return PythonFunction(call.__name__, (command,), (0,), (None,), dtype)


def transform(step: Step) -> Transform:
    return compile_steps(
        Pipeline(SourceRelation("rate", {}, SOURCE), (step,), schema_behind(step, SOURCE))
    )


def mapping(call: Callable[..., Any], eval_type: int) -> MapBatches:
    mapped = function(call, ROW, pa.struct(list(SOURCE)))
    return MapBatches(eval_type, mapped, SOURCE, SOURCE, SESSION, start_map)


def evaluating(call: Callable[..., Any], eval_type: int, *, aligned: bool = True) -> EvalPython:
    functions = (function(call, LongType(), INT),)
    schema = pa.schema([("_0", INT)])
    return EvalPython(
        2, eval_type, functions, (column(0),), schema, SESSION, start_functions, aligned
    )


@pytest.mark.parametrize(
    "eval_type", [PythonEvalType.SQL_BATCHED_UDF, PythonEvalType.SQL_ARROW_BATCHED_UDF]
)
def test_a_function_of_rows(eval_type: int) -> None:
    def double(value: int) -> int:
        return value * 2

    result = transform(evaluating(double, eval_type))(batch(1, 2))
    assert result.to_pydict() == {"n": [1, 2], "s": ["1", "2"], "_0": [2, 4]}


def test_what_a_function_holds_back_comes_before_the_end_of_its_epoch() -> None:
    def all_at_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.concat_batches(list(batches))

    run = transform(mapping(all_at_once, PythonEvalType.SQL_MAP_ARROW_ITER_UDF))
    for epoch in ([batch(1), batch(2)], [batch(3), batch(4), batch(5)]):
        (result,) = run.stream(iter(epoch))
        assert result.equals(pa.concat_batches(epoch))


def test_a_function_is_called_once_per_epoch() -> None:
    def numbered(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for number, frame in enumerate(frames):
            yield frame.assign(n=number)

    run = transform(mapping(numbered, PythonEvalType.SQL_MAP_PANDAS_ITER_UDF))
    for _ in range(2):
        results = run.stream(iter([batch(7), batch(8, 9)]))
        assert [result["n"].to_pylist() for result in results] == [[0], [1, 1]]


def test_an_epoch_without_rows() -> None:
    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    run = transform(mapping(passed, PythonEvalType.SQL_MAP_ARROW_ITER_UDF))
    assert list(run.stream(iter(()))) == []


def test_results_of_other_sizes_stay_beside_their_rows() -> None:
    def pairs(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        held = pa.array([], INT)
        for values in batches:
            held = pa.concat_arrays([held, pc.multiply(values, 10)])
            if len(held) >= 2:
                yield held.slice(0, 2)
                held = held.slice(2)
        yield held

    step = evaluating(pairs, PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF, aligned=False)
    results = list(transform(step).stream(iter([batch(1), batch(2, 3, 4), batch(5)])))
    rows = pa.Table.from_batches(results).to_pydict()
    assert rows["n"] == [1, 2, 3, 4, 5]
    assert rows["_0"] == [10, 20, 30, 40, 50]


def test_an_error_of_the_source_stays_one() -> None:
    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def failing() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise SourceError("the source is gone")

    results = transform(mapping(passed, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)).stream(failing())
    next(results)
    with pytest.raises(SourceError, match="the source is gone"):
        next(results)


def test_an_error_names_the_function_and_the_last_line() -> None:
    def reject(value: int) -> int:
        raise KeyError(value)

    run = transform(evaluating(reject, PythonEvalType.SQL_ARROW_BATCHED_UDF))
    with pytest.raises(
        TransformError, match=r"^The Python function reject failed in reject \(.*KeyE"
    ):
        run(batch(1))


def test_an_iterator_function_gets_the_time_of_each_batch() -> None:
    def passed(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from batches

    stamp = pa.timestamp("us", "UTC")
    now = Expr("CurrentTimestamp", (), stamp, False)
    micros = Expr("UnixMicros", (now,), INT, False)
    step = evaluating(passed, PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF, aligned=False)
    before = time.time_ns() // 1000

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(2):
            yield batch(number)
            began = time.time_ns()
            while time.time_ns() < began + 2000:
                pass

    results = list(transform(replace(step, arguments=(micros,))).stream(batches()))
    first, second = (result["_0"][0].as_py() for result in results)
    assert before <= first < second
