"""``time_bucket``: where the bucket of a timestamp begins. ``window``: timestamps as numbers.

``window`` itself is gone when a plan has been analyzed: what is left are sums of numbers, and an
``Expand`` for windows that overlap.

Source: ``datetimeExpressions.scala``, ``TimeWindow.scala``, ``DateTimeUtils.scala`` of Spark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from engine.expressions.ansi import arithmetic_overflow
from engine.expressions.argument_types import Rare
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.times import civil
from engine.expressions.times.civil import MICROS_PER_DAY
from engine.expressions.times.intervals import plus_day_time, plus_months
from engine.expressions.times.timestamps import zone_for
from engine.expressions.times.zones import Zone, plus
from engine.expressions.tree import Expr
from engine.expressions.types import YEAR_MONTH_INTERVAL
from engine.expressions.vectors import on_numpy


@strict("PreciseTimestampConversion", reads=("from_type", "to_type"))
def reinterpret(expr: Expr, context: Context) -> ValueFunction:
    """Microseconds of a timestamp, and back."""
    return lambda value: on_numpy(lambda micros: micros, expr.dtype, value)


@strict("TimeBucket", can_fail=always, reads=("time_zone_id",), takes=Rare.INTERVALS)
def time_bucket(expr: Expr, context: Context) -> ValueFunction:
    """``time_bucket``: buckets of days and of months are those of the session's zone."""
    local_zone, dtype = zone_for(expr, expr.dtype, context), expr.dtype
    start = _month_bucket if expr.children[0].dtype == YEAR_MONTH_INTERVAL else _day_time_bucket

    def compute(size: Any, ts: Any, origin: Any) -> Any:
        begin, fits = start(size, ts, origin, local_zone)
        return np.where(fits, begin, 0), fits

    return lambda size, ts, origin: on_numpy(
        compute, dtype, size, ts, origin, failure=lambda *_: arithmetic_overflow(pa.int64())
    )


def _day_time_bucket(size: Any, ts: Any, origin: Any, local_zone: Zone) -> Any:
    since, fits = ts - origin, _difference_fits(ts, origin)
    number = since // size
    if np.all(size < MICROS_PER_DAY):
        begin, in_range = plus(origin, number * size)
        return begin, fits & in_range
    begin, in_range = plus_day_time(origin, number * size, local_zone)
    # A day across a change of clocks is longer or shorter than 24 hours.
    before, before_fits = plus_day_time(origin, (number - 1) * size, local_zone)
    after, after_fits = plus_day_time(origin, (number + 1) * size, local_zone)
    is_late = begin > ts
    is_early = ~is_late & (after <= ts)
    found = np.where(is_late, before, np.where(is_early, after, begin))
    return found, fits & in_range & np.where(is_late, before_fits, after_fits)


def _month_bucket(size: Any, ts: Any, origin: Any, local_zone: Zone) -> Any:
    number = (_month_number(ts, local_zone) - _month_number(origin, local_zone)) // size
    begin, fits = plus_months(origin, number * size, local_zone)
    before, before_fits = plus_months(origin, (number - 1) * size, local_zone)
    is_late = begin > ts
    return np.where(is_late, before, begin), np.where(is_late, before_fits, fits)


def _month_number(utc: Any, local_zone: Zone) -> Any:
    year, month, _ = civil.from_days(local_zone.local_parts(utc)[0])
    return year * 12 + month


def _difference_fits(left: Any, right: Any) -> Any:
    return ((left ^ right) & (left ^ (left - right))) >= 0
