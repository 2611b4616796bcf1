"""Rounding and dividing Arrow's decimals, beside whole numbers of Python.

The numbers are those that Arrow's own division gets wrong: a digit of the quotient, of 32 bits, is
the largest one.
"""

from __future__ import annotations

from decimal import Decimal

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings

from engine.expressions import decimals
from engine.expressions.long_division import ARROW_DIGITS_MAX, quotients, rounded
from engine.expressions.tree import Expr

_LIMIT = 10**ARROW_DIGITS_MAX
_digits = st.one_of(st.just(2**32 - 1), st.just(2**32 - 2), st.integers(0, 2**32 - 1))
_signs = st.sampled_from([-1, 1])


@st.composite
def _numbers(draw: st.DrawFn, digits_max: int) -> int:
    """Of so many digits of 32 bits at most."""
    number = 0
    for digit in draw(st.lists(_digits, max_size=digits_max)):
        number = number << 32 | digit
    return number


def _column(units: list[int], precision: int, scale: int) -> pa.Array:
    whole = pa.array([Decimal(each) for each in units], pa.decimal256(ARROW_DIGITS_MAX, 0))
    return whole.view(pa.decimal256(precision, scale))


def _units(column: pa.Array) -> list[int]:
    whole = column.view(pa.decimal256(ARROW_DIGITS_MAX, 0))
    return [int(each) for each in whole.to_pylist()]


@settings(deadline=None)
@given(st.integers(1, 60), _numbers(6), st.integers(0, 10**60 - 1), st.integers(-2, 0), _signs)
def test_rounded(places: int, quotient: int, rest: int, near_half: int, sign: int) -> None:
    power = 10**places
    rest = (power // 2 + near_half + 1 if near_half else rest) % power
    size = quotient % (_LIMIT // power) * power + rest
    expected = size // power + (2 * (size % power) >= power)
    column = _column([1, sign * size, 0], ARROW_DIGITS_MAX, 60)[1:]  # the end of a longer batch
    found = rounded(column, 60 - places)
    assert found.type == pa.decimal256(ARROW_DIGITS_MAX, 60 - places)
    assert _units(found) == [sign * expected, 0]


@settings(deadline=None)
@given(_numbers(3), st.integers(1, 10**20 - 1), _signs, _signs)
def test_quotients(quotient: int, divisor: int, sign: int, other: int) -> None:
    """Of DECIMAL(38,0) by DECIMAL(20,0), to which Arrow gives 21 places."""
    left = min(quotient * divisor // 10**21 + 1, 10**38 - 1)
    a = _column([sign * left, 1, -left], 38, 0)
    b = _column([other * divisor, 3, divisor], 20, 0)
    size = left * 10**21 // divisor
    expected = [sign * other * size, 10**21 // 3, -size]
    assert _units(quotients(a, b)) == expected
    assert _units(quotients(a, b[0]))[::2] == [expected[0], other * -size]
    assert _units(quotients(a[0], b))[::2] == [expected[0], sign * size]


def test_null_is_passed_on() -> None:
    long = pa.array([None, Decimal(10**19), None], pa.decimal256(20, 0))
    short = pa.array([Decimal(1), None, None], pa.decimal256(38, 0))
    assert quotients(short, long).null_count == 3
    assert quotients(short, pa.scalar(None, long.type)).null_count == 3
    assert rounded(long.cast(pa.decimal256(40, 12)), 1).null_count == 2


def test_what_arrow_rounds_wrongly() -> None:
    number = Decimal("1152921504606560133.000000000000000000000")
    column = pa.array([number], pa.decimal256(59, 21))
    found = decimals.fit_array(column, pa.decimal128(38, 4), ansi_mode=True)
    assert found.to_pylist() == [Decimal("1152921504606560133.0000")]


def test_what_arrow_divides_wrongly_is_divided_by_kernels() -> None:
    sides = pa.decimal128(38, 0), pa.decimal128(20, 0)
    columns = Expr("Column", (), sides[0]), Expr("Column", (), sides[1])
    divide = decimals.arithmetic(
        Expr("Divide", columns, pa.decimal128(38, 6), True, {"eval_mode": "ANSI"})
    )
    divisor = 0xB1A2BC2EC5000000
    dividends = [(0xFFFFFFFF << 32 | low) * divisor // 10**21 + 1 for low in range(0, 2**32, 10**8)]
    left = pa.array(list(map(Decimal, dividends)), sides[0])
    right = pa.scalar(Decimal(divisor), sides[1])
    expected = [
        Decimal((2 * each * 10**6 + divisor) // (2 * divisor)).scaleb(-6) for each in dividends
    ]
    assert divide(left, right).to_pylist() == expected
    # These rows say so as soon as Arrow divides correctly itself.
    wide = left.cast(pa.decimal256(38, 0)), right.cast(pa.decimal256(20, 0))
    assert not pc.divide(*wide).equals(quotients(*wide))
