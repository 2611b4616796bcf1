"""Dates and timestamps plus and minus intervals, and the differences between them.

Days and longer units are added to what the clock on the wall shows, hours and shorter ones to the
instant: across a change to summer time, one day later is not 24 hours later.

Source: ``datetimeExpressions.scala``, ``intervalExpressions.scala``, ``DateTimeUtils.scala``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import arithmetic_overflow, failure
from engine.expressions.argument_types import Rare
from engine.expressions.java_errors import long_overflow
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.rowwise import rowwise
from engine.expressions.times import civil
from engine.expressions.times.civil import MICROS_PER_DAY, MICROS_PER_SECOND
from engine.expressions.times.dates import days_later
from engine.expressions.times.timestamps import (
    MICROS_PER_HOUR,
    MICROS_PER_MINUTE,
    times,
    zone_for,
)
from engine.expressions.times.zones import Zone, plus
from engine.expressions.tree import Expr
from engine.expressions.vectors import on_numpy


def truncated(number: Any, unit: int) -> Any:
    """Integer division towards zero, as Java's."""
    # Not by way of -number: there is none of the least BIGINT.
    return number // unit + ((number < 0) & (number % unit != 0))


def plus_day_time(utc: Any, interval: Any, local_zone: Zone) -> Any:
    """A day-time interval (microseconds) later, and whether that is in range."""
    days = truncated(interval, MICROS_PER_DAY)
    return local_zone.later(utc, days, interval - days * MICROS_PER_DAY)


def plus_months(utc: Any, months: Any, local_zone: Zone) -> Any:
    """Some months later, and whether that is in range."""
    days, in_day = local_zone.local_parts(utc)
    moved = civil.plus_months(days, months)
    return local_zone.instants(moved, in_day, local_zone.offset_at(utc))


@strict("TimestampAddInterval", can_fail=always, reads=("time_zone_id",), takes=Rare.DAYS)
def add_day_time(expr: Expr, context: Context) -> ValueFunction:
    """``ts + INTERVAL 1 DAY``."""
    local_zone = zone_for(expr, expr.children[0].dtype, context)
    return lambda ts, interval: on_numpy(
        lambda utc, micros: plus_day_time(utc, micros, local_zone),
        expr.dtype, ts, interval, failure=long_overflow,
    )  # fmt: skip


@strict(
    "TimestampAddYMInterval",
    "DateAddYMInterval",
    can_fail=always,
    reads=("time_zone_id",),
    takes=Rare.MONTHS,
)
def add_year_month(expr: Expr, context: Context) -> ValueFunction:
    """``ts + INTERVAL 1 MONTH``."""
    if pa.types.is_date32(expr.dtype):
        return lambda date, interval: on_numpy(
            days_later, expr.dtype, date, interval,
            failure=lambda *_: arithmetic_overflow(expr.dtype),
        )  # fmt: skip
    local_zone = zone_for(expr, expr.children[0].dtype, context)
    return lambda ts, interval: on_numpy(
        lambda utc, months: plus_months(utc, months, local_zone),
        expr.dtype, ts, interval, failure=long_overflow,
    )  # fmt: skip


_TIME_UNITS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": MICROS_PER_SECOND,
    "MINUTE": MICROS_PER_MINUTE,
    "HOUR": MICROS_PER_HOUR,
}
_DAY_UNITS: Final = {"DAY": 1, "DAYOFYEAR": 1, "WEEK": 7}
_MONTH_UNITS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_INT_MAX: Final = 2**31 - 1


def _known_unit(expr: Expr) -> str | None:
    unit = expr.params["unit"].upper()
    known = unit in _TIME_UNITS or unit in _DAY_UNITS or unit in _MONTH_UNITS
    if not known or (unit == "DAYOFYEAR" and expr.op == "TimestampDiff"):  # Spark raises, too
        return f"the unit {unit} is not supported"
    return None


@strict("TimestampAdd", can_fail=always, supports=_known_unit, reads=("unit", "time_zone_id"))
def timestampadd(expr: Expr, context: Context) -> ValueFunction:
    """``timestampadd``, and ``dateadd`` with a unit."""
    unit, local_zone = expr.params["unit"].upper(), zone_for(expr, expr.dtype, context)

    def compute(quantity: Any, utc: Any) -> Any:
        if unit in _MONTH_UNITS:
            in_range = np.abs(quantity / _INT_MAX) * _MONTH_UNITS[unit] <= 1
            months = np.where(in_range, quantity, 0) * _MONTH_UNITS[unit]
            later, fits = plus_months(utc, months, local_zone)
        elif unit in _DAY_UNITS:
            # As many days as lie between two times are more microseconds than a BIGINT holds.
            in_range = np.abs(quantity / _INT_MAX) * _DAY_UNITS[unit] <= 1
            days = np.where(in_range, quantity, 0) * _DAY_UNITS[unit]
            later, fits = local_zone.later(utc, days, 0)
        else:
            micros, in_range = times(quantity, _TIME_UNITS[unit])
            later, fits = plus(utc, micros)
        return later, fits & in_range

    return lambda quantity, ts: on_numpy(
        compute, expr.dtype, quantity, ts, failure=_datetime_overflow
    )


