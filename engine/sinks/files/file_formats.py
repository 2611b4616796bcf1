"""Formats of data files: how rows become the bytes of one file.

Each is Spark's own, so that what Spark reads is what was written: Parquet with Spark's schema in
its footer; JSON lines as ``to_json`` writes them; CSV in :mod:`engine.sinks.files.csv_format`.

Source: Spark's ParquetWriteSupport.
"""

from __future__ import annotations

import gzip
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from typing import IO, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from engine.base.connector_options import SESSION_TIMEZONE, Options
from engine.errors import ConfigError
from engine.expressions.hidden_nulls import settled
from engine.expressions.types import has_variant, schema_to_spark, sql_name
from engine.expressions.whole_columns import json_writer

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
TEXT_CODECS: Final = {"none": "", "uncompressed": "", "gzip": ".gz"}


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
                raise self.cannot_hold(field)

    def cannot_hold(self, field: pa.Field) -> ConfigError:
        """The error for a column of a type that the format does not have."""
        return ConfigError(
            f"A {self.extension.strip('.')} file cannot hold the column {field.name} of type "
            f"{sql_name(field.type)}.",
            hint="Cast it, for example with to_json(...), or choose another format.",
        )


class ParquetFormat(FileFormat):
    """
    :param codec: if the option does not say.
    """

    def __init__(self, options: Options, codec: str = "snappy") -> None:
        codec = options.choice("compression", codec, tuple(_PARQUET_CODECS))
        self._codec, name = _PARQUET_CODECS[codec]
        self.extension = f"{name}.parquet"

    def check(self, schema: pa.Schema) -> None:
        super().check(schema)
        for field in schema:
            if _has_empty_struct(field.type) or has_variant(field.type):
                raise self.cannot_hold(field)

    def plain(self, file: IO[bytes], schema: pa.Schema) -> pq.ParquetWriter:
        """Begin a file that says nothing of Spark."""
        return _ParquetWriter(
            file,
            schema,
            compression=self._codec,
            store_schema=False,
            write_statistics=_with_statistics(schema),
        )

    def encoder(self, file: IO[bytes], schema: pa.Schema) -> Encoder:
        writer = self.plain(file, schema)
        # What Parquet's own types do not tell: day-time intervals, for one.
        writer.add_key_value_metadata({_ROW_METADATA: _sparks_schema(schema)})
        encoder: Encoder = writer
        return encoder


class _ParquetWriter(pq.ParquetWriter):  # type: ignore[misc]
    def write_table(self, table: pa.Table, row_group_size: int | None = None) -> None:
        """Arrow counts NULLs that are hidden, and refuses them where a field is NOT NULL."""
        columns = [settled(column) for column in table.columns]
        super().write_table(pa.Table.from_arrays(columns, schema=table.schema), row_group_size)


def _has_empty_struct(dtype: pa.DataType) -> bool:
    """Of which Parquet would have no column."""
    if not pa.types.is_nested(dtype):
        return False
    inner = [dtype.field(at).type for at in range(dtype.num_fields)]
    return (pa.types.is_struct(dtype) and not inner) or any(map(_has_empty_struct, inner))


@lru_cache(maxsize=8)
def _sparks_schema(schema: pa.Schema) -> str:
    return json.dumps(schema_to_spark(schema), separators=(",", ":"), ensure_ascii=False)


@lru_cache(maxsize=8)
def _with_statistics(schema: pa.Schema) -> list[str]:
    """The columns whose least and greatest values a file tells. Not those with NaN: to Spark it is
    greater than all others, and Arrow leaves it out, so that a filter would pass over its rows."""
    return [path for field in schema for path in _ordered(field, field.name)]


def _ordered(field: pa.Field, path: str) -> Iterator[str]:
    if pa.types.is_struct(field.type):
        for each in field.type:
            yield from _ordered(each, f"{path}.{each.name}")
    elif not pa.types.is_floating(field.type) and not pa.types.is_nested(field.type):
        yield path


class TextFormat(FileFormat):
    """Lines of text.

    :param name: the extension.
    """

    def __init__(self, name: str, options: Options) -> None:
        compression = options.choice("compression", "none", tuple(TEXT_CODECS))
        session_timezone = options.text(SESSION_TIMEZONE) or "UTC"
        self.timezone = options.text("timeZone") or session_timezone
        self.extension = f".{name}{TEXT_CODECS[compression]}"

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
    def __init__(self, text_format: TextFormat, file: Any, schema: pa.Schema) -> None:
        self._format, self._file = text_format, file
        file.write(text_format.head(schema).encode("utf-8"))

    def write_table(self, table: pa.Table) -> None:
        self._file.write("".join(f"{line}\n" for line in self._format.lines(table)).encode("utf-8"))

    def close(self) -> None:
        if isinstance(self._file, gzip.GzipFile):
            self._file.close()


class JsonFormat(TextFormat):
    def __init__(self, options: Options) -> None:
        super().__init__("json", options)

    def check(self, schema: pa.Schema) -> None:
        super().check(schema)
        json_writer(pa.struct(list(schema)), self.timezone)

    def lines(self, table: pa.Table) -> list[str]:
        records = table.to_struct_array().combine_chunks()
        return json_writer(records.type, self.timezone)(records).to_pylist()  # type: ignore[no-any-return]
