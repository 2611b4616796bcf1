"""Timestamps: their fields, truncation, numbers since 1970, and how they are made.

A TIMESTAMP is an instant and is looked at in the session's time zone; a TIMESTAMP_NTZ is what a
clock on the wall shows, and needs no zone.

Source: ``datetimeExpressions.scala`` and ``DateTimeUtils.scala`` of Spark.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.buffers import saturated
from engine.expressions.datum import constant_value
from engine.expressions.decimals import EXACT
from engine.expressions.java_errors import arithmetic_exception, long_overflow
from engine.expressions.registry import (
    Context,
    Datum,
    Evaluator,
    Formula,
    ValueFunction,
    always,
    lazy,
    strict,
)
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.times import civil, dates
from engine.expressions.times.civil import MICROS_PER_DAY, MICROS_PER_SECOND
from engine.expressions.times.zone_columns import invalid_zone, per_zone, unknown_zone
from engine.expressions.times.zones import ERA, Zone, plus, zone
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP_NTZ, is_integral
from engine.expressions.vectors import all_null, on_numpy, per_row

MICROS_PER_MINUTE: Final = 60 * MICROS_PER_SECOND
MICROS_PER_HOUR: Final = 60 * MICROS_PER_MINUTE
LONG_MAX: Final = 2**63 - 1


def zone_for(expr: Expr, dtype: pa.DataType, context: Context) -> Zone:
    """In which zone a node looks at a value of this type."""
    if dtype == TIMESTAMP_NTZ:
        return zone("UTC")
    return zone(expr.params.get("time_zone_id") or context.session_timezone)


def times(number: Any, factor: int) -> Any:
    """The product, and whether it is inside of 64 bits."""
    limit = LONG_MAX // factor
    fits = (number <= limit) & (number >= -limit if factor > 1 else True)
    return np.where(fits, number, 0) * factor, fits


_TIME_FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    "Hour": lambda in_day: in_day // MICROS_PER_HOUR,
    "Minute": lambda in_day: in_day // MICROS_PER_MINUTE % 60,
    "Second": lambda in_day: in_day // MICROS_PER_SECOND % 60,
}


@strict(*_TIME_FIELDS, reads=("time_zone_id",))
def time_field(expr: Expr, context: Context) -> ValueFunction:
    """``hour``, ``minute``, ``second``."""
    local, part = zone_for(expr, expr.children[0].dtype, context), _TIME_FIELDS[expr.op]
    return lambda ts: on_numpy(lambda utc: part(local.local_parts(utc)[1]), expr.dtype, ts)


@strict("SecondWithFraction", loop=True, reads=("time_zone_id",))
def second_with_fraction(expr: Expr, context: Context) -> ValueFunction:
    """``extract(SECOND FROM ...)``, with microseconds."""
    local = zone_for(expr, expr.children[0].dtype, context)
    return lambda ts: per_row(
        lambda utc: Decimal(int(local.local_parts(utc)[1]) % MICROS_PER_MINUTE).scaleb(-6),
        expr.dtype,
        ts,
    )


_INSTANT_UNITS: Final = {"MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": MICROS_PER_SECOND}
_LOCAL_UNITS: Final = {
    "MINUTE": MICROS_PER_MINUTE, "HOUR": MICROS_PER_HOUR,
    "DAY": MICROS_PER_DAY, "DD": MICROS_PER_DAY,
}  # fmt: skip


@lazy(
    "TruncTimestamp",
    can_fail=always,
    supports=dates.constant_unit(0),
    reads=("time_zone_id", SPARK_VERSION),
)
def date_trunc(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``date_trunc``: NULL for a unit that there is not, whatever the timestamp. Before Spark 4.2
    seconds, and what is shorter, wrap around in 64 bits."""
    ts = children[1]
    text = constant_value(expr.children[0])
    zone, wraps = zone_for(expr, expr.dtype, context), not is_since(expr, "4.2.0")
    function = _truncation(text, zone, wraps=wraps) if text is not None else None
    if function is None:
        return lambda batch: pa.scalar(None, expr.dtype)
    return lambda batch: on_numpy(function, expr.dtype, ts(batch), failure=long_overflow)


def _truncation(text: str, local_zone: Zone, *, wraps: bool) -> Callable[[Any], Any] | None:
    unit = text.upper()
    if unit in _INSTANT_UNITS:
        if wraps:
            return lambda utc: utc - utc % _INSTANT_UNITS[unit]
        return lambda utc: plus(utc, -(utc % _INSTANT_UNITS[unit]))
    if unit in _LOCAL_UNITS:
        return lambda utc: _truncate_local(utc, _LOCAL_UNITS[unit], local_zone)
    date_unit = dates.unit_of(unit)
    if date_unit is None:
        return None
    return lambda utc: local_zone.start_of_day(
        dates.truncate(local_zone.local_parts(utc)[0], date_unit)
    )


def _truncate_local(utc: Any, unit: int, local_zone: Zone) -> Any:
    days, in_day = local_zone.local_parts(utc)
    return local_zone.instants(days, in_day - in_day % unit, local_zone.offset_at(utc))


