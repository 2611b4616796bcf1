"""Rows that raise are found, whatever their number; rows have what they have wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from engine.expressions.registry import KERNELS, Context, Evaluator
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr
from tests.spark.our_side import OurResult, evaluate

ROWS = 400
TOP = 2**31 - 1


def plus_one() -> Expr:
    a = Expr("Column", (), pa.int32(), True, {"ordinal": 0, "name": "a"})
    one = Expr("Literal", (), pa.int32(), False, {"value": 1})
    return Expr("Add", (a, one), pa.int32(), True, {"eval_mode": "ANSI"})


def evaluated(numbers: Sequence[int]) -> OurResult:
    array = pa.array(numbers, pa.int32())
    return evaluate(plus_one(), Rows(len(array), lambda _: array), Context(), 0)


def patch(monkeypatch: pytest.MonkeyPatch, made: Any) -> None:
    """``Add`` is computed by this function of rows and of what the kernel computes."""
    kernel = KERNELS["Add"]

    def factory(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
        inner = kernel.factory(expr, children, context)
        return lambda batch: made(batch, inner)

    monkeypatch.setitem(KERNELS, "Add", replace(kernel, factory=factory))


@pytest.mark.parametrize(
    "raising",
    [{0}, {399}, {3, 4, 5}, {7, 200, 201, 398}, set(range(0, ROWS, 3)), set(range(ROWS))],
    ids=len,
)
def test_rows_that_raise(raising: set[int]) -> None:
    numbers = [TOP if row in raising else row for row in range(ROWS)]
    result = evaluated(numbers)
    assert result.errors == dict.fromkeys(sorted(raising), "ARITHMETIC_OVERFLOW")
    assert result.values == [None if row in raising else row + 1 for row in range(ROWS)]


def test_rows_that_are_alike_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(batch: Any, inner: Evaluator) -> Any:
        sizes.append(batch.num_rows)
        return inner(batch)

    patch(monkeypatch, counted)
    result = evaluated([TOP, 5] * (ROWS // 2))
    assert list(result.errors) == list(range(0, ROWS, 2))
    assert result.values == [None, 6] * (ROWS // 2)
    assert sizes.count(1) < 10


def test_what_depends_on_the_rows_beside_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def among(batch: Any, inner: Evaluator) -> Any:
        inner(batch)
        return pa.array([batch.num_rows] * batch.num_rows, pa.int32())

    patch(monkeypatch, among)
    result = evaluated([TOP, *range(ROWS - 1)])
    assert result.errors[0] == "ARITHMETIC_OVERFLOW"
    assert "nothing, but is 1 among fewer rows and 399 among other rows" in result.errors.values()


def test_what_raises_among_others_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def among(batch: Any, inner: Evaluator) -> Any:
        if batch.num_rows == ROWS - 1:
            raise ValueError("so many")
        return inner(batch)

    patch(monkeypatch, among)
    result = evaluated([TOP, *range(ROWS - 1)])
    assert result.errors[0] == "ARITHMETIC_OVERFLOW"
    assert set(result.errors) == set(range(ROWS))
    assert result.errors[1] == "ValueError: so many, though no row alone does"
