"""Dates: their fields, their arithmetic, and how they are made.

Source: ``datetimeExpressions.scala`` and ``DateTimeUtils.scala`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import arithmetic_overflow, failure
from engine.expressions.datum import constant, constant_value
from engine.expressions.java_errors import arithmetic_exception
from engine.expressions.registry import Context, Evaluator, ValueFunction, always, lazy, strict
from engine.expressions.rowwise import RowFunction, rowwise, rowwise_factory
from engine.expressions.times import civil
from engine.expressions.times.civil import MICROS_PER_DAY
from engine.expressions.tree import Expr
from engine.expressions.vectors import on_numpy

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS: Final = (
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
)  # fmt: skip

_FIELDS: Final[dict[str, Callable[..., Any]]] = {
    "Year": lambda days: civil.from_days(days)[0],
    "Quarter": lambda days: (civil.from_days(days)[1] + 2) // 3,
    "Month": lambda days: civil.from_days(days)[1],
    "DayOfMonth": lambda days: civil.from_days(days)[2],
    "DayOfYear": civil.day_of_year,
    "DayOfWeek": lambda days: (civil.weekday(days) + 1) % 7 + 1,
    "WeekDay": civil.weekday,
    "WeekOfYear": lambda days: civil.iso_week(days)[1],
    "YearOfWeek": lambda days: civil.iso_week(days)[0],
    "UnixDate": lambda days: days,
    "DateFromUnixDate": lambda days: days,
    "LastDay": lambda days: _last_day(days),
    "DateAdd": lambda days, count: days + count,
    "DateSub": lambda days, count: days - count,
    "DateDiff": lambda end, start: end - start,
}


def _last_day(days: Any) -> Any:
    year, month, _ = civil.from_days(days)
    return civil.to_days(year, month, civil.month_length(year, month))


@strict(*_FIELDS)
def field(expr: Expr, context: Context) -> ValueFunction:
    """A function of days that is defined for all of them. Sums wrap around, as in Spark."""
    function = _FIELDS[expr.op]
    return lambda *values: on_numpy(function, expr.dtype, *values)


@strict("SubtractDates", can_fail=always)
def subtract_dates(expr: Expr, context: Context) -> ValueFunction:
    """``date - date``: days in 32 bits, then microseconds in 64."""

    def compute(end: Any, start: Any) -> Any:
        days = end - start
        return days * MICROS_PER_DAY, np.abs(days) <= _INTERVAL_DAYS_MAX

    def overflow(end: int, start: int) -> TransformError:
        kind = "long" if in_int_range(end - start) else "integer"
        return arithmetic_exception(f"{kind} overflow")

    return lambda *values: on_numpy(compute, expr.dtype, *values, failure=overflow)


_INTERVAL_DAYS_MAX: Final = (2**63 - 1) // MICROS_PER_DAY


@rowwise("MonthName")
def monthname(days: int) -> str:
    """``monthname``: three letters."""
    return MONTHS[int(civil.from_days(days)[1]) - 1][:3]


@rowwise("DayName")
def dayname(days: int) -> str:
    """``dayname``: three letters."""
    return WEEKDAYS[int(civil.weekday(days))][:3]


def in_int_range(days: Any) -> Any:
    """Whether days fit into a DATE."""
    return (days >= -(2**31)) & (days < 2**31)


YEAR_MAX: Final = 999_999_999  # of java.time


@strict("AddMonths", can_fail=always)
def add_months(expr: Expr, context: Context) -> ValueFunction:
    """``add_months``: the last day of the month if the day does not exist there."""
    return months_later(expr.dtype)


def days_later(days: Any, months: Any) -> Any:
    """Some months later, and whether that is in range."""
    result = civil.plus_months(days, months)
    return result, in_int_range(result)


def months_later(dtype: pa.DataType) -> ValueFunction:
    """A function of a date and a number of months.

    :param dtype: DATE.
    """

    return lambda date, months: on_numpy(
        days_later, dtype, date, months, failure=lambda *_: arithmetic_overflow(dtype)
    )


@strict("MakeDate", can_fail=always, reads=("fail_on_error",))
def make_date(expr: Expr, context: Context) -> ValueFunction:
    """``make_date``: NULL for what is no date, in ANSI mode an error."""
    strictly = bool(expr.params["fail_on_error"])

    def compute(year: Any, month: Any, day: Any) -> Any:
        valid = civil.is_date(year, month, day) & (np.abs(year) <= YEAR_MAX)
        days = civil.to_days(year, np.where(valid, month, 1), np.where(valid, day, 1))
        if np.any(valid & ~in_int_range(days)):
            raise arithmetic_overflow(expr.dtype)  # with ANSI mode off, too
        return days, valid

    def out_of_bounds(year: int, month: int, day: int) -> TransformError:
        return failure("DATETIME_FIELD_OUT_OF_BOUNDS", f"{year}-{month}-{day} is not a date.")

    wrong = out_of_bounds if strictly else None
    return lambda *values: on_numpy(compute, expr.dtype, *values, failure=wrong)


def _next_weekday(days: Any, weekday: int) -> Any:
    """The first such day (0 is Monday) after these. At the ends of all dates, numbers wrap around
    and weekdays are others, as in Spark.

    Source: ``DateTimeUtils.getNextDateForDayOfWeek``, in 32 bits.
    """
    distance = np.fmod(_in_32_bits((weekday + 4) % 7 - 1 - days), 7)
    return _in_32_bits(days + 1 + (distance + 7) % 7)


def _in_32_bits(number: Any) -> Any:
    return (number + 2**31) % 2**32 - 2**31


_DAY_NUMBERS: Final = {
    name.upper()[:length]: number
    for number, name in enumerate(WEEKDAYS)
    for length in (2, 3, len(name))
}


@rowwise_factory(
    "NextDay", can_fail=lambda expr: bool(expr.params["fail_on_error"]), reads=("fail_on_error",)
)
def next_day(expr: Expr) -> RowFunction:
    """``next_day``: the first such day of the week after the date."""
    strictly = bool(expr.params["fail_on_error"])

    def compute(days: int, weekday: str) -> int | None:
        number = _DAY_NUMBERS.get(weekday.upper())
        if number is not None:
            return int(_next_weekday(days, number))
        if strictly:
            raise failure("ILLEGAL_DAY_OF_WEEK", f"{weekday!r} is not a day of the week.")
        return None

    return compute


def truncate(days: Any, unit: str) -> Any:
    """The first day of the week, month, quarter or year."""
    if unit == "WEEK":
        return _next_weekday(_in_32_bits(days - 7), 0)
    year, month, _ = civil.from_days(days)
    if unit == "QUARTER":
        month = (month - 1) // 3 * 3 + 1
    return civil.to_days(year, 1 if unit == "YEAR" else month, 1)


_DATE_UNITS: Final = {
    "WEEK": "WEEK",
    "MON": "MONTH", "MONTH": "MONTH", "MM": "MONTH",
    "QUARTER": "QUARTER",
    "YEAR": "YEAR", "YYYY": "YEAR", "YY": "YEAR",
}  # fmt: skip


def unit_of(text: str | None) -> str | None:
    """The unit that ``trunc`` and ``date_trunc`` understand by this."""
    return _DATE_UNITS.get(text.upper()) if text is not None else None


def constant_unit(position: int) -> Callable[[Expr], str | None]:
    """For ``supports``: the unit has to be a constant."""
    return lambda expr: (
        None if constant(expr.children[position]) is not None else "the unit must be a constant"
    )


@lazy("TruncDate", can_fail=always, supports=constant_unit(1))
def trunc(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``trunc``: NULL for a unit that there is not, whatever the date."""
    date = children[0]
    unit = unit_of(constant_value(expr.children[1]))
    if unit is None:
        return lambda batch: pa.scalar(None, expr.dtype)

    def compute(days: Any) -> Any:
        found = truncate(days, unit)
        return found, in_int_range(found) | (unit != "QUARTER")  # the others wrap around

    return lambda batch: on_numpy(
        compute, expr.dtype, date(batch), failure=lambda *_: arithmetic_overflow(expr.dtype)
    )
