"""The format of a snapshot: one Arrow IPC file, which any reader of Arrow opens.

The file has one column for each table, ``<stage>.<table>``, a list of structs: the table's rows.
Mostly there is one row; a table in several chunks takes several. What the file is stands in the
schema's metadata, under ``snapshot``, as JSON::

    {"version":1,"query_id":"...","stage":1,"first_group":0,"end_group":64,"epoch":7,
     "generation":2,"watermark_ms":1795174660561,
     "chain":[{"file":"state/1/5-2-0-63-1f2e3d4c.arrow","checksum":"...","nbytes":9,"rows":3}, ...],
     "tables":[{"stage":"windows","name":"groups","keys":2,"expires":1}, ...]}

``chain`` names the files before it, the oldest first, back to a whole snapshot, which has none.
Each is named with its checksum, so that the checksum of the newest vouches for all of them.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, Final

import pyarrow as pa

from engine.base.json_text import dump, load_object
from engine.errors import CheckpointVersionError
from engine.state.contract import StateTable

VERSION: Final = 1
Content = bytes | mmap.mmap
_METADATA: Final = b"snapshot"
_MAGIC: Final = b"ARROW1\0\0"
_CHECKSUM_BYTES: Final = 16
_BATCH_ROWS_MIN: Final = 1_000
"""Smaller batches are put together, for each has its price when it is read."""


@dataclass(frozen=True)
class Link:
    """One file of a chain.

    :param file: relative to the checkpoint.
    :param rows: in all of its tables.
    """

    file: str
    checksum: str
    nbytes: int
    rows: int


@dataclass(frozen=True)
class TableHead:
    """What a file tells of a table, see :class:`engine.state.contract.StateTable`.

    :param stage: the name of the stage that owns it.
    """

    stage: str
    name: str
    keys: int
    expires: int | None = None

    @classmethod
    def of(cls, stage: str, table: StateTable) -> TableHead:
        """Of the table of a stage."""
        return cls(stage, table.name, table.keys, table.expires)

    def __str__(self) -> str:
        return f"{self.stage}.{self.name}"


@dataclass(frozen=True)
class Header:
    """What a file is, see the module.

    :param watermark_ms: what it has closed is gone.
    :param chain: the files before, the oldest first; empty: the file is a whole snapshot.
    """

    query_id: str
    stage: int
    first_group: int
    end_group: int
    epoch: int
    generation: int
    watermark_ms: int
    chain: tuple[Link, ...]
    tables: tuple[TableHead, ...]

    def to_json(self) -> dict[str, Any]:
        """With the version of the format."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Header:
        """:raises ValueError: it is none.
        :raises CheckpointVersionError: of a newer format.
        """
        try:
            version, fields = given["version"], {**given}
            if version > VERSION:
                raise CheckpointVersionError(
                    f"The format of the snapshot is version {version}, and version {VERSION} is "
                    "the newest that is known here.",
                    hint="Run the query with the engine that has written it, or a newer one.",
                )
            del fields["version"]
            fields["chain"] = tuple(Link(**each) for each in fields["chain"])
            fields["tables"] = tuple(TableHead(**each) for each in fields["tables"])
            return cls(**fields)
        except (KeyError, TypeError) as exc:
            raise ValueError(f"its header cannot be read: {exc!r}") from exc


def checksum_of(data: Content) -> str:
    """Of a whole file: BLAKE2b, in hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).hexdigest()


def encode(header: Header, tables: Sequence[pa.Table]) -> bytes:
    """A file.

    :param tables: as long as ``header.tables``.
    """
    fields = [
        pa.field(str(head), pa.list_(pa.struct(list(table.schema))))
        for head, table in zip(header.tables, tables, strict=True)
    ]
    schema = pa.schema(fields, metadata={_METADATA: dump(header.to_json())})
    file = pa.BufferOutputStream()
    with pa.ipc.new_file(file, schema) as writer:
        for parts in zip_longest(*map(_in_few_batches, tables)):
            columns = [_as_list(part, each.type) for part, each in zip(parts, fields, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    data: bytes = file.getvalue().to_pybytes()
    return data


def _in_few_batches(table: pa.Table) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = table.to_batches()
    if len(batches) * _BATCH_ROWS_MIN <= table.num_rows:
        return batches
    whole: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return whole


def decode(data: Content) -> tuple[Header, list[pa.Table]]:
    """What :func:`encode` got; the tables look into ``data``.

    :raises ValueError: it is no such file.
    :raises CheckpointVersionError: of a newer format.
    """
    reader = _open(data)
    header = _header(reader.schema)
    batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
    return header, [
        _as_table(field, [batch.column(index) for batch in batches])
        for index, field in enumerate(reader.schema)
    ]


def header_of(data: Content) -> Header:
    """As :func:`decode`, and the rows are not looked at: they may be damaged."""
    return _header(_open(data).schema)


def head_of(beginning: bytes) -> tuple[Header, list[pa.Schema]]:
    """What a file is, and the schemas of its tables; as :func:`decode`.

    :param beginning: of the file, with its schema, which comes first.
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(beginning[len(_MAGIC) :]))
    except (pa.ArrowException, OSError) as exc:
        raise ValueError(f"it is no Arrow IPC file: {exc}") from exc
    return _header(schema), [pa.schema(list(field.type.value_type)) for field in schema]


def _open(data: Content) -> pa.ipc.RecordBatchFileReader:
    try:
        return pa.ipc.open_file(pa.py_buffer(data))
    except (pa.ArrowException, OSError) as exc:
        raise ValueError(f"it is no Arrow IPC file: {exc}") from exc


def _header(schema: pa.Schema) -> Header:
    metadata = schema.metadata or {}
    return Header.from_json(load_object(metadata.get(_METADATA, b"")))


def _as_list(part: pa.RecordBatch | None, dtype: pa.DataType) -> pa.Array:
    """One value: the rows; null for none."""
    if part is None:
        return pa.nulls(1, dtype)
    offsets = pa.array([0, part.num_rows], pa.int32())
    return pa.ListArray.from_arrays(offsets, part.to_struct_array(), type=dtype)


def _as_table(field: pa.Field, chunks: Sequence[pa.ListArray]) -> pa.Table:
    schema = pa.schema(list(field.type.value_type))
    parts = [
        pa.RecordBatch.from_arrays(chunk.flatten().flatten(), schema=schema) for chunk in chunks
    ]
    return pa.Table.from_batches(parts, schema)
