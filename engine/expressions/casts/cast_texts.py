"""Casts to STRING and BINARY: how Spark writes values.

Source: Catalyst's ``ToStringBase``; ``BigDecimal.toString``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.casts.rules import Casting, Convert, conversion
from engine.expressions.java_doubles import PLAIN_HIGH, PLAIN_LOW, java_text
from engine.expressions.times.civil import MICROS_PER_DAY, from_days
from engine.expressions.times.zones import zone
from engine.expressions.vectors import from_numpy, per_row, to_numpy

_STRING = pa.string()
_YEARS_1_TO_9999 = (-719_162, 2_932_896)


@conversion(("boolean", "string"), ("integral", "string"))
def plain_to_string(casting: Casting) -> Convert:
    """As Arrow does."""
    return lambda array: array.cast(_STRING)


@conversion(("floating", "string"))
def floating_to_string(casting: Casting) -> Convert:
    """``1.0``, ``1.0E10``, ``NaN``, ``-Infinity``."""
    is_float = casting.source == pa.float32()

    def convert(array: pa.Array) -> pa.Array:
        text = array.cast(_STRING)
        size = pc.abs(array.cast(pa.float64()))
        in_range = pc.and_(pc.greater_equal(size, PLAIN_LOW), pc.less(size, PLAIN_HIGH))
        plain = pc.fill_null(pc.or_(in_range, pc.equal(size, 0.0)), True)
        whole = pc.invert(pc.match_substring(text, "."))
        result = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
        if plain.true_count == len(plain):
            return result
        rows = zip(text.to_pylist(), result.to_pylist(), plain.to_pylist(), strict=True)
        texts = [easy if is_plain else java_text(hard, is_float) for hard, easy, is_plain in rows]
        return pa.array(texts, _STRING)

    return convert


@conversion(("decimal", "string"))
def decimal_to_string(casting: Casting) -> Convert:
    """With all places of its scale. LEGACY writes tiny numbers with an exponent."""
    if casting.source.scale <= 6 or casting.mode == "LEGACY":
        return lambda array: array.cast(_STRING)
    return lambda array: per_row(lambda value: f"{value:f}", _STRING, array)


@conversion(("date", "string"))
def date_to_string(casting: Casting) -> Convert:
    """``2020-02-29``; a year beyond 9999 has a sign."""

    def convert(array: pa.Array) -> pa.Array:
        low, high = _YEARS_1_TO_9999
        ends = pc.min_max(array.cast(pa.int32()))
        if ends["min"].as_py() is None or (
            low <= ends["min"].as_py() and ends["max"].as_py() <= high
        ):
            return array.cast(_STRING)
        return per_row(date_text, _STRING, array)

    return convert


def date_text(days: int) -> str:
    """ISO 8601, as ``java.time`` writes it."""
    year, month, day = (int(part) for part in from_days(days))
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


@conversion(("timestamp", "string"), ("timestamp_ntz", "string"))
def timestamp_to_string(casting: Casting) -> Convert:
    """``2020-02-29 12:30:00.5`` in the session's time zone; trailing zeros are cut off."""
    local_zone = casting.zone if casting.source.tz is not None else zone("UTC")

    def convert(array: pa.Array) -> pa.Array:
        micros, valid = to_numpy(array)
        days, in_day = local_zone.local_parts(micros)
        low, high = _YEARS_1_TO_9999
        if len(days) and not (low <= days.min() and days.max() < high):
            parts = zip(days.tolist(), in_day.tolist(), strict=True)
            texts = [timestamp_text(*each) for each in parts]
            return pa.array(texts, _STRING, mask=None if valid is np.True_ else ~valid)
        local = from_numpy(days * MICROS_PER_DAY + in_day, valid, pa.timestamp("us"))
        return pc.utf8_rtrim(pc.utf8_rtrim(local.cast(_STRING), characters="0"), characters=".")

    return convert


def timestamp_text(days: int, rest: int) -> str:
    """A local date (days since 1970) and time (microseconds since midnight)."""
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    places = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{date_text(days)} {clock}{places}"


@conversion(("string", "string"))
@conversion(("binary", "binary"))
def unchanged(casting: Casting) -> Convert:
    """Nothing happens."""
    return lambda array: array


@conversion(("binary", "string"))
def binary_to_string(casting: Casting) -> Convert:
    """The same bytes, even if they are not UTF-8: so does Spark."""
    return lambda array: array.view(_STRING)


@conversion(("string", "binary"))
def string_to_binary(casting: Casting) -> Convert:
    """The bytes of UTF-8."""
    return lambda array: array.cast(pa.binary())


@conversion(("integral", "binary"))
def integral_to_binary(casting: Casting) -> Convert:
    """Big-endian, as many bytes as the type has."""
    size = casting.source.bit_width // 8
    return lambda array: per_row(
        lambda value: value.to_bytes(size, "big", signed=True), pa.binary(), array
    )
