"""Dates and times to text and back, by a pattern: ``date_format``, ``to_timestamp``, ...

A pattern is one that is known here: of a constant it is told when the query starts, of a column for
the row that has it.

Source: ``datetimeExpressions.scala`` of Spark.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.buffers import valid_of
from engine.expressions.datum import constant
from engine.expressions.java_errors import long_overflow
from engine.expressions.malformed import value_of
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.times.civil import MICROS_PER_SECOND
from engine.expressions.times.datetime_parsing import TextParser
from engine.expressions.times.datetime_patterns import UnsupportedPatternError
from engine.expressions.times.datetime_printing import Moments, printer
from engine.expressions.times.intervals import truncated
from engine.expressions.times.timestamps import zone_for
from engine.expressions.times.zones import Checked, Zone, zone
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP_NTZ
from engine.expressions.vectors import from_numpy, on_numpy, to_list, to_numpy

_PATTERNS_MAX: Final = 1_000
"""Kept of a column; those beyond are read again."""


def _understood_by(use: Callable[[str], Any]) -> Callable[[Expr], str | None]:
    def supports(expr: Expr) -> str | None:
        pattern = constant(expr.children[1])
        try:
            if pattern is not None and pattern.is_valid and pa.types.is_string(pattern.type):
                use(value_of(pattern))
        except UnsupportedPatternError as error:
            return str(error)
        return None

    return supports


def _has_column(expr: Expr) -> bool:
    """Whether the pattern is none that is known when the query starts."""
    return constant(expr.children[1]) is None


def _by_pattern(
    make: Callable[[str], Callable[[Datum], Datum]], dtype: pa.DataType
) -> ValueFunction:
    """The rows of each pattern together.

    :param make: what a pattern makes of values.
    """

    @functools.lru_cache(_PATTERNS_MAX)
    def known(pattern: pa.Scalar) -> Callable[[Datum], Datum]:
        try:
            return make(value_of(pattern))
        except UnsupportedPatternError as error:
            hint = "Leave such rows out, or handle them in a function, with mapInArrow for example."
            raise TransformError(str(error), hint=hint) from None

    def function(value: Datum, pattern: Datum) -> Datum:
        if isinstance(pattern, pa.Scalar):
            return known(pattern)(value) if pattern.is_valid else pa.scalar(None, dtype)
        if isinstance(value, pa.Scalar):
            value = pa.repeat(value, len(pattern))
        codes = pattern.dictionary_encode()
        numbers = to_numpy(codes.indices)[0]
        given = valid_of(value) & valid_of(pattern)
        parts, places = [pa.nulls(1, dtype)], np.zeros(len(pattern), np.int64)
        for number, each in enumerate(codes.dictionary):
            rows = np.flatnonzero(given & (numbers == number))
            if len(rows):
                places[rows] = sum(map(len, parts)) + np.arange(len(rows))
                parts.append(known(each)(value.take(pa.array(rows))))
        return pa.concat_arrays(parts).take(pa.array(places))

    return function


def format_timestamps(
    micros: Any, valid: Any, render: Callable[[Moments], list[str]], zone: Zone
) -> pa.Array:
    """Print instants in a zone."""
    texts = render(Moments(micros, zone))
    return pa.array(texts, pa.string(), mask=None if valid is np.True_ else ~valid)


def _formatter(pattern: str, zone: Zone, unit: int) -> Callable[[Datum], Datum]:
    render = printer(pattern)

    def function(value: Datum) -> Datum:
        if isinstance(value, pa.Scalar):
            return function(pa.repeat(value, 1))[0]
        micros, valid = to_numpy(value)
        return format_timestamps(micros * unit, valid, render, zone)

    return function


@strict(
    "DateFormatClass",
    "FromUnixTime",
    supports=_understood_by(printer),
    can_fail=_has_column,
    loop=True,
    reads=("time_zone_id",),
    presumes=("spark.sql.legacy.timeParserPolicy",),
)
def date_format(expr: Expr, context: Context) -> ValueFunction:
    """``date_format`` of a timestamp, ``from_unixtime`` of seconds."""
    source = expr.children[0].dtype
    unit = MICROS_PER_SECOND if expr.op == "FromUnixTime" else 1
    local_zone = zone_for(expr, source, context)
    return _by_pattern(lambda pattern: _formatter(pattern, local_zone, unit), expr.dtype)


def _parse_supports(expr: Expr) -> str | None:
    if pa.types.is_string(expr.children[0].dtype):
        return _understood_by(TextParser)(expr)
    return None


@strict(
    "GetTimestamp", "UnixTimestamp", "ToUnixTimestamp",
    can_fail=lambda expr: expr.children[0].dtype in (pa.string(), pa.date32()),
    supports=_parse_supports, loop=True, reads=("time_zone_id", "fail_on_error"),
    presumes=("spark.sql.legacy.timeParserPolicy",),
)  # fmt: skip
def to_timestamp(expr: Expr, context: Context) -> ValueFunction:
    """``to_timestamp``, ``to_date``, ``unix_timestamp`` with a pattern. The latter gives seconds,
    cut towards 1970."""
    source = expr.children[0].dtype
    unit = 1 if expr.op == "GetTimestamp" else MICROS_PER_SECOND
    if not pa.types.is_string(source):
        return _from_temporal(expr, context, unit)
    local_zone = None if expr.dtype == TIMESTAMP_NTZ else zone_for(expr, source, context)
    strictly = bool(expr.params["fail_on_error"])

    def reader(pattern: str) -> Callable[[Datum], Datum]:
        parser = TextParser(pattern)

        def convert(texts: pa.Array) -> pa.Array:
            parsed = [
                None if text is None else parser.parse(text, of_zone=local_zone is not None)
                for text in to_list(texts)
            ]
            valid = np.array([result is not None for result in parsed], np.bool_)
            if strictly and int(valid.sum()) < len(texts) - texts.null_count:
                raise _cannot_parse(texts, valid, pattern)
            micros, fits = _instants([(0, 0, None) if r is None else r for r in parsed], local_zone)
            if not np.all(fits):
                raise long_overflow()
            return from_numpy(truncated(micros, unit), valid, expr.dtype)

        return lambda value: (
            convert(pa.repeat(value, 1))[0] if isinstance(value, pa.Scalar) else convert(value)
        )

    return _by_pattern(reader, expr.dtype)


def _instants(parsed: list[tuple[int, int, int | None]], local_zone: Zone | None) -> Checked:
    """:param local_zone: of texts that name no offset; None where offsets do not matter."""
    days, in_day = (np.array([row[place] for row in parsed], np.int64) for place in (0, 1))
    utc = zone("UTC")
    if local_zone is None:
        return utc.instants(days, in_day)
    offsets = np.array([row[2] or 0 for row in parsed], np.int64)
    told = np.array([row[2] is not None for row in parsed], np.bool_)
    there, fits_there = utc.instants(days, in_day - offsets)
    here, fits_here = local_zone.instants(days, in_day)
    return np.where(told, there, here), np.where(told, fits_there, fits_here)


def _cannot_parse(texts: pa.Array, valid: Any, pattern: str) -> TransformError:
    wrong = np.flatnonzero(~valid & texts.is_valid().to_numpy(zero_copy_only=False))[0]
    return failure(
        "CANNOT_PARSE_TIMESTAMP",
        f"{value_of(texts[int(wrong)])!r} does not follow the pattern {pattern!r}.",
        "Use try_to_timestamp to get NULL instead.",
    )


def _from_temporal(expr: Expr, context: Context, unit: int) -> ValueFunction:
    source = expr.children[0].dtype
    local_zone = zone_for(expr, source, context)

    def compute(number: Any) -> Any:
        is_date = pa.types.is_date32(source)
        micros, fits = local_zone.start_of_day(number) if is_date else (number, np.True_)
        return truncated(micros, unit), fits

    return lambda value, _: on_numpy(compute, expr.dtype, value, failure=long_overflow)
