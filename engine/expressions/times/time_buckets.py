"""``time_bucket``: where the bucket of a timestamp begins. ``window``: timestamps as numbers.

``window`` itself is gone when a plan has been analyzed: what is left are sums of numbers, and an
``Expand`` for windows that overlap.

Source: ``datetimeExpressions.scala``, ``TimeWindow.scala``, ``DateTimeUtils.scala`` of Spark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import arithmetic_overflow
from engine.expressions.argument_types import Rare
from engine.expressions.java_errors import long_overflow
from engine.expressions.registry import Context, Formula, ValueFunction, always, strict
from engine.expressions.times import civil
from engine.expressions.times.civil import MICROS_PER_DAY
from engine.expressions.times.intervals import plus_day_time, plus_months
from engine.expressions.times.timestamps import zone_for
from engine.expressions.times.zones import Zone, plus
from engine.expressions.tree import Expr
from engine.expressions.types import YEAR_MONTH_INTERVAL
from engine.expressions.vectors import on_numpy


@strict(
    "PreciseTimestampConversion",
    reads=("from_type", "to_type"),
    formula=lambda expr: Formula("{0}"),
)
def reinterpret(expr: Expr, context: Context) -> ValueFunction:
    """Microseconds of a timestamp, and back: the same 64 bits."""
    dtype = expr.dtype
    return lambda value: value.view(dtype) if isinstance(value, pa.Array) else value.cast(dtype)


@strict("TimeBucket", can_fail=always, reads=("time_zone_id",), takes=Rare.INTERVALS)
def time_bucket(expr: Expr, context: Context) -> ValueFunction:
    """``time_bucket``: buckets of days and of months are those of the session's zone."""
    local_zone, dtype = zone_for(expr, expr.dtype, context), expr.dtype
    start = _month_bucket if expr.children[0].dtype == YEAR_MONTH_INTERVAL else _day_time_bucket

    def compute(size: Any, ts: Any, origin: Any) -> Any:
        begin, exact, inside = start(size, ts, origin, local_zone)
        fits = exact & inside
        return np.where(fits, begin, 0), fits

    def failure(*row: int) -> TransformError:
        size, ts, origin = (np.array([each]) for each in row)
        _, exact, _ = start(size, ts, origin, local_zone)
        return long_overflow() if np.all(exact) else arithmetic_overflow(pa.int64())

    return lambda size, ts, origin: on_numpy(compute, dtype, size, ts, origin, failure=failure)


def _day_time_bucket(size: Any, ts: Any, origin: Any, local_zone: Zone) -> Any:
    """:return: where the bucket begins, whether no sum or product has left 64 bits, and whether no
    instant has; Spark's errors differ, and the first counts."""
    since, exact = ts - origin, _difference_fits(ts, origin)
    number = since // size
    moved, fits = _product(number, size)
    if np.all(size < MICROS_PER_DAY):
        begin, sum_fits = plus(origin, moved)
        return begin, exact & fits & sum_fits, np.True_
    begin, inside = plus_day_time(origin, moved, local_zone)
    # A day across a change of clocks is longer or shorter than 24 hours.
    is_late = begin > ts
    moved, next_fits = _product(number + np.where(is_late, -1, 1), size)
    other, other_inside = plus_day_time(origin, moved, local_zone)
    found = np.where(is_late | (other <= ts), other, begin)
    return found, exact & fits & (next_fits | ~inside), inside & other_inside


def _product(number: Any, size: Any) -> Any:
    """The product with a positive size, and whether it is inside of 64 bits."""
    product = number * size
    return product, product // size == number


def _month_bucket(size: Any, ts: Any, origin: Any, local_zone: Zone) -> Any:
    """As :func:`_day_time_bucket`."""
    number = (_month_number(ts, local_zone) - _month_number(origin, local_zone)) // size
    begin, fits = plus_months(origin, number * size, local_zone)
    before, before_fits = plus_months(origin, (number - 1) * size, local_zone)
    is_late = begin > ts
    return np.where(is_late, before, begin), np.True_, fits & (before_fits | ~is_late)


def _month_number(utc: Any, local_zone: Zone) -> Any:
    year, month, _ = civil.from_days(local_zone.local_parts(utc)[0])
    return year * 12 + month


def _difference_fits(left: Any, right: Any) -> Any:
    return ((left ^ right) & (left ^ (left - right))) >= 0
