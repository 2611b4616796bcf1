"""Dates and timestamps plus ``make_interval(...)``: months, days and microseconds, one after the
other.

Spark's type of intervals that mix units has no place in the engine: such an interval exists on its
way to a date or a timestamp only, and the plan reader makes one node of both, with the start and
the seven parts as children.

Source: ``MakeInterval``, ``UnaryMinus``, ``TimestampAddInterval``, ``DateAddInterval``;
``IntervalUtils.makeInterval``, ``DateTimeUtils.timestampAddInterval`` of Spark.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import arithmetic_overflow, failure
from engine.expressions.decimals import EXACT
from engine.expressions.java_errors import long_overflow
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.times import civil
from engine.expressions.times.calendar_texts import INT, LONG, CalendarInterval
from engine.expressions.times.civil import MICROS_PER_SECOND
from engine.expressions.times.timestamps import zone_for
from engine.expressions.times.zones import ERA, Zone
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP
from engine.expressions.vectors import per_row

_MINUTE: Final = 60 * MICROS_PER_SECOND
_FAR: Final = 100_000_000
"""Days. Further away from 1970 clocks repeat every 400 years."""


@strict(
    "MadeIntervalLater",
    can_fail=always,
    loop=True,
    reads=("fail_on_error", "negated", "negation_fails", "time_zone_id", "ansi_enabled"),
)
def made_interval_later(expr: Expr, context: Context) -> ValueFunction:
    """``start + make_interval(...)``, and ``start - make_interval(...)``, which is negated."""
    is_date = pa.types.is_date32(expr.dtype)
    local_zone = zone_for(expr, TIMESTAMP if is_date else expr.children[0].dtype, context)
    fails, negated = bool(expr.params["fail_on_error"]), bool(expr.params["negated"])
    negation_fails, ansi = bool(expr.params["negation_fails"]), bool(expr.params["ansi_enabled"])

    def compute(start: int, *parts: Any) -> int | None:
        interval = made_or_null(fails, *parts)
        if interval is None:
            return None
        if negated:
            interval = _negated(interval, negation_fails)
        if is_date:
            return _date_later(start, interval, local_zone, ansi)
        return later(start, interval, local_zone)

    return lambda *values: per_row(compute, expr.dtype, *values)


def made_or_null(fails: bool, *parts: Any) -> CalendarInterval | None:
    """The interval of years, months, weeks, days, hours, minutes and seconds.

    :param fails: whether parts that do not fit raise; else there is no interval.
    """
    try:
        return _made(*parts)
    except OverflowError:
        if fails:
            raise _overflow() from None
        return None


def _made(
    years: int, months: int, weeks: int, days: int, hours: int, minutes: int, seconds: Decimal
) -> CalendarInterval:
    micros = _fitting(int(seconds.scaleb(6, EXACT)) + hours * 60 * _MINUTE, LONG)
    return (
        _fitting(months + _fitting(years * 12, INT), INT),
        _fitting(days + _fitting(weeks * 7, INT), INT),
        _fitting(micros + minutes * _MINUTE, LONG),
    )


def _fitting(number: int, limit: int) -> int:
    if not -limit <= number < limit:
        raise OverflowError
    return number


def _overflow() -> TransformError:
    return failure(
        "ARITHMETIC_OVERFLOW", "The parts do not fit an interval.", "Use try_make_interval."
    )


def _negated(interval: CalendarInterval, fails: bool) -> CalendarInterval:
    months, days, micros = interval
    if fails and (-INT in (months, days) or micros == -LONG):
        raise _overflow()
    return (
        months if months == -INT else -months,
        days if days == -INT else -days,
        micros if micros == -LONG else -micros,
    )


def later(start: int, interval: CalendarInterval, local_zone: Zone) -> int:
    """A timestamp plus an interval: months and days by what the clock on the wall shows."""
    months, days, micros = interval
    date, in_day = local_zone.local_parts(start)
    moved = int(civil.plus_months(date, months))
    utc, eras = _instant(moved, in_day, local_zone.offset_at(start), local_zone)
    date, in_day = local_zone.local_parts(utc)
    moved = int(date) + days + eras * civil.DAYS_PER_ERA
    utc, eras = _instant(moved, in_day, local_zone.offset_at(utc), local_zone)
    found = int(utc) + eras * ERA + micros
    if not -LONG <= found < LONG:
        raise long_overflow()
    return found


def _instant(days: int, in_day: Any, offset: Any, local_zone: Zone) -> tuple[Any, int]:
    """Of a local time, so many times 400 years closer to 1970 that it is a timestamp."""
    eras = -(-max(0, abs(days) - _FAR) // civil.DAYS_PER_ERA) * (-1 if days < 0 else 1)
    utc, _ = local_zone.instants(days - eras * civil.DAYS_PER_ERA, in_day, offset)
    return utc, eras


def _date_later(date: int, interval: CalendarInterval, local_zone: Zone, ansi: bool) -> int:
    """In ANSI mode there may be no parts of a day; else they are added in the session's zone, and
    what is left of a day is cut off."""
    months, days, micros = interval
    if micros and ansi:
        raise failure(
            "INVALID_INTERVAL_WITH_MICROSECONDS_ADDITION",
            "An interval with parts of a day cannot be added to a date.",
            "Cast the date to TIMESTAMP.",
        )
    if not micros:
        found = int(civil.plus_months(np.int64(date), months)) + days
    else:
        start, fits = local_zone.start_of_day(date)
        if not fits:
            raise long_overflow()
        found = int(local_zone.local_parts(later(int(start), interval, local_zone))[0])
    if not -INT <= found < INT:
        raise arithmetic_overflow(pa.date32())
    return found
