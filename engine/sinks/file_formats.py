"""Formats of data files: how rows become the bytes of one file.

Each is Spark's own, so that what Spark reads is what was written: Parquet with Spark's schema in
its footer; JSON lines; CSV in the dialect of Spark's writer, which trims values, escapes with a
backslash, and writes null as nothing and the empty string as two quotes.

Source: Spark's ParquetWriteSupport, JacksonGenerator and UnivocityGenerator.
"""

from __future__ import annotations

import gzip
import json
import re
from abc import ABC, abstractmethod
from typing import IO, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import ConfigError
from engine.expressions.types import schema_to_spark, sql_name
from engine.options import SESSION_TIMEZONE, Options
from engine.sinks.texts import hex_of
from engine.sinks.written_text import JsonTexts, plain_texts

_ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_PARQUET_CODECS: Final = {  # option → (Arrow's name, part of the file's name)
    "snappy": ("snappy", ".snappy"),
    "none": ("none", ""),
    "uncompressed": ("none", ""),
    "gzip": ("gzip", ".gz"),
    "zstd": ("zstd", ".zstd"),
    "lz4_raw": ("lz4", ".lz4raw"),
    "brotli": ("brotli", ".br"),
}
_TEXT_CODECS: Final = {"none": "", "uncompressed": "", "gzip": ".gz"}


class Encoder(Protocol):
    """Writes one file."""

    def write_table(self, table: pa.Table) -> None: ...
    def close(self) -> None:
        """Write what is still held back. The file itself stays open."""


class FileFormat(ABC):
    """One format with its options. Picklable.

    :ivar extension: the end of a file's name, with the dots.
    """

    extension: str

    @abstractmethod
    def encoder(self, file: IO[bytes], schema: pa.Schema) -> Encoder:
        """Begin a file."""

    def check(self, schema: pa.Schema) -> None:
        """:raises ConfigError: a column cannot be written."""
        for field in schema:
            if pa.types.is_null(field.type):
                raise self._cannot_hold(field)

    def _cannot_hold(self, field: pa.Field) -> ConfigError:
        return ConfigError(
            f"A {self.extension.strip('.')} file cannot hold the column {field.name} of type "
            f"{sql_name(field.type)}.",
            hint="Cast it, for example with to_json(...), or choose another format.",
        )


class ParquetFormat(FileFormat):
    def __init__(self, options: Options) -> None:
        codec = options.choice("compression", "snappy", tuple(_PARQUET_CODECS))
        self._codec, name = _PARQUET_CODECS[codec]
        self.extension = f"{name}.parquet"

    def encoder(self, file: IO[bytes], schema: pa.Schema) -> Encoder:
        writer = pq.ParquetWriter(file, schema, compression=self._codec, store_schema=False)
        # What Parquet's own types do not tell: day-time intervals, for one.
        sparks = json.dumps(schema_to_spark(schema), separators=(",", ":"), ensure_ascii=False)
        writer.add_key_value_metadata({_ROW_METADATA: sparks})
        encoder: Encoder = writer
        return encoder


class _TextFormat(FileFormat):
    def __init__(self, name: str, options: Options) -> None:
        compression = options.choice("compression", "none", tuple(_TEXT_CODECS))
        session_timezone = options.text(SESSION_TIMEZONE) or "UTC"
        self.timezone = options.text("timeZone") or session_timezone
        self.extension = f".{name}{_TEXT_CODECS[compression]}"

    def encoder(self, file: IO[bytes], schema: pa.Schema) -> Encoder:
        compressed = self.extension.endswith(".gz")
        return _TextEncoder(
            self, gzip.GzipFile(fileobj=file, mode="wb") if compressed else file, schema
        )

    def head(self, schema: pa.Schema) -> str:
        """What a file begins with."""
        return ""

    @abstractmethod
    def lines(self, table: pa.Table) -> list[str]:
        """The rows."""


class _TextEncoder:
    def __init__(self, text_format: _TextFormat, file: Any, schema: pa.Schema) -> None:
        self._format, self._file = text_format, file
        file.write(text_format.head(schema).encode("utf-8"))

    def write_table(self, table: pa.Table) -> None:
        self._file.write("".join(f"{line}\n" for line in self._format.lines(table)).encode("utf-8"))

    def close(self) -> None:
        if isinstance(self._file, gzip.GzipFile):
            self._file.close()


class JsonFormat(_TextFormat):
    def __init__(self, options: Options) -> None:
        super().__init__("json", options)

    def lines(self, table: pa.Table) -> list[str]:
        texts = JsonTexts(self.timezone)
        columns = [texts.of(_whole(column)) for column in table.columns]
        names = table.column_names
        rows = zip(*columns, strict=True) if columns else [()] * table.num_rows
        return [texts.struct_text(names, row) for row in rows]


class CsvFormat(_TextFormat):
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
                raise self._cannot_hold(field)

    def head(self, schema: pa.Schema) -> str:
        if not self._header:
            return ""
        names = [
            self._cells(pa.array([name]), first=not i)[0] for i, name in enumerate(schema.names)
        ]
        return self._separator.join(map(str, names)) + "\n"

    def lines(self, table: pa.Table) -> list[str]:
        texts = JsonTexts(self.timezone)
        columns: list[pa.Array] = []
        for column in map(_whole, table.columns):
            if pa.types.is_binary(column.type):
                values = [None if each is None else hex_of(each) for each in column.to_pylist()]
            else:
                values = plain_texts(texts, column)
            columns.append(self._cells(pa.array(values, pa.string()), first=not columns))
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


_BLANKS: Final = "".join(map(chr, range(33)))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
