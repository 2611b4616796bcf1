"""``sequence``: numbers, dates or timestamps from a start to a stop, both inclusive.

Source: ``Sequence`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.collections.array_errors import (
    LENGTH_MAX,
    difference_too_large,
    illegal_boundaries,
    step_below_a_day,
    too_long,
)
from engine.expressions.datum import constant
from engine.expressions.java_errors import long_overflow
from engine.expressions.lists import Ints, Lists, on_arrays, ranges, valid
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.times.civil import MICROS_PER_DAY
from engine.expressions.times.intervals import plus_months, truncated
from engine.expressions.times.timestamps import LONG_MAX, zone_for
from engine.expressions.times.zones import Zone
from engine.expressions.tree import Expr
from engine.expressions.types import YEAR_MONTH_INTERVAL, is_integral
from engine.expressions.vectors import from_numpy, to_numpy

_Count: TypeAlias = Callable[[Any, Any, Any, Any], Ints]
_MICROS_PER_MONTH = 28 * MICROS_PER_DAY
"""What Spark estimates with: never too long."""


def _supports(expr: Expr) -> str | None:
    if len(expr.children) == 3 and expr.children[2].dtype == YEAR_MONTH_INTERVAL:
        months = constant(expr.children[2])
        if months is None or not months.is_valid:
            return "an interval of months must be a constant"
    return None


@strict(
    "Sequence",
    can_fail=always,
    supports=_supports,
    reads=("time_zone_id", SPARK_VERSION),
    unbounded=True,
    takes=Rare.INTERVALS,
)
def sequence(expr: Expr, context: Context) -> ValueFunction:
    """``sequence``: the step is 1 or 1 day, downwards if the stop is less than the start."""
    inner = expr.dtype.value_type
    interval = constant(expr.children[2]) if len(expr.children) == 3 else None
    months = None
    if interval is not None and expr.children[2].dtype == YEAR_MONTH_INTERVAL:
        months = interval.as_py().months
    in_months = bool(months)  # none are a step of nothing
    local_zone = zone_for(expr, inner, context)
    interpreted = bool(expr.params.get("interpreted"))
    count = partial(_count, fails_too_far=not is_since(expr, "4.1.4", "4.2.1", "4.3.0"))

    def make(first: pa.Array, last: pa.Array, *steps: pa.Array) -> pa.Array:
        try:
            return made(first, last, *steps)
        except _LeadsAwayError as error:
            raise illegal_boundaries(*error.args, interpreted=interpreted) from None

    def made(first: pa.Array, last: pa.Array, *steps: pa.Array) -> pa.Array:
        known = np.logical_and.reduce([valid(column) for column in (first, last, *steps)])
        start, stop = (np.where(known, to_numpy(side)[0], 0) for side in (first, last))
        if months is not None:
            step = np.full(len(start), months)
        elif steps:
            step = np.where(known, to_numpy(steps[0])[0], 0)
        else:
            step = np.where(start <= stop, 1, -1)
        if is_integral(inner):
            values, lengths = _evenly(start, stop, step, known, count)
        elif pa.types.is_date32(inner):
            if steps:
                values, lengths = _dates(start, stop, step, known, count, in_months, local_zone)
            else:
                values, lengths = _evenly(start, stop, step, known, count)
        else:
            unit = 1 if steps else MICROS_PER_DAY
            values, lengths = _times(start, stop, step * unit, known, count, in_months, local_zone)
        return Lists(from_numpy(values, np.True_, inner), lengths, known).array(expr.dtype)

    return on_arrays(expr, make)


class _LeadsAwayError(Exception):
    """From a start not to the stop, by a step."""


def _check(start: Any, stop: Any, step: Any, known: Any, shown: Any) -> None:
    right = ((step > 0) & (start <= stop)) | ((step < 0) & (start >= stop)) | (start == stop)
    if np.any(known & ~right):
        row = int(np.argmax(known & ~right))
        raise _LeadsAwayError(start[row], stop[row], shown[row])


def _count(start: Any, stop: Any, step: Any, known: Any, *, fails_too_far: bool) -> Ints:
    """How many numbers fit. In 64 bits without a sign, where no difference overflows.

    :param fails_too_far: whether Spark fails where a difference overflows.
    """
    low, high = (function(start, stop).astype(np.uint64) for function in (np.minimum, np.maximum))
    magnitude = np.where(step < 0, np.negative(step.astype(np.uint64)), step.astype(np.uint64))
    count = (high - low) // np.maximum(magnitude, np.uint64(1))
    if np.any(known & (count >= LENGTH_MAX)):
        raise too_long("sequence", int(count[known].max()) + 1)
    too_far = (high - low > LONG_MAX) & ~((high - low == LONG_MAX + 1) & (stop < start))
    if fails_too_far and np.any(known & too_far):
        raise difference_too_large()
    return np.where(known, count.astype(np.int64) + 1, 0)


def _evenly(start: Any, stop: Any, step: Any, known: Any, count: _Count) -> tuple[Ints, Ints]:
    _check(start, stop, step, known, step)
    lengths = count(start, stop, step, known)
    places = ranges(np.zeros_like(lengths), lengths)
    return np.repeat(start, lengths) + places * np.repeat(step, lengths), lengths


def _dates(
    start: Any, stop: Any, step: Any, known: Any, count: _Count, in_months: bool, local_zone: Zone
) -> tuple[Ints, Ints]:
    days = truncated(step, MICROS_PER_DAY)
    if not in_months:
        if np.any(known & (days == 0)):
            raise step_below_a_day()
        if np.all(~known | (days * MICROS_PER_DAY == step)):
            return _evenly(start, stop, days, known, count)
    (start, fits), (stop, stop_fits) = map(local_zone.start_of_day, (start, stop))
    if np.any(known & ~(fits & stop_fits)):
        raise long_overflow()
    values, lengths = _times(start, stop, step, known, count, in_months, local_zone)
    return local_zone.local_parts(values)[0], lengths


def _times(
    start: Any, stop: Any, step: Any, known: Any, count: _Count, in_months: bool, local_zone: Zone
) -> tuple[Ints, Ints]:
    estimate = step * _MICROS_PER_MONTH if in_months else step
    days = np.zeros_like(step) if in_months else truncated(step, MICROS_PER_DAY)
    _check(start, stop, estimate, known, step)
    most = count(start, stop, estimate, known)
    if not in_months and not np.any(known & (days != 0)):
        return _evenly(start, stop, step, known, count)
    # A change of the clock may let one more in, and Spark computes the one behind the last.
    most = np.where(known, most + 2, 0)
    places = ranges(np.zeros_like(most), most)
    rows = np.repeat(np.arange(len(most)), most)
    if in_months:
        times, fits = plus_months(start[rows], places * step[rows], local_zone)
    else:
        rest = step - days * MICROS_PER_DAY
        times, fits = local_zone.later(start[rows], places * days[rows], places * rest[rows])
    # Spark's bound wraps around at the ends, and downwards lets in what is a microsecond too low.
    downwards = estimate < 0
    bound = np.where(downwards, stop - 1, stop + 1)
    beyond = (times < bound[rows]) == downwards[rows]
    # The first one beyond the stop ends the sequence.
    lengths = most.copy()
    np.minimum.at(lengths, rows[beyond | ~fits], places[beyond | ~fits])
    if np.any(~fits & (places == lengths[rows])):
        raise long_overflow()
    return times[places < lengths[rows]], lengths
