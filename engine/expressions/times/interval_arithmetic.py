"""Intervals among themselves and with numbers: ``+ - * /``, sign, absolute value, making, fields.

Overflow always raises, except with TRY. A quotient or a product with a fraction is rounded half up.

Source: ``intervalExpressions.scala``, ``IntervalMathUtils``, ``IntervalUtils`` of Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import arithmetic_overflow, failure
from engine.expressions.argument_types import Rare
from engine.expressions.decimals import EXACT
from engine.expressions.java_doubles import double_text
from engine.expressions.java_errors import arithmetic_exception
from engine.expressions.registry import Context, Datum, ValueFunction, always, strict
from engine.expressions.times.civil import MICROS_PER_DAY, MICROS_PER_SECOND
from engine.expressions.tree import Expr
from engine.expressions.types import DAY_TIME_INTERVAL, YEAR_MONTH_INTERVAL, is_integral
from engine.expressions.vectors import on_numpy, per_row

_LONG: Final = 2**63
_INT: Final = 2**31


def is_interval(dtype: pa.DataType) -> bool:
    """Of days and times, or of months."""
    return bool(dtype in (DAY_TIME_INTERVAL, YEAR_MONTH_INTERVAL))


def _limit(dtype: pa.DataType) -> int:
    return _INT if dtype == YEAR_MONTH_INTERVAL else _LONG


def _overflow(*_: Any) -> TransformError:
    return failure("INTERVAL_ARITHMETIC_OVERFLOW", "The result does not fit an interval.")


def _overflow_of(expr: Expr) -> Callable[..., TransformError]:
    return (lambda *_: arithmetic_overflow(expr.dtype)) if expr.op == "Abs" else _overflow


def _sum(left: Any, right: Any) -> Any:
    total = left + right
    return total, ((left ^ total) & (right ^ total)) >= 0


def _difference(left: Any, right: Any) -> Any:
    total = left - right
    return total, ((left ^ right) & (left ^ total)) >= 0


def _not_lowest(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: (function(value), value != -_LONG)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "Add": _sum,
    "Subtract": _difference,
    "UnaryMinus": _not_lowest(np.negative),
    "Abs": _not_lowest(np.abs),
}


def interval_arithmetic(expr: Expr) -> ValueFunction:
    """The function for ``+``, ``-`` or ``abs`` of intervals."""
    function, limit = _FUNCTIONS[expr.op], _limit(expr.dtype)
    fails = None if expr.params.get("eval_mode") == "TRY" else _overflow_of(expr)

    def compute(*values: Any) -> Any:
        result, defined = function(*values)
        return result, defined & (result < limit) & (result >= -limit)

    return lambda *values: on_numpy(compute, expr.dtype, *values, failure=fails)


def _rounded(exact: Decimal) -> int:
    return int(exact.quantize(Decimal(1), ROUND_HALF_UP, EXACT))


def _scaled(interval: int, number: Any, divides: bool) -> int:
    """:raises ArithmeticError: there is no result."""
    if isinstance(number, float):
        result = interval / number if divides else interval * number
        if not math.isfinite(result):
            raise ArithmeticError
        # Half up for DOUBLEs means away from zero, without a detour over a larger number.
        whole = math.trunc(result)
        return whole + (abs(result - whole) >= 0.5) * (1 if result > 0 else -1)
    operation = EXACT.divide if divides else EXACT.multiply
    return _rounded(operation(Decimal(interval), Decimal(number)))


@strict(
    "MultiplyDTInterval", "MultiplyYMInterval", "DivideDTInterval", "DivideYMInterval",
    can_fail=always, loop=True, takes=Rare.INTERVALS,
)  # fmt: skip
def scale(expr: Expr, context: Context) -> ValueFunction:
    """``interval * number`` and ``interval / number``."""
    divides, limit = expr.op.startswith("Divide"), _limit(expr.dtype)
    is_months = expr.dtype == YEAR_MONTH_INTERVAL
    exact = is_integral(expr.children[1].dtype)

    def compute(interval: int, number: Any) -> int:
        if divides and number == 0:
            raise failure("INTERVAL_DIVIDED_BY_ZERO", "Division of an interval by zero.")
        try:
            result = _scaled(interval, number, divides)
        except ArithmeticError:
            raise arithmetic_exception("input is infinite or NaN") from None
        if not -limit <= result < limit:
            if exact and divides:
                raise _overflow()
            if exact:
                is_long = not is_months or not -_LONG <= result < _LONG
                raise arithmetic_exception(f"{'long' if is_long else 'integer'} overflow")
            if not isinstance(number, float):
                raise arithmetic_exception("Overflow")
            unrounded = interval / number if divides else interval * number
            told = f"input {double_text(unrounded)} and rounding mode HALF_UP"
            raise arithmetic_exception(f"rounded value is out of range for {told}")
        return result

    def function(interval: Datum, number: Datum) -> Datum:
        as_number = _months_of(interval) if is_months else interval
        scaled = per_row(compute, pa.int64(), as_number, number)
        return on_numpy(lambda value: value, expr.dtype, scaled)

    return function


def _months_of(interval: Datum) -> Datum:
    return on_numpy(lambda months: months, pa.int64(), interval)


_FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    "ExtractANSIIntervalYears": lambda months: (months - np.fmod(months, 12)) // 12,
    "ExtractANSIIntervalMonths": lambda months: np.fmod(months, 12),
}


@strict(*_FIELDS, takes=Rare.MONTHS)
def field(expr: Expr, context: Context) -> ValueFunction:
    """Years and months of an interval of months."""
    function = _FIELDS[expr.op]
    return lambda interval: on_numpy(function, expr.dtype, interval)


@strict("MakeYMInterval", can_fail=always)
def make_year_month(expr: Expr, context: Context) -> ValueFunction:
    """``make_ym_interval``."""

    def compute(years: Any, months: Any) -> Any:
        of_years = years * 12
        total = of_years + months
        fits = (of_years >= -_INT) & (of_years < _INT)  # what months would bring back is lost
        return total, fits & (total >= -_INT) & (total < _INT)

    return lambda years, months: on_numpy(compute, expr.dtype, years, months, failure=_overflow)


_UNITS: Final = (MICROS_PER_DAY, 3_600 * MICROS_PER_SECOND, 60 * MICROS_PER_SECOND)


@strict("MakeDTInterval", can_fail=always, loop=True)
def make_day_time(expr: Expr, context: Context) -> ValueFunction:
    """``make_dt_interval``: each part has to fit, and each sum."""

    def compute(days: int, hours: int, minutes: int, seconds: Decimal) -> int:
        total = int(seconds.scaleb(6, EXACT))
        for number, unit in zip((days, hours, minutes), _UNITS, strict=True):
            part = number * unit
            total += part
            if not (-_LONG <= part < _LONG and -_LONG <= total < _LONG):
                raise _overflow()
        return total

    def function(*values: Datum) -> Datum:
        micros = per_row(compute, pa.int64(), *values)
        return on_numpy(lambda value: value, expr.dtype, micros)

    return function
