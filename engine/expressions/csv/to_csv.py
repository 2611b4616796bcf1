"""``to_csv``: a struct as a line of CSV.

Source: ``StructsToCsv`` and ``UnivocityGenerator`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from engine.expressions.casts.cast_texts import floating_to_string
from engine.expressions.casts.rules import Casting
from engine.expressions.csv.csv_options import CsvWriting, csv_writing
from engine.expressions.csv.csv_writing import LineWriter
from engine.expressions.java_doubles import double_text
from engine.expressions.lists import Lists
from engine.expressions.options import OptionError, refused_for
from engine.expressions.record_printing import Texts
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.times.timestamps import zone_for
from engine.expressions.times.zones import zone
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP
from engine.expressions.vectors import field_of, of_columns, to_list


def _writing(expr: Expr) -> CsvWriting:
    """:raises OptionError: the options, or the type, are not supported."""
    if not expr.children[0].dtype.num_fields:
        raise OptionError("a struct without fields is not supported")
    writing = csv_writing(expr, zone("UTC"))
    if _may_be_empty(expr.children[0].dtype, writing.lines):
        raise OptionError("Spark fails for a line that is empty: set the option nullValue")
    return writing


def _may_be_empty(dtype: pa.StructType, lines: LineWriter) -> bool:
    """Whether a line may have no character."""
    only = dtype.field(0)
    if dtype.num_fields > 1 or lines.quotes_all:
        return False
    no_null = only.nullable and not lines.null_value.strip()
    return no_null or (pa.types.is_string(only.type) and not lines.empty_value.strip())


@strict(
    "StructsToCsv",
    supports=refused_for(_writing),
    loop=True,
    reads=("options", "time_zone_id"),
    presumes=(
        "spark.sql.legacy.nullValueWrittenAsQuotedEmptyStringCsv",
        "spark.sql.legacy.timeParserPolicy",
    ),
)
def to_csv(expr: Expr, context: Context) -> ValueFunction:
    """One line per struct."""
    writing = csv_writing(expr, zone_for(expr, TIMESTAMP, context))

    def convert(array: pa.StructArray) -> pa.Array:
        fields = range(array.type.num_fields)
        columns = [_texts(field_of(array, at), writing) for at in fields]
        lines = [
            writing.lines.line(row) if ok else None
            for ok, row in zip(
                array.is_valid().to_pylist(), zip(*columns, strict=True), strict=True
            )
        ]
        return pa.array(lines, pa.string())

    return of_columns(convert)


def _texts(array: pa.Array, writing: CsvWriting) -> Texts:
    """Each value as Spark writes it, None for NULL."""
    dtype, times = array.type, writing.times
    if pa.types.is_list(dtype) or pa.types.is_map(dtype):
        lists = Lists.of(array)
        if pa.types.is_list(dtype):
            return _grouped(lists, _texts(lists.items, writing), ("[", "]"), writing)
        keys, values = (_texts(column, writing) for column in lists.items.flatten())
        pairs: Texts = [
            f"{key} ->{writing.null_inside if value is None else ' ' + value}"
            for key, value in zip(keys, values, strict=True)
        ]
        return _grouped(lists, pairs, ("{", "}"), writing)
    if pa.types.is_struct(dtype):
        columns = [_texts(field_of(array, at), writing) for at in range(len(dtype))]
        rows = zip(*columns, strict=True) if columns else ((),) * len(array)
        return [
            f"{{{_joined(row, writing)}}}" if ok else None
            for ok, row in zip(array.is_valid().to_pylist(), rows, strict=True)
        ]
    if pa.types.is_date32(dtype):
        return times.dates_of(array)
    if pa.types.is_timestamp(dtype):
        return times.timestamps_of(array)
    if pa.types.is_float32(dtype):
        casting = Casting(dtype, pa.string(), "LEGACY", "UTC")
        texts: Texts = floating_to_string(casting)(array).to_pylist()
        return texts
    write: Callable[[Any], str] = str
    if pa.types.is_float64(dtype):
        write = double_text
    elif pa.types.is_boolean(dtype):
        write = _boolean
    elif pa.types.is_binary(dtype):
        write = _bytes
    return [None if value is None else write(value) for value in to_list(array)]


def _grouped(lists: Lists, items: Texts, brackets: tuple[str, str], writing: CsvWriting) -> Texts:
    opening, closing = brackets
    spans = zip(lists.starts.tolist(), lists.lengths.tolist(), lists.valid.tolist(), strict=True)
    return [
        opening + _joined(items[start : start + length], writing) + closing if ok else None
        for start, length, ok in spans
    ]


def _joined(items: Iterable[str | None], writing: CsvWriting) -> str:
    """What stands in one array, map or struct: a blank is in front of all but the first, and in
    front of what NULL is written as, wherever it is."""
    parts = [
        writing.null_inside if item is None else f" {item}" if position else item
        for position, item in enumerate(items)
    ]
    return ",".join(parts)


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _bytes(value: bytes) -> str:
    return f"[{value.hex(' ').upper()}]"
