"""``from_csv``: a line of CSV to a struct of a given schema.

Modes: ``PERMISSIVE`` (the default) makes NULL of values that cannot be read, ``FAILFAST`` raises.
The text of what cannot be read goes into a column of its own, if the schema has it.

A text is read alike wherever it is. Spark's reader carries something over: behind U+FFFF, its end
of a line, the next text of a task can be read in another way, and it leaves out a mark of the byte
order (U+FEFF) in front of the first text of a task, which is kept here as in front of all others.

Source: ``CsvToStructs``, ``UnivocityParser`` and ``FailureSafeParser`` of Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from engine.expressions.ansi import failure
from engine.expressions.casts.parse_numbers import string_to_floating
from engine.expressions.casts.rules import Casting
from engine.expressions.corrupt_records import (
    CORRUPT_RECORD,
    check_corrupt_field,
    corrupt_field,
    malformed_record,
    with_records,
    without_corrupt,
)
from engine.expressions.csv.csv_lines import TooManyValuesError
from engine.expressions.csv.csv_options import CsvReading, csv_reading
from engine.expressions.json.json_records import BadValueError, decimal_of, whole_of
from engine.expressions.options import OptionError, refused_for
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.times.timestamps import zone_for
from engine.expressions.times.zones import zone
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ, is_integral, sql_name
from engine.expressions.vectors import of_columns, to_list

_WORDS: Final = {"true": True, "false": False}
_ENDS: Final = ("\r", "\n")
_Read = Callable[[str], Any]


def _reading(expr: Expr) -> CsvReading:
    """:raises OptionError: the options, or the schema, are not supported."""
    if expr.params.get("required_schema") is not None:
        raise OptionError("a part of a schema is not supported")
    reading = csv_reading(expr, zone("UTC"))
    corrupt = corrupt_field(expr.dtype, reading.corrupt)
    check_corrupt_field(corrupt, expr.params["options"])
    schema = without_corrupt(expr.dtype, corrupt)
    if len({field.name for field in expr.dtype}) < expr.dtype.num_fields:
        raise OptionError("two fields have the same name")
    if not schema.num_fields:
        raise OptionError("a schema without fields is not supported")
    for field in schema:
        _reader(field.type, reading)
    return reading


@strict(
    "CsvToStructs",
    can_fail=always,
    supports=refused_for(_reading),
    loop=True,
    reads=("options", "time_zone_id", "required_schema", CORRUPT_RECORD),
    presumes=(
        "spark.sql.csv.parser.inputBufferSize",
        "spark.sql.legacy.csv.enableDateTimeParsingFallback",
        "spark.sql.legacy.timeParserPolicy",
    ),
)
def from_csv(expr: Expr, context: Context) -> ValueFunction:
    """One struct per text."""
    reading = csv_reading(expr, zone_for(expr, TIMESTAMP, context))
    corrupt = corrupt_field(expr.dtype, reading.corrupt)
    dtype = without_corrupt(expr.dtype, corrupt)
    readers = [_reader(field.type, reading) for field in dtype]

    def convert(array: pa.Array) -> pa.Array:
        texts = to_list(array)
        bad: dict[int, str | None] = {}  # and what Spark has read of them
        rows = [
            [None] * len(readers) if text is None else _row(text, row, readers, reading, bad)
            for row, text in enumerate(texts)
        ]
        if bad and reading.fails_fast:
            raise malformed_record(texts[min(bad)])
        columns = (
            [
                _column(list(values), field.type)
                for values, field in zip(zip(*rows, strict=True), dtype, strict=True)
            ]
            if rows
            else [pa.nulls(0, field.type) for field in dtype]
        )
        mask = pa.array([text is None for text in texts], pa.bool_())
        result = pa.StructArray.from_arrays(columns, fields=list(dtype), mask=mask)
        if corrupt is None:
            return result
        records = pa.array([bad.get(row) for row in range(len(texts))], pa.string())
        return with_records(result, expr.dtype, corrupt.name, records)

    return of_columns(convert)


def _row(
    text: str, row: int, readers: Sequence[_Read], reading: CsvReading, bad: dict[int, str | None]
) -> list[Any]:
    try:
        values = reading.lines.values(text)
    except TooManyValuesError:
        raise failure(
            "MALFORMED_CSV_RECORD",
            f"The record {text[:100]!r}... has too many values.",
            "Raise the option maxColumns.",
        ) from None
    if values is None:  # nothing, or a comment: which Spark skips if there is something to skip
        bad[row] = text if len(text) == 1 else None
    elif len(values) != len(readers):
        bad[row] = _without_end(text)
    found: list[Any] = []
    for read, value in zip(readers, values or (), strict=False):
        try:
            found.append(None if value == reading.null_value else read(value))
        except BadValueError:
            bad[row] = _without_end(text)
            found.append(None)
    return found + [None] * (len(readers) - len(found))


def _without_end(text: str) -> str:
    """Without the end of its line: as Scala's ``stripLineEnd``."""
    return text[:-2] if text.endswith("\r\n") else text[:-1] if text.endswith(_ENDS) else text


def _reader(dtype: pa.DataType, reading: CsvReading) -> _Read:
    """How a value of this type is read, or BadValueError raised.

    :raises OptionError: it is not supported.
    """
    if pa.types.is_string(dtype):
        return str
    if pa.types.is_binary(dtype):
        return str.encode
    if is_integral(dtype):
        half = 2 ** (dtype.bit_width - 1)
        return lambda text: whole_of(text, half)
    if pa.types.is_floating(dtype):
        parse = string_to_floating(Casting(pa.string(), dtype, "LEGACY", "UTC"))
        return lambda text: _floating(text, reading.numbers, parse)
    if pa.types.is_boolean(dtype):
        return _boolean
    if pa.types.is_decimal(dtype):
        return lambda text: decimal_of(text, dtype)
    times = reading.times
    if pa.types.is_date32(dtype):
        return _some(times.date)
    if pa.types.is_timestamp(dtype):
        return _some(times.local_timestamp if dtype == TIMESTAMP_NTZ else times.timestamp)
    raise OptionError(f"the type {sql_name(dtype)} is not supported in a schema")


def _some(read: Callable[[str], int | None]) -> _Read:
    def function(text: str) -> int:
        value = read(text)
        if value is None:
            raise BadValueError
        return value

    return function


_NAMES_OF_CASTS: Final = re.compile(r"\s*[+-]?(nan|inf|infinity)\s*", re.IGNORECASE)
_NAMES_OF_JAVA: Final = re.compile(r"[\x00-\x20]*[+-]?(NaN|Infinity)[\x00-\x20]*")


def _floating(text: str, names: dict[str, float], parse: Callable[[pa.Array], pa.Array]) -> float:
    """As Java's ``parseDouble``, without the names that only casts take."""
    if text in names:
        return names[text]
    if _NAMES_OF_CASTS.fullmatch(text) and not _NAMES_OF_JAVA.fullmatch(text):
        raise BadValueError
    value: float | None = parse(pa.array([text], pa.string()))[0].as_py()
    if value is None:
        raise BadValueError
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in _WORDS:
        raise BadValueError
    return _WORDS[text.lower()]


def _column(values: list[Any], dtype: pa.DataType) -> pa.Array:
    if pa.types.is_date32(dtype):
        return pa.array(values, pa.int32()).view(dtype)
    if pa.types.is_timestamp(dtype):
        return pa.array(values, pa.int64()).view(dtype)
    return pa.array(values, dtype)