def _datetime_overflow(*_: Any) -> TransformError:
    return failure("DATETIME_OVERFLOW", "The result is out of the range of timestamps.")


@strict("TimestampDiff", can_fail=always, supports=_known_unit, reads=("unit", "time_zone_id"))
def timestampdiff(expr: Expr, context: Context) -> ValueFunction:
    """``timestampdiff``, and ``datediff`` with a unit: whole units between two local times."""
    unit, local_zone = (
        expr.params["unit"].upper(),
        zone_for(expr, expr.children[0].dtype, context),
    )

    def compute(start: Any, end: Any) -> Any:
        start, end = local_zone.local_parts(start), local_zone.local_parts(end)
        if unit in _TIME_UNITS:
            return _whole_units(start, end, _TIME_UNITS[unit])
        start_day, end_day = start[0], _last_whole_day(start, end)
        if unit in _DAY_UNITS:
            return truncated(end_day - start_day, _DAY_UNITS[unit]), np.True_
        return truncated(whole_months(start_day, end_day), _MONTH_UNITS[unit]), np.True_

    return lambda start, end: on_numpy(compute, expr.dtype, start, end, failure=long_overflow)


Parts = tuple[Any, Any]
"""Days since 1970, and microseconds since midnight, of a local time."""


def _whole_units(start: Parts, end: Parts, unit: int) -> Any:
    """From one to the other, and whether that is in range: by ``ChronoUnit.between``.

    :param unit: microseconds, a part of a day.
    """
    days, micros = end[0] - start[0], end[1] - start[1]
    whole_days = days - np.sign(days)  # so that the rest has the same sign
    rest = micros + np.sign(days) * MICROS_PER_DAY
    product, fits = times(whole_days, MICROS_PER_DAY // unit)
    total, sum_fits = plus(product, truncated(rest, unit))
    return total, fits & sum_fits


def _last_whole_day(start: Parts, end: Parts) -> Any:
    """The end's date, a day less far from the start if the clock has not come that far."""
    (start_day, start_time), (end_day, end_time) = start, end
    end_day = end_day - ((end_day > start_day) & (end_time < start_time))
    return end_day + ((end_day < start_day) & (end_time > start_time))


def whole_months(start_day: Any, end_day: Any) -> Any:
    """By ``ChronoUnit.MONTHS.between``."""
    year, month, day = civil.from_days(start_day)
    year2, month2, day2 = civil.from_days(end_day)
    return truncated(((year2 - year) * 12 + month2 - month) * 32 + day2 - day, 32)


@strict("SubtractTimestamps", can_fail=always, reads=("time_zone_id",))
def subtract_timestamps(expr: Expr, context: Context) -> ValueFunction:
    """``ts - ts``: between what the clock on the wall shows."""
    local_zone = zone_for(expr, expr.children[0].dtype, context)
    return lambda end, start: on_numpy(
        lambda a, b: _whole_units(local_zone.local_parts(b), local_zone.local_parts(a), 1),
        expr.dtype,
        end,
        start,
        failure=long_overflow,
    )


_PARTS: Final[dict[str, Callable[[Any], Any]]] = {
    "ExtractANSIIntervalDays": lambda micros: truncated(micros, MICROS_PER_DAY),
    "ExtractANSIIntervalHours": lambda micros: truncated(
        np.fmod(micros, MICROS_PER_DAY), MICROS_PER_HOUR
    ),
    "ExtractANSIIntervalMinutes": lambda micros: truncated(
        np.fmod(micros, MICROS_PER_HOUR), MICROS_PER_MINUTE
    ),
}


@strict(*_PARTS, takes=Rare.DAYS)
def interval_part(expr: Expr, context: Context) -> ValueFunction:
    """Days, hours and minutes of a day-time interval."""
    function = _PARTS[expr.op]
    return lambda interval: on_numpy(function, expr.dtype, interval)


@rowwise("ExtractANSIIntervalSeconds", takes=Rare.DAYS)
def interval_seconds(micros: int) -> Decimal:
    """Seconds of a day-time interval, with microseconds."""
    rest = abs(micros) % MICROS_PER_MINUTE
    return Decimal(-rest if micros < 0 else rest).scaleb(-6)
