"""From a file to record batches, as Spark reads it.

Parquet and ORC go by the names of columns, in any case; a column that a file lacks is null. Numbers
widen. JSON and CSV are read by the lines of :mod:`engine.sources.line_formats`; what these refuse
is read again value by value, and what does not fit is null, as in Spark's mode ``PERMISSIVE``.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet as pq

from engine.errors import BadRecordError, SourceError, TransformError
from engine.expressions.json.json_records import RecordReader
from engine.expressions.record_times import RecordTimes
from engine.expressions.times.zones import zone
from engine.expressions.types import sql_name
from engine.redaction.logs import shown
from engine.sources.files.csv_dialect import CsvDialect
from engine.sources.json_lines import JsonLines
from engine.sources.line_formats import BadLineError, CsvLines, LineFormat, TextLines
from engine.sources.tail.tail_offset import shown_name
from engine.sources.written_types import from_written, written_type

ROWS: Final = 16_384
"""Of one batch."""
BLOCK_BYTES: Final = 1 << 20
_LONE_RETURN: Final = re.compile(rb"\r(?!\n)")
"""Ends a line, as Hadoop has it."""
_BLANKS: Final = "".join(map(chr, range(33)))
"""What Java trims."""
_NOT_UNPACKED: Final = (".snappy", ".deflate")
"""Hadoop's own: their bytes would be taken for lines."""
_CODECS: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
"""By the end of a file's name."""
PERMISSIVE, DROP, FAIL = "permissive", "dropmalformed", "failfast"
MODES: Final = (PERMISSIVE, DROP, FAIL)
Content: TypeAlias = pa.RecordBatch | BadRecordError


class FileFormat(ABC):
    """Picklable."""

    @abstractmethod
    def batches(self, path: str, schema: pa.Schema, told: Collection[str]) -> Iterator[Content]:
        """The records of one file, with these columns.

        :param told: columns that are not in the file, because its folder tells them.
        :raises FileNotFoundError: there is no such file.
        :raises SourceError: it is none of this format, or its columns are of other types.
        """


# -- files with columns ---------------------------------------------------------------------------


class ColumnFormat(FileFormat):
    """A format whose files tell their columns."""

    name: str

    def open(self, path: str) -> Any:
        """The file.

        :raises FileNotFoundError: there is none.
        """
        return pa.OSFile(os.fsencode(path))

    def batches(self, path: str, schema: pa.Schema, told: Collection[str]) -> Iterator[Content]:
        try:
            with self.open(path) as file:
                if not file.size():  # Spark reads nothing of an empty file
                    return
                there, read = self._open(file)
                names = _by_name(there, schema, path)
                for batch in read([name for name in names if name is not None]):
                    yield _as_wanted(batch, names, schema, path)
        except pa.ArrowException as exc:
            raise self._unreadable(path, exc) from exc

    def _unreadable(self, path: str, cause: Exception) -> SourceError:
        return SourceError(
            f"Source files: {shown_name(path)} cannot be read as {self.name}: {cause}",
            hint="It is damaged, or no such file. Files must be moved into the folder when "
            "they are whole. Move it away to go on without it.",
        )

    @abstractmethod
    def _open(
        self, file: pa.NativeFile
    ) -> tuple[pa.Schema, Callable[[list[str]], Iterator[pa.RecordBatch]]]:
        """Its columns, and what reads some of them."""


class ParquetFiles(ColumnFormat):
    name = "parquet"

    def _open(self, file: Any) -> Any:
        # Spark's own writer makes INT96 of them, which reach further than nanoseconds do.
        found = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")

        def read(names: list[str]) -> Iterator[pa.RecordBatch]:
            yield from found.iter_batches(ROWS, columns=names, use_threads=False)

        return found.schema_arrow, read


class OrcFiles(ColumnFormat):
    name = "orc"

    def batches(self, path: str, schema: pa.Schema, told: Collection[str]) -> Iterator[Content]:
        try:
            yield from super().batches(path, schema, told)
        except FileNotFoundError:
            raise
        except OSError as exc:  # so it refuses what is damaged
            raise self._unreadable(path, exc) from exc

    def _open(self, file: Any) -> Any:
        found = pyarrow.orc.ORCFile(file)

        def read(names: list[str]) -> Iterator[pa.RecordBatch]:
            for stripe in range(found.nstripes):
                batch = found.read_stripe(stripe, columns=names or None)
                for start in range(0, batch.num_rows, ROWS):
                    yield batch.slice(start, ROWS)

        return found.schema, read


def _by_name(there: pa.Schema, schema: pa.Schema, path: str) -> list[str | None]:
    """The file's name of each column; None for one that it lacks."""
    exact, lower = set(there.names), [name.lower() for name in there.names]
    found: list[str | None] = []
    for name in schema.names:
        alike = [at for at, each in enumerate(lower) if each == name.lower()]
        if name not in exact and len(alike) > 1:
            raise SourceError(
                f"Source files: {shown_name(path)} has {len(alike)} columns that could be {name}: "
                f"{', '.join(there.names[at] for at in alike)}."
            )
        found.append(name if name in exact else there.names[alike[0]] if alike else None)
    return found


