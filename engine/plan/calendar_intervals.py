"""Timestamps plus constant intervals of months, days and microseconds at once.

``session_window(ts, '1 day 2 hours')`` adds such an interval. Each of its parts is one of a single
kind, which kernels add: months and days to what the clock on the wall shows, the rest to the
instant. An interval of 25 hours is no day, so it is added in two steps.

Source: Spark's ``DateTimeUtils.timestampAddInterval``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from engine.expressions.times.civil import MICROS_PER_DAY
from engine.expressions.tree import Expr
from engine.expressions.types import DAY_TIME_INTERVAL, YEAR_MONTH_INTERVAL

_STEPS_MAX: Final = 31
_MONTHS_MAX: Final = 10_000 * 12
_DAYS_MAX: Final = 10_000 * 366
"""Of more than these, what lies between two steps may be no timestamp though the end is one."""


def plus_constant(start: Expr, interval: Any, params: Mapping[str, Any]) -> Expr | None:
    """``start`` plus an interval; None if it has too many months or days, or its microseconds have.

    :param interval: a JVM's ``CalendarInterval``; None for NULL.
    :param params: those of the addition.
    """
    if interval is None:
        return _later("TimestampAddInterval", start, DAY_TIME_INTERVAL, None, params)
    months, days, micros = _fields(interval)
    if abs(months) > _MONTHS_MAX or abs(days) > _DAYS_MAX:
        return None
    if abs(micros) >= _STEPS_MAX * (MICROS_PER_DAY - 1):
        return None
    if months:
        start = _later("TimestampAddYMInterval", start, YEAR_MONTH_INTERVAL, months, params)
    parts = [days * MICROS_PER_DAY] if days else []
    sign = -1 if micros < 0 else 1
    while micros:
        parts.append(sign * min(abs(micros), MICROS_PER_DAY - 1))
        micros -= parts[-1]
    for part in parts:
        start = _later("TimestampAddInterval", start, DAY_TIME_INTERVAL, part, params)
    return start


def _fields(interval: Any) -> tuple[int, int, int]:
    whole = interval.extractAsPeriod()
    micros = interval.extractAsDuration()
    return (
        int(whole.toTotalMonths()),
        int(whole.getDays()),
        int(micros.getSeconds()) * 1_000_000 + int(micros.getNano()) // 1000,
    )


def _later(op: str, start: Expr, dtype: pa.DataType, value: Any, params: Mapping[str, Any]) -> Expr:
    interval = Expr("Literal", (), dtype, value is None, {"value": value})
    return Expr(op, (start, interval), start.dtype, start.nullable or value is None, params)
