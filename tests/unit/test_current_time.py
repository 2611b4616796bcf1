"""What depends on when it is computed: one moment to a batch, and never computed beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.compile import compile_expression, fold, to_array
from engine.expressions.registry import Context
from engine.expressions.times import current_time
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ
from engine.pipeline.pipeline import (
    FunctionSession,
    MapBatches,
    Pipeline,
    Project,
    PythonFunction,
    SourceRelation,
)
from engine.task.transform import compile_steps

_DAY = 86_400 * 10**6
_BATCH = pa.record_batch({"a": [1, 2]})
_NOW = Expr("CurrentTimestamp", (), TIMESTAMP, False)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at it is a second later."""
    seconds = iter(range(1_700_000_000, 1_800_000_000))
    monkeypatch.setattr("time.time_ns", lambda: next(seconds) * 10**9)


def cast(text: str, dtype: pa.DataType, mode: str = "ANSI") -> Expr:
    literal = Expr("Literal", (), pa.string(), False, {"value": text})
    return Expr("Cast", (literal,), dtype, True, {"eval_mode": mode})


def on(day: int, tree: Expr, zone: str = "UTC") -> Any:
    """What it is in a batch that began so many days after 1970, at 20:00 UTC."""
    evaluate = compile_expression(tree, Context(zone))
    current_time.begin_batch(day * _DAY + 20 * 3600 * 10**6)
    array = to_array(evaluate(_BATCH), 2, tree.dtype)
    width = pa.int32() if tree.dtype == pa.date32() else pa.int64()
    return array.view(width)[0].as_py()


def test_a_time_without_a_date_is_of_the_batchs_day() -> None:
    tree = cast("T10:00", TIMESTAMP)
    assert fold(tree, Context()).op == "Cast"
    assert on(3, tree) == 3 * _DAY + 10 * 3600 * 10**6
    assert on(4, tree) == 4 * _DAY + 10 * 3600 * 10**6
    assert fold(cast("2020-01-01T10:00", TIMESTAMP), Context()).op == "Literal"


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("today", pa.date32(), 3), (" Tomorrow\t", pa.date32(), 4), ("yesterday", pa.date32(), 2),
        ("now", pa.date32(), 3), ("EPOCH", pa.date32(), 0), ("today CET", pa.date32(), 3),
        ("now", TIMESTAMP, 3 * _DAY + 20 * 3600 * 10**6), ("tomorrow", TIMESTAMP, 4 * _DAY),
        ("epoch +01:00", TIMESTAMP, 0), ("yesterday", TIMESTAMP_NTZ, 2 * _DAY),
        ("now", TIMESTAMP_NTZ, 3 * _DAY + 20 * 3600 * 10**6),
        ("now UTC", TIMESTAMP, None), ("today Mars", pa.date32(), None), ("noon", TIMESTAMP, None),
    ],
)  # fmt: skip
def test_constant_texts_that_name_a_moment(text: str, dtype: pa.DataType, expected: Any) -> None:
    assert on(3, cast(text, dtype, "LEGACY")) == expected


def test_moments_are_of_the_sessions_zone() -> None:
    assert on(3, cast("today", pa.date32()), "Asia/Tokyo") == 4
    assert on(3, cast("today", TIMESTAMP), "Asia/Tokyo") == 4 * _DAY - 9 * 3600 * 10**6


def pipeline(function: Any) -> Pipeline:
    """The time, a function over an iterator, and the time once more."""
    source = pa.schema([("a", pa.int64())])
    first = pa.schema([pa.field("t", TIMESTAMP, False)])
    both = pa.schema([pa.field("t", TIMESTAMP, False), pa.field("u", TIMESTAMP, False)])
    column = Expr("Column", (), TIMESTAMP, False, {"ordinal": 0, "name": "t"})
    mapped = MapBatches(
        0,
        PythonFunction("f", (b"",), (0,), (None,), pa.struct(list(first))),
        first,
        first,
        FunctionSession({}),
        lambda step: function,
    )
    steps = (Project((_NOW,), first), mapped, Project((column, _NOW), both))
    return Pipeline(SourceRelation("model", {}, source), steps, both)


def test_the_time_is_one_before_and_behind_a_function() -> None:
    transform = compile_steps(pipeline(lambda batches: batches))
    results = list(transform.stream(iter([_BATCH, _BATCH, _BATCH])))
    assert len(results) == 3
    assert all(rows["t"].equals(rows["u"]) for rows in results)
    assert len({rows["t"][0] for rows in results}) == 3


def test_what_a_function_holds_back_is_of_the_last_batch() -> None:
    def held_back(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from list(batches)

    results = list(compile_steps(pipeline(held_back)).stream(iter([_BATCH, _BATCH])))
    assert {rows["u"][0] for rows in results} == {results[-1]["t"][0]}


def test_outside_of_batches_it_is_now() -> None:
    current_time.begin_batch(5)
    assert current_time.batch_micros() == 5
    with current_time.outside_of_batches():
        assert current_time.batch_micros() < current_time.batch_micros()
    assert current_time.batch_micros() == 5