@strict("MonthsBetween", can_fail=always, reads=("time_zone_id",))
def months_between(expr: Expr, context: Context) -> ValueFunction:
    """``months_between``: whole months between equal days or last days, otherwise with a fraction
    of 31 days."""
    local_zone = zone_for(expr, expr.children[0].dtype, context)

    def compute(first: Any, second: Any, rounds: Any) -> Any:
        year, month, day, is_last, seconds, fits = _date_parts(first, local_zone)
        year2, month2, day2, is_last2, seconds2, fits2 = _date_parts(second, local_zone)
        months = ((year * 12 + month) - (year2 * 12 + month2)).astype(np.float64)
        elapsed = (day - day2) * 86_400 + seconds - seconds2
        exact = months + elapsed / (31 * 86_400.0)
        scaled = exact * 1e8
        whole = np.floor(scaled)
        rounded = (whole + (scaled - whole >= 0.5)) / 1e8
        result = np.where(rounds, rounded, exact)
        whole_months = (day == day2) | (is_last & is_last2)
        return np.where(whole_months, months, result), whole_months | (fits & fits2)

    return lambda *values: on_numpy(compute, expr.dtype, *values, failure=long_overflow)


def _date_parts(utc: Any, local_zone: Zone) -> tuple[Any, ...]:
    days, _ = local_zone.local_parts(utc)
    year, month, day = civil.from_days(days)
    start, fits = local_zone.start_of_day(days)
    seconds = (utc - start) // MICROS_PER_SECOND
    return year, month, day, day == civil.month_length(year, month), seconds, fits


@strict(
    "FromUTCTimestamp",
    "ToUTCTimestamp",
    can_fail=always,
    supports=unknown_zone(1),
    loop=True,
)
def shift_zone(expr: Expr, context: Context) -> ValueFunction:
    """``from_utc_timestamp`` and ``to_utc_timestamp``: as if the session's zone was UTC."""

    def in_zone(named: Zone, ts: Datum) -> Datum:
        function = named.to_local if expr.op == "FromUTCTimestamp" else named.to_utc
        return on_numpy(function, expr.dtype, ts, failure=long_overflow)

    return lambda ts, zones: per_zone(in_zone, expr.dtype, zones, ts)


def _known_zones(expr: Expr) -> str | None:
    return unknown_zone(0)(expr) or unknown_zone(1)(expr)


@strict("ConvertTimezone", can_fail=always, supports=_known_zones, loop=True)
def convert_timezone(expr: Expr, context: Context) -> ValueFunction:
    """``convert_timezone``: the local time of another zone."""

    def from_zone(source: Zone, targets: Datum, local: Datum) -> Datum:
        def in_both(target: Zone, ts: Datum) -> Datum:
            return on_numpy(
                lambda micros: _from_zone_to_zone(micros, source, target),
                expr.dtype, ts, failure=long_overflow,
            )  # fmt: skip

        return per_zone(in_both, expr.dtype, targets, local)

    return lambda sources, targets, local: per_zone(from_zone, expr.dtype, sources, targets, local)


