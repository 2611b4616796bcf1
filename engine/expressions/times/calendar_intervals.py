"""Timestamps plus intervals that mix units, and that are no constants.

Spark's type of these has no place in the engine: such an interval exists on its way to a timestamp
only, as a struct of months, days and microseconds. Conditionals take that as any other.

Source: ``TimestampAddInterval``, ``Cast.castToInterval``, ``MakeInterval`` of Spark.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.buffers import valid_of
from engine.expressions.java_errors import long_overflow
from engine.expressions.registry import Context, Datum, ValueFunction, always, strict
from engine.expressions.times.calendar_texts import CalendarInterval, interval_of
from engine.expressions.times.made_intervals import later, made_or_null
from engine.expressions.times.timestamps import zone_for
from engine.expressions.times.zones import plus
from engine.expressions.tree import Expr
from engine.expressions.vectors import on_numpy, per_row

CALENDAR: Final = pa.struct(
    [("months", pa.int32(), False), ("days", pa.int32(), False), ("micros", pa.int64(), False)]
)


def as_value(interval: CalendarInterval | None) -> dict[str, int] | None:
    """An interval as a value of :data:`CALENDAR`."""
    if interval is None:
        return None
    return dict(zip(("months", "days", "micros"), interval, strict=True))


@strict("CalendarIntervalOfText", loop=True)
def of_text(expr: Expr, context: Context) -> ValueFunction:
    """``CAST(text AS INTERVAL)``, which is NULL for what is none, in ANSI mode, too."""
    return lambda text: per_row(lambda value: as_value(interval_of(value)), CALENDAR, text)


@strict("CalendarIntervalOfParts", loop=True, can_fail=always, reads=("fail_on_error",))
def of_parts(expr: Expr, context: Context) -> ValueFunction:
    """``make_interval(...)``."""
    fails = bool(expr.params["fail_on_error"])

    def compute(*parts: Any) -> dict[str, int] | None:
        return as_value(made_or_null(fails, *parts))

    return lambda *parts: per_row(compute, CALENDAR, *parts)


@strict("CalendarIntervalLater", can_fail=always, loop=True, reads=("time_zone_id",))
def calendar_later(expr: Expr, context: Context) -> ValueFunction:
    """``ts + interval``: months and days by what the clock on the wall shows."""
    local_zone = zone_for(expr, expr.children[0].dtype, context)

    def compute(start: int, months: int, days: int, micros: int) -> int:
        return later(start, (months, days, micros), local_zone)

    def function(start: Datum, interval: Datum) -> Datum:
        if isinstance(interval, pa.Scalar):
            if isinstance(start, pa.Scalar):
                return function(pa.repeat(start, 1), pa.repeat(interval, 1))[0]
            interval = pa.repeat(interval, len(start))
        if isinstance(start, pa.Scalar):
            start = pa.repeat(start, len(interval))
        months, days, micros = (_field(interval, index) for index in range(3))
        if _is_zero(months) and _is_zero(days):
            return on_numpy(plus, expr.dtype, start, micros, failure=lambda *_: long_overflow())
        return per_row(compute, expr.dtype, start, months, days, micros)

    return function


def _field(interval: pa.StructArray, index: int) -> pa.Array:
    """One of its fields, NULL where the whole is."""
    valid = valid_of(interval)
    field = interval.field(index)
    if valid is np.True_:
        return field
    return pa.array(field.fill_null(0).to_numpy(), field.type, mask=~valid)


def _is_zero(column: pa.Array) -> bool:
    return not column.drop_null().to_numpy().any()
