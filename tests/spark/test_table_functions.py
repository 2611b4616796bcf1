"""Python table functions over a stream, as in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import (
    AnalyzeArgument,
    AnalyzeResult,
    SkipRestOfInputTableException,
    udtf,
)
from pyspark.sql.types import StructType

from engine.errors import TransformError, UnsupportedQueryError
from engine.plan.planner import plan_query
from tests.spark.queries import assert_same_query, ours, stream_of

pytestmark = pytest.mark.spark

TABLE = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "n": pa.array([2, 0, None, 3, 1, -1], pa.int32()),
        "s": pa.array(["a b", "", None, "ß 😀 c", "x", "y z"], pa.string()),
        "d": pa.array([None, 1.5, float("nan"), -0.0, 2.0, 7.25], pa.float64()),
        "l": pa.array([[1], [], None, [None, 2], [3], []], pa.list_(pa.int64())),
    }
)


class Words:
    def eval(self, text: str | None) -> Iterator[Any]:
        for word in (text or "").split():
            yield word, len(word)


class UpTo:
    def eval(self, n: int | None, start: int = 0) -> Iterator[Any]:
        for each in range(n or 0):
            yield start + each, start + each + 1


class Shapes:
    def eval(self, number: float | None, items: list[Any] | None) -> Iterator[Any]:
        yield 1, items, Row(x=number, y=str(items))
        yield None
        yield (None, None, None)
        yield (2, [], Row(x=1.0, y=None))


class NoIterator:
    def eval(self, n: int | None) -> Any:
        if n is not None:
            return [(n,), (n + 1,)]
        return None


class Analyzed:
    def __init__(self, result: AnalyzeResult) -> None:
        self._width = len(result.schema)

    @staticmethod
    def analyze(text: AnalyzeArgument, width: AnalyzeArgument) -> AnalyzeResult:
        schema = StructType()
        for index in range(width.value):
            schema = schema.add(f"c{index}", text.dataType)
        return AnalyzeResult(schema=schema)

    def eval(self, text: str | None, width: int) -> Iterator[Any]:
        yield tuple([text] * self._width)


RESULTS = {
    Words: "word string, size int",
    UpTo: "n int, next bigint",
    Shapes: "a int, b array<bigint>, c struct<x: double, y: string>",
    NoIterator: "n int",
    Analyzed: None,
}


@pytest.fixture(params=[False, True], ids=["pickled", "arrow"])
def in_arrow(request: pytest.FixtureRequest, spark: SparkSession) -> bool:
    """Whether values travel as Arrow; the functions are registered so."""
    for handler, result in RESULTS.items():
        function = udtf(handler, returnType=result, useArrow=request.param)
        spark.udtf.register(handler.__name__.lower(), function)
    return bool(request.param)


TEXTS = (
    "SELECT id, word, size FROM {source}, LATERAL words(s)",
    "SELECT t.*, id FROM {source}, LATERAL words(concat(s, ' ', id)) t WHERE size < 2",
    "SELECT * FROM {source}, LATERAL upto(n)",
    "SELECT * FROM {source} e, LATERAL upto(start => e.id, n => 2)",
    "SELECT id, a, b, c FROM {source}, LATERAL shapes(d, l)",
    "SELECT * FROM {source} LEFT JOIN LATERAL words(s)",
    "SELECT * FROM {source} LEFT JOIN LATERAL upto(n) AS t(p, q)",
    "SELECT id, x.n FROM {source}, LATERAL noiterator(n) x",
    "SELECT * FROM {source}, LATERAL words(s) w, LATERAL upto(w.size) u",
    "SELECT * FROM {source}, LATERAL upto(2)",
    "SELECT id, c0, c2 FROM {source}, LATERAL analyzed(s, 3)",
)


@pytest.mark.parametrize("text", TEXTS)
def test_lateral_joins(spark: SparkSession, in_arrow: bool, text: str) -> None:
    for rows in (1, 4):
        assert_same_query(spark, TABLE, lambda df: spark.sql(text, source=df), rows=rows)


def test_data_frames(spark: SparkSession) -> None:
    words = udtf(Words, returnType=RESULTS[Words])
    assert_same_query(spark, TABLE, lambda df: df.lateralJoin(words(F.col("s").outer())))


def test_an_instance_lives_for_an_epoch(spark: SparkSession) -> None:
    @udtf(returnType="seen int")  # type: ignore[call-overload]
    class Counting:
        def __init__(self) -> None:
            self._seen = 0

        def eval(self, n: int) -> Iterator[Any]:
            self._seen += 1
            yield (self._seen,)

    spark.udtf.register("counting", Counting)
    text = "SELECT id, seen FROM {source}, LATERAL counting(id)"
    found = ours(spark, TABLE, lambda df: spark.sql(text, source=df), rows=4)
    assert found["seen"].to_pylist() == [1, 2, 3, 4, 5, 6]


def test_it_may_skip_the_rest(spark: SparkSession) -> None:
    @udtf(returnType="m int")  # type: ignore[call-overload]
    class Impatient:
        def eval(self, n: int) -> Iterator[Any]:
            if n > 3:
                raise SkipRestOfInputTableException("enough")
            yield (n,)

    spark.udtf.register("impatient", Impatient)
    text = "SELECT id, m FROM {source}, LATERAL impatient(id)"
    found = ours(spark, TABLE, lambda df: spark.sql(text, source=df), rows=5)
    assert found["id"].to_pylist() == [0, 1, 2, 3]


def test_its_errors_name_it(spark: SparkSession) -> None:
    @udtf(returnType="n int")  # type: ignore[call-overload]
    class Failing:
        def eval(self, n: int) -> Iterator[Any]:
            yield (1 // n,)

    spark.udtf.register("failing", Failing)
    text = "SELECT id FROM {source}, LATERAL failing(id)"
    with pytest.raises(TransformError, match=r"failing failed in eval.*ZeroDivisionError"):
        ours(spark, TABLE, lambda df: spark.sql(text, source=df))


def test_what_is_refused(spark: SparkSession) -> None:
    @udtf(returnType="n int")  # type: ignore[call-overload]
    class Ending:
        def eval(self, n: int) -> Iterator[Any]:
            yield (n,)

        def terminate(self) -> Iterator[Any]:
            yield (0,)

    @udtf(returnType="n int")  # type: ignore[call-overload]
    class OfTable:
        def eval(self, row: Row) -> Iterator[Any]:
            yield (row[0],)

    for name, function in (("ending", Ending), ("oftable", OfTable)):
        spark.udtf.register(name, function)
    stream = stream_of(spark, TABLE.schema)
    for text, reason in (
        ("SELECT * FROM {s}, LATERAL ending(id)", "terminate"),
        ("SELECT * FROM oftable(TABLE({s}))", "a table as argument"),
    ):
        with pytest.raises(UnsupportedQueryError, match=reason):
            plan_query(spark.sql(text, s=stream))
