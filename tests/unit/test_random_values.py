"""Random values without a seed have no twin in Spark: their properties are tested. With one they
have, see tests/spark/test_random_values.py."""

from __future__ import annotations

import math
import uuid
from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.compile import compile_expression, unsupported
from engine.expressions.registry import Context
from engine.expressions.tree import Expr

ROWS = 50_000
SEED = Expr("Literal", (), pa.int64(), False, {"value": 7})


def values(op: str, dtype: pa.DataType, *children: Expr) -> list[Any]:
    expr = Expr(op, children, dtype, False, {"hide_seed": True})
    assert unsupported(expr) == []
    batch = pa.RecordBatch.from_pydict({"x": pa.array(range(ROWS))})
    result: list[Any] = compile_expression(expr)(batch).to_pylist()
    return result


def test_rand_is_uniform() -> None:
    found = values("Rand", pa.float64(), SEED)
    assert len(set(found)) == ROWS
    assert 0.0 <= min(found) < max(found) < 1.0
    assert sum(found) / ROWS == pytest.approx(0.5, abs=0.01)


def test_randn_is_normal() -> None:
    found = values("Randn", pa.float64(), SEED)
    assert len(found) == ROWS
    assert all(map(math.isfinite, found))
    assert sum(found) / ROWS == pytest.approx(0.0, abs=0.04)
    assert sum(value * value for value in found) / ROWS == pytest.approx(1.0, abs=0.06)


def test_uuids_are_random_ones() -> None:
    found = values("Uuid", pa.string())
    assert len(set(found)) == ROWS
    for text in found[:100]:
        parsed = uuid.UUID(text)
        assert (str(parsed), parsed.version, parsed.variant) == (text, 4, uuid.RFC_4122)


def test_no_rows_have_no_values() -> None:
    expr = Expr("Uuid", (), pa.string(), False, {})
    assert compile_expression(expr)(pa.RecordBatch.from_pydict({"x": []})).to_pylist() == []


def test_a_seed_gives_the_values_of_its_partition() -> None:
    expr = Expr("Rand", (SEED,), pa.float64(), False, {"hide_seed": False})
    batch = pa.RecordBatch.from_pydict({"x": [0, 0, 0]})

    def drawn(partition: int) -> list[float]:
        found: list[float] = compile_expression(expr, Context("UTC", partition=partition))(
            batch
        ).to_pylist()
        return found

    assert drawn(0) == drawn(0)
    assert set(drawn(0)).isdisjoint(drawn(1))


def test_only_rows_that_need_a_value_take_one() -> None:
    draw = Expr("Rand", (SEED,), pa.float64(), False, {"hide_seed": False})
    condition = Expr("Column", (), pa.bool_(), False, {"ordinal": 0, "name": "c"})
    zero = Expr("Literal", (), pa.float64(), False, {"value": 0.0})
    choice = Expr("If", (condition, draw, zero), pa.float64(), False)
    batch = pa.RecordBatch.from_pydict({"c": [False, True, False, True]})
    few = pa.RecordBatch.from_pydict({"c": [True, True]})
    first, second = compile_expression(draw)(few).to_pylist()
    assert compile_expression(choice)(batch).to_pylist() == [0.0, first, 0.0, second]


def test_a_seed_that_is_no_constant_is_refused() -> None:
    column = Expr("Column", (), pa.int64(), True, {"ordinal": 0, "name": "x"})
    (why,) = unsupported(Expr("Rand", (column,), pa.float64(), False, {"hide_seed": False}))
    assert "constant" in why
