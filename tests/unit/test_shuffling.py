"""The order that ``shuffle`` gives; Spark's are compared in tests/spark/test_random_values.py."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.collections.shuffling import MersenneTwister
from engine.expressions.compile import compile_expression, unsupported
from engine.expressions.registry import Context
from engine.expressions.tree import Expr

_INTS = pa.list_(pa.int64())


@pytest.mark.parametrize("length", [0, 1, 2, 3, 64, 100])
def test_each_item_is_there_once(length: int) -> None:
    assert sorted(MersenneTwister(7).order(length)) == list(range(length))


def test_the_lowest_64_bits_of_a_seed_count() -> None:
    assert MersenneTwister(-1).order(20) == MersenneTwister(2**64 - 1).order(20)
    assert MersenneTwister(2**63 - 1).order(20) != MersenneTwister(2**63).order(20)


def _shuffled(rows: list[Any], partition: int = 0) -> list[Any]:
    column = Expr("Column", (), _INTS, True, {"ordinal": 0, "name": "a"})
    expr = Expr("Shuffle", (column,), _INTS, True, {"random_seed": 42})
    assert unsupported(expr) == []
    batch = pa.RecordBatch.from_arrays([pa.array(rows, _INTS)], ["a"])
    context = Context("UTC", partition=partition)
    found: list[Any] = compile_expression(expr, context)(batch).to_pylist()
    return found


def test_null_takes_no_values() -> None:
    many = list(range(30))
    first, second = _shuffled([many, many])
    assert _shuffled([None, many, None, [], many]) == [None, first, None, [], second]
    assert first != second != many


def test_each_task_has_an_order_of_its_own() -> None:
    many = list(range(30))
    assert _shuffled([many]) == _shuffled([many]) != _shuffled([many], partition=1)
