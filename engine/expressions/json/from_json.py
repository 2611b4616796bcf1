"""``from_json``: JSON texts to structs, arrays and maps of a given schema.

A batch is read by Python's :mod:`json` and made into columns at once. Rows that hold anything out
of the ordinary (malformed, another type than the schema says, a number out of range, ...) are read
again by :mod:`engine.expressions.json.json_records`, one by one and by all of Spark's rules.

Modes: ``PERMISSIVE`` (the default) makes NULL of what cannot be read, ``FAILFAST`` raises.

Source: ``JsonToStructs``, ``JacksonParser`` and ``FailureSafeParser`` of Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from engine.expressions.ansi import failure
from engine.expressions.json.jackson import Number, is_blank, may_have_long_numbers
from engine.expressions.json.json_columns import Builder
from engine.expressions.json.json_records import RecordReader
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.times.timestamps import zone_for
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP, sql_name

_CORRUPT_RECORD = "_corrupt_record"


def _types(dtype: pa.DataType) -> list[pa.DataType]:
    """This type and all inside of it."""
    inner: list[pa.DataType] = []
    if pa.types.is_struct(dtype):
        inner = [field.type for field in dtype]
    elif pa.types.is_map(dtype):
        inner = [dtype.item_type]
    elif pa.types.is_list(dtype):
        inner = [dtype.value_type]
    return [dtype, *(found for child in inner for found in _types(child))]


def _mode(expr: Expr) -> str:
    options = {name.lower(): value for name, value in expr.params["options"].items()}
    return str(options.get("mode", "PERMISSIVE")).upper()


def _supports(expr: Expr) -> str | None:
    unknown = {name for name in expr.params["options"] if name.lower() != "mode"}
    if unknown:
        return f"the options {sorted(unknown)} are not supported"
    if _mode(expr) not in ("PERMISSIVE", "FAILFAST"):
        return f"the mode {_mode(expr)} is not supported"
    if _mode(expr) == "FAILFAST" and not pa.types.is_struct(expr.dtype):
        return "the mode FAILFAST needs a struct as schema"
    for dtype in _types(expr.dtype):
        if pa.types.is_binary(dtype) or pa.types.is_duration(dtype) or pa.types.is_null(dtype):
            return f"the type {sql_name(dtype)} is not supported in a schema"
        if pa.types.is_map(dtype) and not pa.types.is_string(dtype.key_type):
            return "keys of maps must be STRING"
        if pa.types.is_struct(dtype):
            names = [field.name for field in dtype]
            if _CORRUPT_RECORD in names:
                return f"a column {_CORRUPT_RECORD} is not supported"
            if len(set(names)) < len(names):
                return "two fields have the same name"
    return None


@strict(
    "JsonToStructs",
    can_fail=lambda expr: _mode(expr) == "FAILFAST",
    supports=_supports,
    loop=True,
    reads=("options", "time_zone_id"),
    presumes=(
        "spark.sql.columnNameOfCorruptRecord",
        "spark.sql.json.enableExactStringParsing",
        "spark.sql.json.enablePartialResults",
        "spark.sql.legacy.json.allowEmptyString.enabled",
        "spark.sql.legacy.json.enableDateTimeParsingFallback",
        "spark.sql.legacy.timeParserPolicy",
    ),
)
def from_json(expr: Expr, context: Context) -> ValueFunction:
    """One value of the schema's type per text."""
    zone = zone_for(expr, TIMESTAMP, context)
    fails_fast = _mode(expr) == "FAILFAST"
    decode = _decoder(expr.dtype, fails_fast)

    def convert(array: pa.Array) -> pa.Array:
        texts, rows = array.to_pylist(), range(len(array))
        irregular: set[int] = set()
        values = [_decoded(decode, text, row, irregular) for row, text in enumerate(texts)]
        result = Builder(zone, irregular).build(values, expr.dtype, rows)
        if not irregular:
            return result
        reader = RecordReader(zone)
        for row in irregular:
            values[row], is_whole = reader.read(texts[row], expr.dtype)
            if fails_fast and not is_whole:
                raise failure(
                    "MALFORMED_RECORD_IN_PARSING",
                    f"The record {texts[row]!r} does not follow the schema.",
                    "Use the mode PERMISSIVE to get NULL instead.",
                )
        return Builder(zone, None).build(values, expr.dtype, rows)

    def function(value: Datum) -> Datum:
        return convert(pa.repeat(value, 1))[0] if isinstance(value, pa.Scalar) else convert(value)

    return function


def _decoded(decode: Callable[[str], Any], text: str | None, row: int, irregular: set[int]) -> Any:
    if text is None:
        return None
    try:
        if may_have_long_numbers(text):
            raise ValueError("a number is too long")
        value = decode(text)
    except (ValueError, RecursionError):
        if not is_blank(text):
            irregular.add(row)
        return None
    if value is None:
        irregular.add(row)
    return value


def _decoder(dtype: pa.DataType, fails_fast: bool) -> Callable[[str], Any]:
    types = _types(dtype)
    # Where it matters how a number was written, its text is kept.
    keeps_text = any(pa.types.is_decimal(t) or pa.types.is_float32(t) for t in types)
    # Of equal names the last one counts, except in maps and where earlier ones may raise.
    must_be_unique = fails_fast or any(map(pa.types.is_map, types))
    return json.JSONDecoder(
        parse_float=Number if keeps_text else None,
        parse_constant=Number if keeps_text else None,
        object_pairs_hook=_unique if must_be_unique else None,
    ).decode


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice")
    return members
