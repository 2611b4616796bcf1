"""Casts among numbers and booleans."""

from __future__ import annotations

from contextlib import nullcontext
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.buffers import room, values_of, with_nulls_of
from engine.expressions.casts.held_decimals import UNSCALED_MAX
from engine.expressions.casts.rules import Casting, Convert, conversion
from engine.expressions.decimals import EXACT, fit, fit_array, low_64_bits
from engine.expressions.java_doubles import double_text
from engine.expressions.vectors import per_row

_LONG_DIGITS = 19
_COMPACT_DIGITS = 18
"""Of a DECIMAL of more, Spark keeps no BIGINT."""
_EXACT_POWER = 22
"""10 to this power is the largest that a double holds exactly."""


@conversion(("integral", "integral"))
def integral_to_integral(casting: Casting) -> Convert:
    """Too large: an error; LEGACY cuts off the higher bits."""

    def convert(array: pa.Array) -> pa.Array:
        if not casting.exact:
            return array.cast(casting.target, safe=False)
        try:
            return array.cast(casting.target)
        except pa.ArrowInvalid:
            values, limits = values_of(array), np.iinfo(casting.target.to_pandas_dtype())
            bad = (values < limits.min) | (values > limits.max)
            return casting.without(array.cast(casting.target, safe=False), bad, array)

    return convert


@conversion(("boolean", "integral"), ("boolean", "floating"))
def boolean_to_number(casting: Casting) -> Convert:
    """True is 1."""
    return lambda array: array.cast(casting.target)


@conversion(("integral", "floating"), ("floating", "floating"))
def number_to_floating(casting: Casting) -> Convert:
    """Rounded to the nearest; too large becomes infinity."""
    target = casting.target.to_pandas_dtype()
    may_warn = pa.types.is_floating(casting.source)

    def convert(array: pa.Array) -> pa.Array:
        values = room(len(array), target)
        with np.errstate(all="ignore") if may_warn else nullcontext():
            np.copyto(values, values_of(array), casting="unsafe")
        return with_nulls_of(array, values, casting.target)

    return convert


@conversion(("integral", "boolean"), ("floating", "boolean"), ("decimal", "boolean"))
def number_to_boolean(casting: Casting) -> Convert:
    """Everything but zero is true, NaN included."""
    zero = pa.scalar(Decimal(0) if pa.types.is_decimal(casting.source) else 0, casting.source)
    return lambda array: pc.not_equal(array, zero)


@conversion(("floating", "integral"))
def floating_to_integral(casting: Casting) -> Convert:
    """Towards zero. Too large or NaN: an error; LEGACY saturates at INT or BIGINT, NaN is 0, and
    TINYINT and SMALLINT then cut off the higher bits."""
    target = np.dtype(casting.target.to_pandas_dtype())
    limits = np.iinfo(target)
    wide = np.iinfo(np.int64 if target.itemsize == 8 else np.int32)

    def convert(array: pa.Array) -> pa.Array:
        values = values_of(array).astype(np.float64)
        low, high = float(wide.min), float(wide.max)
        with np.errstate(all="ignore"):
            whole = np.trunc(np.where(np.isnan(values), 0.0, values))
            # As a double, the highest BIGINT is one too many: it must not reach astype.
            inside = np.where((whole >= high) | (whole <= low), 0.0, whole).astype(np.int64)
            saturated = np.where(whole >= high, wide.max, np.where(whole <= low, wide.min, inside))
        result = with_nulls_of(array, saturated.astype(target), casting.target)
        if not casting.exact:
            return result
        fits = (np.floor(values) <= float(limits.max)) & (np.ceil(values) >= float(limits.min))
        return casting.without(result, ~fits, array)

    return convert


@conversion(("boolean", "decimal"), ("integral", "decimal"))
def whole_to_decimal(casting: Casting) -> Convert:
    """Too many digits: an error, or null."""
    exact = pa.decimal128(_LONG_DIGITS, 0)

    def convert(array: pa.Array) -> pa.Array:
        whole = array.cast(pa.int64()).cast(exact)
        return fit_array(whole, casting.target, casting.ansi)

    return convert


@conversion(("decimal", "decimal"))
def decimal_to_decimal(casting: Casting) -> Convert:
    """Rounded half up. Too many digits: an error, or null."""
    source, target = casting.source, casting.target
    whole_digits = target.precision - target.scale
    if target.scale >= source.scale and whole_digits >= source.precision - source.scale:
        return lambda array: array.cast(target)
    return lambda array: fit_array(array, target, casting.ansi)


@conversion(("floating", "decimal"))
def floating_to_decimal(casting: Casting) -> Convert:
    """By way of its shortest text, rounded half up. NaN and infinity are null."""

    def to_decimal(value: float) -> Decimal | None:
        if value != value or value in (float("inf"), float("-inf")):
            return None
        return fit(Decimal(double_text(value)), casting.target, casting.ansi)

    return lambda array: per_row(to_decimal, casting.target, array.cast(pa.float64()))


@conversion(("decimal", "floating"))
def decimal_to_floating(casting: Casting) -> Convert:
    """The nearest number."""
    source, target = casting.source, casting.target

    def convert(array: pa.Array) -> pa.Array:
        if target == pa.float64() and source.precision <= 15 and 0 <= source.scale <= _EXACT_POWER:
            # Both fit into a double, so the quotient is rounded only once.
            unscaled = np.frombuffer(array.buffers()[1], np.int64)[::2]
            part = unscaled[array.offset : array.offset + len(array)]
            return with_nulls_of(array, part / float(10**source.scale), target)
        return array.cast(pa.string()).cast(target)

    return convert


@conversion(("decimal", "integral"))
def decimal_to_integral(casting: Casting) -> Convert:
    """Towards zero. Too large: an error; LEGACY cuts off the higher bits. Where Spark checks what
    it keeps as a BigDecimal, it does so by way of a DOUBLE, but not for BIGINT."""
    bits, source = casting.target.bit_width, casting.source
    half = 1 << (bits - 1)
    held = casting.held_as_long
    if held is None:
        held = source.precision <= _COMPACT_DIGITS
    by_double = casting.exact and bits < 64

    def whole(value: Decimal) -> int:
        if by_double and (not held or abs(EXACT.scaleb(value, source.scale)) >= UNSCALED_MAX):
            return int(float(value))
        return int(value)

    def row(value: Decimal) -> int:
        return int((low_64_bits(whole(value)) + half) % (2 * half) - half)

    def convert(array: pa.Array) -> pa.Array:
        wrapped = per_row(row, casting.target, array)
        if not casting.exact:
            return wrapped
        bad = [v is not None and not -half <= whole(v) < half for v in array.to_pylist()]
        return casting.without(wrapped, np.array(bad, np.bool_), array)

    return convert