def _from_zone_to_zone(local: Any, source: Zone, target: Zone) -> Any:
    """The instant between them may be out of range."""
    eras = (
        np.where(np.abs(local // 2) > LONG_MAX // 2 - 7 * MICROS_PER_DAY, np.sign(local), 0) * ERA
    )
    utc, _ = source.to_utc(local - eras)
    return plus(target.to_local(utc)[0], eras)


_EPOCH_UNITS: Final = {
    "UnixSeconds": MICROS_PER_SECOND,
    "UnixMillis": 1_000,
    "UnixMicros": 1,
    "MillisToTimestamp": 1_000,
    "MicrosToTimestamp": 1,
    "SecondsToTimestamp": MICROS_PER_SECOND,
}


def _whole_number(expr: Expr) -> Formula | None:
    if not is_integral(expr.children[0].dtype):
        return None
    return Formula("{0} * {unit}", True, {"unit": _EPOCH_UNITS[expr.op]})


@strict(
    "UnixSeconds",
    "UnixMillis",
    "UnixMicros",
    formula=lambda expr: Formula("{0} // {unit}", names={"unit": _EPOCH_UNITS[expr.op]}),
)
def to_number(expr: Expr, context: Context) -> ValueFunction:
    """``unix_seconds`` and the like: rounded down."""
    unit = _EPOCH_UNITS[expr.op]
    return lambda ts: on_numpy(lambda micros: micros // unit, expr.dtype, ts)


@strict(
    "SecondsToTimestamp",
    "MillisToTimestamp",
    "MicrosToTimestamp",
    can_fail=always,
    loop=True,
    reads=(SPARK_VERSION,),
    formula=_whole_number,
)
def from_number(expr: Expr, context: Context) -> ValueFunction:
    """``timestamp_seconds`` and the like. Of a fraction, digits after the sixth are cut off in a
    DOUBLE, and an error in a DECIMAL."""
    unit, source = _EPOCH_UNITS[expr.op], expr.children[0].dtype
    has_name = is_since(expr, "4.3.0")

    def too_large(number: Any) -> TransformError:
        if has_name:
            return failure("DATETIME_OVERFLOW", f"{number} is beyond what a TIMESTAMP can be.")
        return arithmetic_exception("Overflow") if isinstance(number, Decimal) else long_overflow()

    def whole(number: Any) -> Any:
        return times(number, unit)

    def exact(number: Decimal) -> int:
        micros = EXACT.scaleb(number, 6)
        is_beyond = not -(2**63) <= micros <= LONG_MAX
        # Java looks at the digits first.
        if is_beyond and (has_name or abs(micros) >= 10**19 or micros == int(micros)):
            raise too_large(number)
        if micros != int(micros):
            raise arithmetic_exception("Rounding necessary")
        return int(micros)

    def floating(number: Any) -> Any:
        return saturated(np.trunc(np.asarray(number, np.float64) * unit)), np.isfinite(number)

    if is_integral(source):
        return lambda value: on_numpy(whole, expr.dtype, value, failure=too_large)
    if pa.types.is_decimal(source):
        return lambda value: per_row(exact, expr.dtype, value)
    return lambda value: on_numpy(floating, expr.dtype, value)


@strict(
    "MakeTimestamp",
    can_fail=always,
    supports=unknown_zone(6),
    loop=True,
    reads=("time_zone_id", "fail_on_error", SPARK_VERSION),
)
def make_timestamp(expr: Expr, context: Context) -> ValueFunction:
    """``make_timestamp``: NULL for what is no time or no zone, in ANSI mode an error. The 60th
    second is the first of the next minute. Of microseconds 32 bits count; compiled before Spark
    4.3, of seconds."""
    session_zone = zone_for(expr, expr.dtype, context)
    strictly = bool(expr.params["fail_on_error"])
    interpreted = bool(expr.params.get("interpreted"))
    is_since_43 = is_since(expr, "4.3.0")
    zone_first = interpreted or (strictly and is_since_43)
    wraps_micros = interpreted or is_since_43

    def in_micros(second: Decimal) -> int:
        micros = int(second.scaleb(6))
        if wraps_micros:
            return _low_32_bits(micros)
        seconds, fraction = divmod(micros, MICROS_PER_SECOND)
        return _low_32_bits(seconds) * MICROS_PER_SECOND + fraction

    def is_time(year: Any, month: Any, day: Any, hour: Any, minute: Any, micros: Any) -> Any:
        valid = civil.is_date(year, month, day) & (np.abs(year) <= dates.YEAR_MAX)
        valid &= (hour >= 0) & (hour < 24)
        return valid & (minute >= 0) & (minute < 60) & (micros >= 0) & (micros <= MICROS_PER_MINUTE)

    def compute(
        local_zone: Zone, year: Any, month: Any, day: Any, hour: Any, minute: Any, micros: Any
    ) -> Any:
        valid = is_time(year, month, day, hour, minute, micros)
        days = civil.to_days(year, np.where(valid, month, 1), np.where(valid, day, 1))
        in_day = hour * MICROS_PER_HOUR + minute * MICROS_PER_MINUTE + micros
        instants, fits = local_zone.instants(days, in_day)
        if np.any(valid & ~fits):
            raise long_overflow()
        return instants, valid

    def out_of_bounds(*parts: int) -> TransformError:
        if MICROS_PER_MINUTE < parts[5] < MICROS_PER_MINUTE + MICROS_PER_SECOND:
            return failure("INVALID_FRACTION_OF_SECOND", "The second 60 must not have a fraction.")
        return failure("DATETIME_FIELD_OUT_OF_BOUNDS", f"{parts} is not a date and time.")

    wrong = out_of_bounds if strictly else None

    def function(*values: Datum) -> Datum:
        micros = per_row(in_micros, pa.int64(), values[5])
        numbers = (*values[:5], micros)
        if len(values) == 7:
            return per_zone(in_zone, expr.dtype, values[6], *numbers, unknown=nowhere)
        return in_zone(session_zone, *numbers)

    def in_zone(local_zone: Zone, *numbers: Datum) -> Datum:
        in_this = functools.partial(compute, local_zone)
        return on_numpy(in_this, expr.dtype, *numbers, failure=wrong)

    def nowhere(name: str, *numbers: Datum) -> Datum:
        """Compiled, Spark looks at the zone last (first since 4.3), and an unknown one is a part
        of the time that is wrong; interpreted, it looks at the zone first, and raises in each
        mode."""
        if zone_first:
            known = functools.reduce(pc.and_, map(pc.is_valid, numbers))
            if pc.any(known).as_py():
                raise invalid_zone(name)
            return all_null(numbers, expr.dtype)
        checked = on_numpy(lambda *p: (p[0], is_time(*p)), pa.int64(), *numbers, failure=wrong)
        if strictly and pc.any(pc.is_valid(checked)).as_py():
            raise invalid_zone(name)
        return all_null(numbers, expr.dtype)

    return function


def _low_32_bits(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