def _as_wanted(
    batch: pa.RecordBatch, names: Sequence[str | None], schema: pa.Schema, path: str
) -> pa.RecordBatch:
    columns = []
    for name, field in zip(names, schema, strict=True):
        if name is None:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        try:
            columns.append(_widened(batch.column(name), field.type))
        except (pa.ArrowException, TypeError) as exc:
            raise SourceError(
                f"Source files: the column {name} of {shown_name(path)} is "
                f"{batch.column(name).type}, and the query's schema has {sql_name(field.type)}: "
                f"{exc}.",
                hint="Correct the schema that the stream is read with, or move the file away.",
            ) from exc
    if not columns:  # made of none it would have no rows
        return batch.select([])
    return pa.RecordBatch.from_arrays(columns, schema=_nullable(schema))


def _nullable(schema: pa.Schema) -> pa.Schema:
    """A file may lack anything: to Spark, too, all columns of files are nullable."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _widened(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    """:raises TypeError: Spark would not read it so either."""
    if array.type == dtype:
        return array
    if pa.types.is_dictionary(array.type):
        return _widened(array.dictionary_decode(), dtype)
    if pa.types.is_struct(dtype) and pa.types.is_struct(array.type):
        there = {each.name.lower(): at for at, each in enumerate(array.type)}
        parts = array.flatten()
        fields = [
            _widened(parts[there[each.name.lower()]], each.type)
            if each.name.lower() in there
            else pa.nulls(len(array), each.type)
            for each in dtype
        ]
        return pa.StructArray.from_arrays(fields, fields=list(dtype), mask=pc.is_null(array))
    if not any(is_one(array.type) and is_other(dtype) for is_one, is_other in _WIDENS):
        raise TypeError("it does not become that")
    return array.cast(dtype)


def _is_text(dtype: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(dtype)
        or types.is_large_string(dtype)
        or types.is_binary(dtype)
        or types.is_large_binary(dtype)
        or types.is_fixed_size_binary(dtype)
        or types.is_string_view(dtype)
        or types.is_binary_view(dtype)
    )


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype))


_WIDENS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], bool]], ...]] = (
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_integer, pa.types.is_float64),
    (pa.types.is_integer, pa.types.is_decimal),
    (pa.types.is_floating, pa.types.is_float64),
    (pa.types.is_decimal, pa.types.is_decimal),
    (pa.types.is_timestamp, pa.types.is_timestamp),
    (pa.types.is_date, pa.types.is_timestamp),
    (pa.types.is_date, pa.types.is_date),
    (_is_text, _is_text),
    (_is_list, _is_list),
    (pa.types.is_map, pa.types.is_map),
    (pa.types.is_null, lambda dtype: True),
)


# -- files of lines -------------------------------------------------------------------------------


@dataclass(frozen=True)
class LineFiles(FileFormat):
    """A format whose files are lines.

    :param kind: ``json``, ``csv`` or ``text``.
    :param corrupt: the column for a line that does not fit, if the query's schema has it.
    :param written: of CSV: all columns, which go by their places in the files.
    """

    kind: str
    timezone: str
    mode: str = PERMISSIVE
    corrupt: str = "_corrupt_record"
    header: bool = False
    delimiter: str = ","
    null_value: str = ""
    escape: str = "\\"
    written: tuple[str, ...] = ()

    def batches(self, path: str, schema: pa.Schema, told: Collection[str]) -> Iterator[Content]:
        written = [each for each in self.written if each not in told and each != self.corrupt]
        if not schema.names:  # the lines count all the same
            any_one = pa.schema([pa.field(written[0] if written else "\0", pa.string())])
            for content in self.batches(path, any_one, told):
                yield content.select([]) if isinstance(content, pa.RecordBatch) else content
            return
        lines = self._lines(schema, written)
        at_start = True
        for position, block in _blocks(path):
            batch, bad = lines.parse(block, at_start=at_start)
            at_start = False
            yield _with_nulls(batch, schema)
            if bad:
                yield from self._sorted(bad, written, lines.schema, schema, path, position)

    @property
    def _dialect(self) -> CsvDialect:
        return CsvDialect(self.delimiter, self.escape, self.null_value)

    def _lines(self, schema: pa.Schema, written: Sequence[str]) -> LineFormat:
        if self.kind == "text":
            return TextLines(schema)
        columns = _nullable(pa.schema([f for f in schema if f.name != self.corrupt]))
        if self.kind == "json":
            return JsonLines(columns, self.timezone)
        types = {field.name: field.type for field in columns}
        return CsvLines(
            columns,
            self.timezone,
            header=self.header,
            delimiter=self.delimiter,
            null_value=self.null_value,
            written=pa.schema([pa.field(n, types.get(n, pa.string())) for n in written]),
            dialect=self._dialect,
        )

    def _sorted(
        self,
        bad: Sequence[BadLineError],
        written: Sequence[str],
        columns: pa.Schema,
        schema: pa.Schema,
        path: str,
        position: int,
    ) -> Iterator[Content]:
        """What the mode makes of lines that were refused, of which Spark takes some all the same.

        :param columns: without the one for such lines; ``position`` is where their block begins.
        """
        rows = []
        for each in bad:
            text = each.line.decode("utf-8", "replace")
            row, fits = self._row(text, written, columns)
            if fits or self.mode == PERMISSIVE:
                rows.append({**row, self.corrupt: None if fits else text})
            elif self.mode == FAIL:
                yield _bad_record(path, position, each)
        arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=_nullable(schema))

    def _row(
        self, text: str, written: Sequence[str], columns: pa.Schema
    ) -> tuple[Mapping[str, Any], bool]:
        """What can be read of a line, and whether that is all. Values are as Arrow makes an array
        of them: Python has no times beyond the year 9999."""
        if self.kind == "text":
            return {columns.names[0]: text}, True
        if self.kind == "csv":
            return self._csv_row(text, written, columns)
        row, fits = RecordReader(RecordTimes(zone(self.timezone))).read(
            text, pa.struct(list(columns))
        )
        found = dict(row or {})
        for name in found:  # as files are read, where it can be
            lines = JsonLines(pa.schema([columns.field(name)]), self.timezone)
            batch, bad = lines.parse(text.encode() + b"\n", at_start=False)
            if not bad and batch.num_rows == 1:
                found[name] = batch.column(0)[0]
        return found, fits

    def _csv_row(
        self, text: str, written: Sequence[str], columns: pa.Schema
    ) -> tuple[Mapping[str, Any], bool]:
        values = self._dialect.values(text)
        found = dict(zip(written, values, strict=False))
        row: dict[str, Any] = {}
        fits = len(values) == len(written)
        for field in columns:
            value = found.get(field.name)
            row[field.name] = None if value is None else self._value(value, field.type)
            fits = fits and (value is None or row[field.name] is not None)
        return row, fits

    def _value(self, text: str, dtype: pa.DataType) -> Any:
        """None if it is none of that type."""
        # As Java has numbers, and Arrow not.
        if pa.types.is_floating(dtype):
            text = text.strip(_BLANKS)
        if pa.types.is_integer(dtype) or pa.types.is_floating(dtype):
            text = text.removeprefix("+") if text[1:2].isdigit() else text
        try:
            written = pa.array([text]).cast(written_type(dtype))
            found = from_written(written, dtype, self.timezone)[0]
            return found if found.is_valid else None
        except (pa.ArrowException, ValueError, TransformError):
            return None


def _with_nulls(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """With the column for lines that do not fit, which is null in those that do."""
    arrays = [
        batch.column(field.name)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_nullable(schema))


def _blocks(path: str) -> Iterator[tuple[int, bytes]]:
    """Whole lines, and where they begin in what is perhaps compressed."""
    if path.endswith(_NOT_UNPACKED):
        raise SourceError(
            f"Source files: {shown_name(path)} is compressed as it is not unpacked here.",
            hint="Have such files written with gzip, bzip2 or zstd. Move it away to go on without "
            "it.",
        )
    try:
        with pa.input_stream(
            pa.OSFile(os.fsencode(path)),
            compression=_CODECS.get(path.rpartition(".")[2]),
            buffer_size=BLOCK_BYTES,
        ) as file:
            position, rest = 0, b""
            while data := file.read(BLOCK_BYTES):
                rest += data
                end = rest.rfind(b"\n") + 1
                if end:
                    yield position, _lines_of(rest[:end])
                    position, rest = position + end, rest[end:]
            if rest:
                yield position, _lines_of(rest + b"\n")
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as exc:
        raise SourceError(
            f"Source files: {shown_name(path)} cannot be read: {exc}",
            hint="It is damaged. Move it away to go on without it.",
        ) from exc


def _lines_of(block: bytes) -> bytes:
    """With the ends that Hadoop knows, of as many bytes."""
    return _LONE_RETURN.sub(b"\n", block) if b"\r" in block else block


def _bad_record(path: str, position: int, bad: BadLineError) -> BadRecordError:
    at = position + bad.position
    record = bad.line.decode("utf-8", "backslashreplace")
    return BadRecordError(
        f"Source files: the line at byte {at} of {shown_name(path)} cannot be read: {bad.reason}. "
        f"The line is: {shown(record)}",
        hint="Correct or remove the file, or set option mode to PERMISSIVE.",
        record=record,
        offset={"file": shown_name(path), "position": at + len(bad.line) + 1},
    )
