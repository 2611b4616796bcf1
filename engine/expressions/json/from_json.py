"""``from_json``: JSON texts to structs, arrays and maps of a given schema.

Flat records of plain types are read by :mod:`engine.expressions.json.json_typed`. What that does
not take is read by Python's :mod:`json` and made into columns at once. Rows that hold anything out
of the ordinary (malformed, another type than the schema says, a number out of range, ...) are read
again by :mod:`engine.expressions.json.json_records`, one by one and by all of Spark's rules.

Modes: ``PERMISSIVE`` (the default) makes NULL of what cannot be read, ``FAILFAST`` raises. The
text of what cannot be read goes into a column of its own, if the schema has it.

Source: ``JsonToStructs``, ``JacksonParser`` and ``FailureSafeParser`` of Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.corrupt_records import (
    CORRUPT_RECORD,
    check_corrupt_field,
    corrupt_field,
    malformed_record,
    with_records,
    without_corrupt,
)
from engine.expressions.json.jackson import Number, is_blank, may_be_too_much
from engine.expressions.json.json_columns import Builder
from engine.expressions.json.json_options import JsonReading, json_reading
from engine.expressions.json.json_records import RecordReader
from engine.expressions.json.json_trees import no_number, unique
from engine.expressions.json.json_typed import TypedRecords
from engine.expressions.lists import replaced
from engine.expressions.options import OptionError, may_fail_fast, refused_for
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.times.timestamps import zone_for
from engine.expressions.times.zones import zone
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP, YEAR_MONTH_INTERVAL, sql_name
from engine.expressions.vectors import of_columns, to_list


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


def _reading(expr: Expr) -> JsonReading:
    """:raises OptionError: the options, or the schema, are not supported."""
    reading = json_reading(expr, zone("UTC"))
    for dtype in _types(expr.dtype):
        if pa.types.is_duration(dtype) or pa.types.is_null(dtype) or dtype == YEAR_MONTH_INTERVAL:
            raise OptionError(f"the type {sql_name(dtype)} is not supported in a schema")
        if pa.types.is_map(dtype) and not pa.types.is_string(dtype.key_type):
            raise OptionError("keys of maps must be STRING")
        if pa.types.is_struct(dtype) and len({f.name for f in dtype}) < dtype.num_fields:
            raise OptionError("two fields have the same name")
    check_corrupt_field(corrupt_field(expr.dtype, reading.corrupt), expr.params["options"])
    return reading


@strict(
    "JsonToStructs",
    can_fail=may_fail_fast("PERMISSIVE"),
    supports=refused_for(_reading),
    loop=True,
    reads=("options", "time_zone_id", CORRUPT_RECORD),
    presumes=(
        "spark.sql.json.enableExactStringParsing",
        "spark.sql.json.enablePartialResults",
        "spark.sql.legacy.json.allowEmptyString.enabled",
        "spark.sql.legacy.json.enableDateTimeParsingFallback",
        "spark.sql.legacy.timeParserPolicy",
    ),
)
def from_json(expr: Expr, context: Context) -> ValueFunction:
    """One value of the schema's type per text."""
    reading = json_reading(expr, zone_for(expr, TIMESTAMP, context))
    corrupt = corrupt_field(expr.dtype, reading.corrupt)
    dtype = without_corrupt(expr.dtype, corrupt)
    decode = _decoder(dtype, reading, tells_bad=reading.fails_fast or corrupt is not None)

    def exactly(array: pa.Array) -> pa.Array:
        texts = to_list(array)
        rows = range(len(texts))
        irregular: set[int] = set()
        values = [_decoded(decode, text, row, irregular) for row, text in enumerate(texts)]
        result = Builder(reading.times, irregular).build(values, dtype, rows)
        bad = [False] * len(texts)
        if irregular:
            reader = RecordReader(reading.times, reading.features)
            for row in irregular:
                values[row], is_whole = reader.read(texts[row], dtype)
                bad[row] = not is_whole
                if reading.fails_fast and not is_whole:
                    raise malformed_record(texts[row])
            result = Builder(reading.times, None).build(values, dtype, rows)
        if corrupt is None:
            return result
        # Of the column, not of what was read: its bytes stay also where they are no UTF-8.
        records = pc.if_else(pa.array(bad, pa.bool_()), array, pa.scalar(None, pa.string()))
        return with_records(result, expr.dtype, corrupt.name, records)

    if not TypedRecords.fit(dtype, reading.times):
        return of_columns(exactly)
    typed = TypedRecords(dtype, reading.times)

    def convert(array: pa.Array) -> pa.Array:
        result, odd = typed.read(to_list(array))
        if corrupt is not None:
            none = pa.nulls(len(array), pa.string())
            result = with_records(result, expr.dtype, corrupt.name, none)
        if not odd:
            return result
        return replaced(result, np.array(odd), exactly(array.take(pa.array(odd, pa.int64()))))

    return of_columns(convert)


def _decoded(decode: Callable[[str], Any], text: str | None, row: int, irregular: set[int]) -> Any:
    if text is None:
        return None
    try:
        if may_be_too_much(text):
            raise ValueError
        value = decode(text)
    except (ValueError, RecursionError):
        if not is_blank(text):
            irregular.add(row)
        return None
    if value is None:
        irregular.add(row)
    return value


def _decoder(dtype: pa.DataType, reading: JsonReading, *, tells_bad: bool) -> Callable[[str], Any]:
    types = _types(dtype)
    # Where it matters how a number was written, its text is kept.
    keeps_text = any(pa.types.is_decimal(t) or pa.types.is_float32(t) for t in types)
    constant: Callable[[str], Any] | None = Number if keeps_text else None
    if not reading.features.names_of_numbers:
        constant = no_number
    # Of equal names the last one counts, except in maps and where earlier ones may be bad.
    must_be_unique = tells_bad or any(map(pa.types.is_map, types))
    return json.JSONDecoder(
        parse_float=Number if keeps_text else None,
        parse_constant=constant,
        object_pairs_hook=unique if must_be_unique else None,
    ).decode
