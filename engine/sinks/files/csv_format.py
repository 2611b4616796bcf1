"""CSV in the dialect of Spark's writer.

Values are trimmed. Null is nothing, the empty string two quotes. A quote inside of a value is
escaped with a backslash, and so is a backslash if the value is quoted. Timestamps are written in
the session's zone with three digits of their fraction: what is finer is lost, as in Spark. A very
small decimal has an exponent. A text that is no UTF-8 is as Java reads it.

Source: Spark's UnivocityGenerator; univocity's CsvWriter; Java's BigDecimal.toString.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.base.connector_options import Options
from engine.expressions.malformed import JAVA
from engine.expressions.types import TIMESTAMP
from engine.expressions.whole_columns import caster, date_formatter
from engine.sinks.files.file_formats import TextFormat
from engine.sinks.shown_texts import hex_text

_INSTANT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
_LOCAL: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS"
_BLANKS: Final = "".join(map(chr, range(33)))


class CsvFormat(TextFormat):
    def __init__(self, options: Options) -> None:
        super().__init__("csv", options)
        self._header = options.boolean("header", False)
        delimiter = options.character("delimiter", ",")
        self._separator = options.character("sep", delimiter)
        self._null = options.text("nullValue") or ""
        self._special = "|".join([re.escape(self._separator), '"', "\n", "\r"])

    def check(self, schema: pa.Schema) -> None:
        super().check(schema)
        for field in schema:
            if pa.types.is_nested(field.type):
                raise self.cannot_hold(field)

    def head(self, schema: pa.Schema) -> str:
        if not self._header:
            return ""
        names = [
            self._cells(pa.array([name]), first=not i)[0] for i, name in enumerate(schema.names)
        ]
        return self._separator.join(map(str, names)) + "\n"

    def lines(self, table: pa.Table) -> list[str]:
        columns: list[pa.Array] = []
        for column in table.columns:
            texts = _texts(column.combine_chunks(), self.timezone)
            columns.append(self._cells(texts, first=not columns))
        joined = pc.binary_join_element_wise(*columns, self._separator)
        return joined.to_pylist()  # type: ignore[no-any-return]

    def _cells(self, texts: pa.Array, *, first: bool) -> pa.Array:
        trimmed = pc.utf8_trim(texts, characters=_BLANKS)
        escaped = pc.replace_substring(trimmed, "\\", "\\\\")
        escaped = pc.replace_substring(escaped, '"', '\\"')
        quoted = pc.binary_join_element_wise('"', escaped, '"', "")
        # A line that began with # would be a comment.
        pattern = f"{self._special}|^#" if first else self._special
        special = pc.match_substring_regex(trimmed, pattern)
        empty = pc.equal(trimmed, "")
        cells = pc.if_else(pc.or_(special, empty), quoted, trimmed)
        return pc.fill_null(cells, self._null)


def _texts(column: pa.Array, session_timezone: str) -> pa.Array:
    dtype = column.type
    if pa.types.is_timestamp(dtype):
        if dtype.tz is not None:
            return date_formatter(_INSTANT, session_timezone)(column)
        # A local time is written as an instant is in the zone UTC.
        return date_formatter(_LOCAL, "UTC")(column.cast(TIMESTAMP))
    if pa.types.is_decimal(dtype) or pa.types.is_binary(dtype):
        write = str if pa.types.is_decimal(dtype) else hex_text
        values = [None if value is None else write(value) for value in column.to_pylist()]
        return pa.array(values, pa.string())
    return JAVA.of(caster(dtype, pa.string(), session_timezone)(column))
