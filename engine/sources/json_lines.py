"""JSON lines as record batches: one object per line, read as Spark reads JSON.

There are two parsers. Arrow's is the fast one. It is used for a block only if each line is certain
to hold exactly one object; what it refuses is read again by the kernel of ``from_json``, with all
of Spark's rules: a number or an object becomes text in a STRING column, a decimal with too many
digits is rounded, ``"NaN"`` is a DOUBLE. What these rules refuse too is a bad record. So is what
Spark takes although it is no JSON: single quotes, or anything behind the object.

Unknown fields are ignored, missing ones are null. Field names are case-sensitive.
"""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa
import pyarrow.json

from engine.casts import json_reader
from engine.sources.line_formats import LineFormat
from engine.sources.written_types import from_written, with_binary_as_text, written_type

_FEW_BYTES: Final = 2_000
"""Arrow's parser takes some 300 µs for a single line, the other one a third: less latency."""


class JsonLines(LineFormat):
    """See the module."""

    def __init__(self, schema: pa.Schema, session_timezone: str) -> None:
        super().__init__(schema)
        self._session_timezone = session_timezone
        self._written = pa.schema([(field.name, written_type(field.type)) for field in schema])
        self._record = pa.struct(
            [pa.field(field.name, with_binary_as_text(field.type)) for field in schema]
        )
        self._arrow_can = not any(_needs_own_parser(field.type) for field in schema)
        json_reader(self._record, session_timezone)  # refuses what it cannot read

    def _parse(self, block: bytes, at_start: bool) -> pa.RecordBatch:
        few = len(block) < _FEW_BYTES
        written = self._parse_fast(block) if self._arrow_can and not few else None
        columns = self._parse_by_line(block) if written is None else written
        return pa.RecordBatch.from_arrays(
            [
                from_written(column, field.type, self._session_timezone)
                for column, field in zip(columns, self.schema, strict=True)
            ],
            schema=self.schema,
        )

    def _parse_fast(self, block: bytes) -> list[pa.Array] | None:
        block = block.replace(b"\r\n", b"\n") if b"\r" in block else block
        lines = block.count(b"\n")
        # Arrow's parser takes an object that spans lines and several on one line, and it crashes on
        # a line that is `null`. If every line break stands between } and {, it stands between two
        # objects; if there are then as many rows as lines, each line is one object.
        if not block.startswith(b"{") or block.count(b"}\n{") != lines - 1:
            return None
        try:
            block.decode("utf-8")  # which Arrow does not check
            table = pyarrow.json.read_json(
                pa.BufferReader(block),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block)),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=self._written, unexpected_field_behavior="ignore"
                ),
            )
        except (UnicodeDecodeError, pa.ArrowException):
            return None
        if table.num_rows != lines:
            return None
        return [table.column(name).combine_chunks() for name in self._written.names]

    def _parse_by_line(self, block: bytes) -> list[pa.Array]:
        lines = [line.strip() for line in block.decode("utf-8").split("\n")]
        records = [line for line in lines if line]
        for record in records:
            if not isinstance(json.loads(record), dict):
                raise ValueError(f"it holds {record[:40]} where an object is due")
        read = json_reader(self._record, self._session_timezone)
        return list(read(pa.array(records, pa.string())).flatten())


def _needs_own_parser(dtype: pa.DataType) -> bool:
    if pa.types.is_struct(dtype):
        return any(_needs_own_parser(field.type) for field in dtype)
    if pa.types.is_list(dtype):
        return _needs_own_parser(dtype.value_type)
    # Arrow's parser has no maps, and wraps around when a decimal has too many digits.
    return bool(pa.types.is_map(dtype) or pa.types.is_decimal(dtype))
