"""Formats of text files of which each line is a record: a block of whole lines as a record batch.

=========  ==================================================================================
fileFormat
=========  ==================================================================================
json       one object per line, see :mod:`engine.sources.json_lines`
csv        RFC 4180 without line breaks inside of values: a quote inside of a quoted value is
           doubled. An unquoted empty value is null, a quoted one is an empty string.
text       one column, a string
=========  ==================================================================================

Lines end with ``\\n`` or ``\\r\\n``. Empty lines are skipped, except in text. A mark of the byte
order at the beginning of a file is no part of its first line.

Source: Hadoop's LineRecordReader.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from engine.base.sift import sift
from engine.errors import ConfigError, TransformError
from engine.expressions.types import sql_name
from engine.sources.written_types import from_written, written_type


class BadLineError(ValueError):
    """A line that cannot be parsed.

    :param position: its first byte within the block.
    :param line: the line, without its end.
    :param reason: what is wrong with it.
    """

    def __init__(self, position: int, line: bytes, reason: str) -> None:
        super().__init__(reason)
        self.position, self.line, self.reason = position, line, reason


class LineFormat(ABC):
    """Parses blocks of whole lines. Picklable.

    :param schema: of the batches.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def parse(
        self, block: bytes, *, at_start: bool
    ) -> tuple[pa.RecordBatch, Sequence[BadLineError]]:
        """The records of some lines, perhaps none; and the lines that cannot be parsed.

        :param block: ends with a line break.
        :param at_start: the block begins at the beginning of its file.
        """
        begin = len(BOM_UTF8) if at_start and block.startswith(BOM_UTF8) else 0
        block = block[begin:] if begin else block
        try:
            return self._parse(block, at_start), ()
        except _REFUSALS:
            batch, bad = self._sift(block, at_start)
        return batch, [BadLineError(begin + each.position, each.line, str(each)) for each in bad]

    @abstractmethod
    def prune(self, columns: Sequence[str]) -> LineFormat:
        """The same format with only these columns of the schema."""

    @abstractmethod
    def _parse(self, block: bytes, at_start: bool) -> pa.RecordBatch:
        """As :meth:`parse`; raises one of ``_REFUSALS`` for a bad line."""

    def _sift(self, block: bytes, at_start: bool) -> tuple[pa.RecordBatch, Sequence[BadLineError]]:
        lines = [line + b"\n" for line in block.split(b"\n")[:-1]]
        good, bad = sift(
            len(lines),
            lambda start, stop: self._parse(b"".join(lines[start:stop]), at_start and start == 0),
            _REFUSALS,
        )
        starts = list(accumulate(map(len, lines), initial=0))
        errors = [
            BadLineError(starts[index], lines[index].rstrip(b"\r\n"), str(exc))
            for index, exc in bad
        ]
        tables = pa.Table.from_batches(good, schema=self.schema).combine_chunks().to_batches()
        batch = tables[0] if tables else pa.RecordBatch.from_pylist([], schema=self.schema)
        return batch, errors


_REFUSALS = (ValueError, OverflowError, RecursionError, pa.ArrowException, TransformError)


class TextLines(LineFormat):
    """One column, a string."""

    def prune(self, columns: Sequence[str]) -> LineFormat:
        return self

    def _parse(self, block: bytes, at_start: bool) -> pa.RecordBatch:
        lines = block.decode("utf-8").split("\n")[:-1]
        if b"\r" in block:
            lines = [line.removesuffix("\r") for line in lines]
        return pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], schema=self.schema)


class CsvLines(LineFormat):
    """See the module.

    :param header: the first line of each file is not a record. Columns go by position all the same.
    :param null_value: what stands for null besides an unquoted empty value.
    :param written: the columns of the files, if these are more than those that are read.
    :param dialect: makes lines of another kind into these, in which, without a ``null_value``,
        nothing in quotes is null.
    """

    def __init__(
        self,
        schema: pa.Schema,
        session_timezone: str,
        *,
        header: bool,
        delimiter: str,
        null_value: str,
        written: pa.Schema | None = None,
        dialect: Callable[[bytes], bytes] | None = None,
    ) -> None:
        super().__init__(schema)
        self._dialect = dialect
        self._quoted_nulls = dialect is not None and not null_value
        self._written = schema if written is None else written
        for field in schema:
            if pa.types.is_nested(field.type) or pa.types.is_null(field.type):
                raise ConfigError(
                    f"A CSV file cannot hold the column {field.name} of type "
                    f"{sql_name(field.type)}.",
                    hint='Use option("fileFormat", "json").',
                )
        self._session_timezone = session_timezone
        self._header = header
        self._delimiter = delimiter
        self._nulls = ["", null_value] if null_value else [""]

    def prune(self, columns: Sequence[str]) -> LineFormat:
        return CsvLines(
            pa.schema([self.schema.field(name) for name in columns]),
            self._session_timezone,
            header=self._header,
            delimiter=self._delimiter,
            null_value=self._nulls[-1],
            written=self._written,
            dialect=self._dialect,
        )

    def _parse(self, block: bytes, at_start: bool) -> pa.RecordBatch:
        if self._header and at_start:
            block = block[block.index(b"\n") + 1 :]
        if self._dialect is not None:
            block = self._dialect(block)
        if not block.strip():
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        names = self.schema.names
        types = [_csv_type(field.type) for field in self.schema]
        table = pyarrow.csv.read_csv(
            pa.BufferReader(block),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(block), column_names=self._written.names
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=self._delimiter),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict(zip(names, types, strict=True)),
                include_columns=names,
                null_values=self._nulls,
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=self._quoted_nulls,
            ),
        )
        if b'"' in block:
            for column in table.columns:
                if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
                    _refuse_line_breaks(column)
        columns = [
            from_written(column.combine_chunks(), field.type, self._session_timezone)
            if not pa.types.is_binary(field.type)
            else column.combine_chunks()
            for column, field in zip(table.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _refuse_line_breaks(column: pa.ChunkedArray) -> None:
    # An open quote swallows the lines that follow.
    if pc.any(pc.match_substring(column, "\n")).as_py():
        raise ValueError("a quoted value is not closed on its line")


def _csv_type(dtype: pa.DataType) -> pa.DataType:
    return dtype if pa.types.is_binary(dtype) else written_type(dtype)
