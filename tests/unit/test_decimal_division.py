"""Quotients that Arrow computes are those of Python's decimals."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import TransformError
from engine.expressions import decimals
from engine.expressions.tree import Expr


def _spark_type(left: Any, right: Any) -> pa.DataType:
    """Of the quotient: Catalyst's DecimalPrecision."""
    scale = max(6, left.scale + right.precision + 1)
    precision = left.precision - left.scale + right.scale + scale
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
    return pa.decimal128(min(precision, 38), scale)


def _divide(left: pa.DataType, right: pa.DataType, mode: str) -> Expr:
    columns = Expr("Column", (), left), Expr("Column", (), right)
    return Expr("Divide", columns, _spark_type(left, right), True, {"eval_mode": mode})


def _some(rng: random.Random, dtype: Any, count: int) -> pa.Array:
    def number() -> Decimal | None:
        limit = 10 ** rng.randint(0, dtype.precision)
        whole = rng.randint(-limit + 1, limit - 1)
        return None if rng.random() < 0.1 else Decimal(whole).scaleb(-dtype.scale, decimals.EXACT)

    return pa.array([number() for _ in range(count)], dtype)


def _any_type(rng: random.Random) -> pa.DataType:
    precision = rng.randint(1, 38)
    return pa.decimal128(precision, rng.randint(0, precision))


@pytest.mark.parametrize("seed", range(5))
def test_in_arrow_as_row_by_row(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    for _ in range(30):
        left, right = _any_type(rng), _any_type(rng)
        expr = _divide(left, right, "LEGACY")
        a, b = _some(rng, left, 40), _some(rng, right, 40)
        found = decimals.arithmetic(expr)(a, b)
        with monkeypatch.context() as patch:
            patch.setattr(decimals, "_wider_dividend", lambda *types: None)
            expected = decimals.arithmetic(expr)(a, b)
        assert found.equals(expected), (left, right)
        assert decimals.arithmetic(expr)(a[0], b).equals(
            decimals.arithmetic(expr)(pa.repeat(a[0], 40), b)
        )
        assert decimals.arithmetic(expr)(a[1], b[1]).equals(found[1])


def test_what_arrow_has_no_digits_for_is_divided_row_by_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, right = pa.decimal128(38, 0), pa.decimal128(38, 38)
    divide = decimals.arithmetic(_divide(left, right, "LEGACY"))
    found: list[Any] = []
    monkeypatch.setattr(decimals, "per_row", lambda *_: found.append(None))
    large = Decimal(10) ** 37
    divide(pa.array([large, Decimal(1)], left), pa.array([Decimal("0.5"), None], right))
    assert found == [None]


def test_of_the_digits_of_a_type_those_count_that_values_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, right = pa.decimal128(38, 18), pa.decimal128(38, 18)
    divide = decimals.arithmetic(_divide(left, right, "ANSI"))
    monkeypatch.setattr(decimals, "per_row", None)
    a = pa.array([Decimal("-2.000000000000000001"), None, Decimal(1)], left)
    b = pa.array([Decimal(3), Decimal(1), None], right)
    assert divide(a, b).to_pylist() == [Decimal("-0.666667"), None, None]
    assert divide(a[0], b).to_pylist() == [Decimal("-0.666667"), Decimal("-2.000000"), None]


def test_a_divisor_of_zero_fails_only_where_there_is_a_dividend() -> None:
    dtype = pa.decimal128(10, 2)
    zero = pa.array([Decimal(0), Decimal(1)], dtype)
    strictly = decimals.arithmetic(_divide(dtype, dtype, "ANSI"))
    assert strictly(pa.array([None, Decimal(3)], dtype), zero).to_pylist() == [None, Decimal(3)]
    with pytest.raises(TransformError, match="DIVIDE_BY_ZERO"):
        strictly(pa.array([Decimal(1), None], dtype), zero)
