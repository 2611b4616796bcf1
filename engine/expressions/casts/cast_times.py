"""Casts among dates and timestamps, and between them and numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.casts.cast_numbers import integral_to_integral
from engine.expressions.casts.rules import Casting, Convert, conversion
from engine.expressions.decimals import EXACT, fit_array, low_64_bits
from engine.expressions.java_errors import long_overflow
from engine.expressions.times.civil import MICROS_PER_SECOND
from engine.expressions.times.zones import zone
from engine.expressions.vectors import Failure, on_numpy, per_row

_LONG = np.iinfo(np.int64)


@conversion(("timestamp", "timestamp"), ("timestamp_ntz", "timestamp_ntz"), ("date", "date"))
def same_type(casting: Casting) -> Convert:
    """Nothing happens."""
    return lambda array: array


@conversion(("timestamp", "date"), ("timestamp_ntz", "date"))
def timestamp_to_date(casting: Casting) -> Convert:
    """The date on a calendar in the session's time zone."""
    local_zone = casting.zone if casting.source.tz else zone("UTC")
    return lambda array: on_numpy(lambda m: local_zone.local_parts(m)[0], casting.target, array)


@conversion(("date", "timestamp"), ("date", "timestamp_ntz"))
def date_to_timestamp(casting: Casting) -> Convert:
    """The first instant of the date in the session's time zone; midnight without one."""

    local_zone = casting.zone if casting.target.tz else zone("UTC")
    failure = _overflow(casting)
    return lambda array: on_numpy(local_zone.start_of_day, casting.target, array, failure=failure)


def _overflow(casting: Casting) -> Failure | None:
    """What is out of range is an error, with ANSI mode off too; NULL where the cast is a TRY."""
    return None if casting.mode == "TRY" else long_overflow


@conversion(("timestamp", "timestamp_ntz"))
def instant_to_local(casting: Casting) -> Convert:
    """What the clock on the wall shows."""
    failure = _overflow(casting)
    return lambda array: on_numpy(casting.zone.to_local, casting.target, array, failure=failure)


@conversion(("timestamp_ntz", "timestamp"))
def local_to_instant(casting: Casting) -> Convert:
    """When the clock on the wall shows this."""
    failure = _overflow(casting)
    return lambda array: on_numpy(casting.zone.to_utc, casting.target, array, failure=failure)


@conversion(("timestamp", "integral"))
def timestamp_to_integral(casting: Casting) -> Convert:
    """Seconds since 1970, rounded down; LEGACY does not wrap here."""
    narrow = integral_to_integral(replace(casting, mode="ANSI" if casting.ansi else "TRY"))

    def convert(array: pa.Array) -> pa.Array:
        return narrow(on_numpy(lambda m: m // MICROS_PER_SECOND, pa.int64(), array))

    return convert


@conversion(("timestamp", "floating"))
def timestamp_to_floating(casting: Casting) -> Convert:
    """Seconds since 1970."""
    return lambda array: on_numpy(lambda m: m / MICROS_PER_SECOND, casting.target, array)


@conversion(("timestamp", "decimal"))
def timestamp_to_decimal(casting: Casting) -> Convert:
    """Seconds since 1970."""
    exact = pa.decimal128(19, 0)
    micros_as_seconds = pa.decimal128(19, 6)

    def convert(array: pa.Array) -> pa.Array:
        seconds = array.cast(pa.int64()).cast(exact).view(micros_as_seconds)
        return fit_array(seconds, casting.target, casting.ansi)

    return convert


@conversion(("timestamp", "boolean"))
def timestamp_to_boolean(casting: Casting) -> Convert:
    """Everything but 1970-01-01T00:00:00Z is true."""
    return lambda array: pc.not_equal(array.cast(pa.int64()), 0)


@conversion(*(("date", target) for target in ("boolean", "integral", "floating", "decimal")))
def date_to_number(casting: Casting) -> Convert:
    """Null: only LEGACY allows it at all."""
    return lambda array: pa.nulls(len(array), casting.target)


@conversion(("boolean", "timestamp"))
def boolean_to_timestamp(casting: Casting) -> Convert:
    """True is a microsecond after 1970: only LEGACY allows it at all."""
    return lambda array: array.cast(pa.int64()).cast(casting.target)


@conversion(("integral", "timestamp"))
def integral_to_timestamp(casting: Casting) -> Convert:
    """Seconds since 1970; too many are as many as possible."""

    def micros(seconds: Any) -> Any:
        limit = _LONG.max // MICROS_PER_SECOND
        inside = np.clip(seconds, -limit, limit) * MICROS_PER_SECOND
        return np.where(seconds > limit, _LONG.max, np.where(seconds < -limit, _LONG.min, inside))

    return lambda array: on_numpy(micros, casting.target, array)


@conversion(("floating", "timestamp"))
def floating_to_timestamp(casting: Casting) -> Convert:
    """Seconds since 1970. NaN and infinity are malformed."""

    def micros(seconds: float) -> int | None:
        if seconds != seconds or seconds in (float("inf"), float("-inf")):
            return None
        exact = seconds * MICROS_PER_SECOND
        if -(2.0**63) <= exact <= 2.0**63:
            return min(int(exact), _LONG.max)
        if casting.ansi:
            raise casting.overflow(seconds)
        if casting.exact:
            return None
        return int(_LONG.max if exact > 0 else _LONG.min)

    per_value: Callable[[pa.Array], pa.Array] = casting.per_value(micros)
    return lambda array: per_value(array.cast(pa.float64()))


@conversion(("decimal", "timestamp"))
def decimal_to_timestamp(casting: Casting) -> Convert:
    """Seconds since 1970; what is below a microsecond is cut off."""

    def micros(seconds: Decimal) -> int:
        return low_64_bits(int(EXACT.scaleb(seconds, 6)))

    return lambda array: per_row(micros, casting.target, array)
