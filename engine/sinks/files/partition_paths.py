"""The folders of ``partitionBy``: rows by their partition values, and ``column=value/`` names.

Source: Spark's ExternalCatalogUtils.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.java_utf8 import decoded
from engine.expressions.whole_columns import caster

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED: Final = {
    ord(char): f"%{ord(char):02X}" for char in [*map(chr, range(1, 32)), *"\"#%'*/:=?\\\x7f{[]^"]
}


def escape(text: str) -> str:
    """A column name or a value as a part of a path."""
    return text.translate(_ESCAPED)


def folder_of(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """``a=1/b=x``; null and the empty string are the default partition."""
    return "/".join(
        f"{escape(column)}={escape(value) if value else DEFAULT_PARTITION}"
        for column, value in zip(columns, values, strict=True)
    )


def split(
    table: pa.Table, columns: Sequence[str], session_timezone: str
) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
    """The table's parts, each with its partition values as text and without their columns, in the
    order in which the values first occur. Rows keep their order. The empty string is null. Values
    that differ only in bytes which are no UTF-8 become the same text, and have a part each."""
    if not table.num_rows:
        return
    rest = table.drop_columns(list(columns))
    texts = [_text(table.column(column), session_timezone) for column in columns]
    for rows in grouped([pc.fill_null(text, "") for text in texts]):
        first = int(rows[0])
        yield tuple(_value(text[first]) or None for text in texts), rest.take(rows)


def grouped(columns: Sequence[pa.ChunkedArray]) -> Iterator[Any]:
    """The numbers of the rows that have the same values in all columns, of which there is one at
    least, group by group: in the order in which these values first occur, and of the rows."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        # Renumbered after each column, so that the product never overflows.
        codes = np.unique(codes, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    parts = np.split(order, starts[1:])
    yield from sorted(parts, key=lambda rows: int(rows[0]))


def _value(text: pa.Scalar) -> str | None:
    """What Spark makes of it: bytes that are no UTF-8 are replaced."""
    octets = text.as_buffer()
    return None if octets is None else decoded(octets.to_pybytes())


def _text(column: Any, session_timezone: str) -> pa.ChunkedArray:
    if pa.types.is_string(column.type):
        return column
    cast = caster(column.type, pa.string(), session_timezone)
    return pa.chunked_array([cast(chunk) for chunk in column.chunks], pa.string())
