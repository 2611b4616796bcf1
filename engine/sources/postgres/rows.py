"""The rows of a table and of its changes, from PostgreSQL's texts to Arrow.

==============================  ============================================================
column
==============================  ============================================================
``_op``                         ``snapshot``, ``insert``, ``update``, ``delete``, ``truncate``
``_lsn``                        of the transaction's commit; of a snapshot where it was taken
``_xid``                        the transaction's number; null in a snapshot
``_committed_at``               null in a snapshot
``_unchanged``                  with ``unavailableValues`` ``null``: names of columns whose
                                value was not sent
the table's                     of a delete those that the replica identity has, of a truncate
                                none
==============================  ============================================================

What has no type of its own below is a STRING, as PostgreSQL writes it: json, uuid, enumerations,
intervals, arrays, numeric without a precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ

OWNER: Final = "source postgres"
BYTEA: Final = 17
_TYPES: Final = {
    16: pa.bool_(),
    21: pa.int16(),
    23: pa.int32(),
    20: pa.int64(),
    700: pa.float32(),
    701: pa.float64(),
    BYTEA: pa.binary(),
    1082: pa.date32(),
    1114: TIMESTAMP_NTZ,
    1184: TIMESTAMP,
}
_NUMERIC: Final = 1700
UNCHANGED_COLUMN: Final = "_unchanged"
CHANGE_COLUMNS: Final = {
    "_op": pa.string(),
    "_lsn": pa.int64(),
    "_xid": pa.int64(),
    "_committed_at": TIMESTAMP,
}


@dataclass(frozen=True)
class TableColumn:
    """
    :param in_key: of the primary key, or of the index that is the replica identity.
    """

    name: str
    type_oid: int
    type_modifier: int
    in_key: bool

    @property
    def type(self) -> pa.DataType:
        return arrow_type(self.type_oid, self.type_modifier)


@dataclass
class Row:
    """
    :param values: by the table's columns, as PostgreSQL writes them.
    """

    op: str
    lsn: int
    xid: int | None
    at_us: int | None
    values: Sequence[Any]
    unchanged: Sequence[str] = ()


@dataclass(frozen=True)
class Columns:
    """What the batches have. Picklable.

    :param names: of batches.
    :param table: the columns of the table, in the order of a row's values.
    """

    names: tuple[str, ...]
    table: tuple[TableColumn, ...]

    @property
    def schema(self) -> pa.Schema:
        types: dict[str, pa.DataType] = {
            **CHANGE_COLUMNS,
            UNCHANGED_COLUMN: pa.list_(pa.string()),
            **{each.name: each.type for each in self.table},
        }
        return pa.schema([(name, types[name]) for name in self.names])

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """:raises ValueError: a value has no place in its column's type."""
        places = {each.name: place for place, each in enumerate(self.table)}
        arrays = []
        for field in self.schema:
            place = places.get(field.name)
            if place is None:
                arrays.append(_of_the_change(field, rows))
            else:
                texts = [row.values[place] for row in rows]
                arrays.append(_parsed(texts, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def arrow_type(oid: int, modifier: int) -> pa.DataType:
    """Of a column; strings are for whatever has no other.

    :param modifier: of a numeric: precision and scale.
    """
    if oid == _NUMERIC and modifier >= 4:
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        if precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    return _TYPES.get(oid, pa.string())


def _of_the_change(field: pa.Field, rows: Sequence[Row]) -> pa.Array:
    if field.name == "_op":
        values: list[Any] = [row.op for row in rows]
    elif field.name == "_lsn":
        values = [row.lsn for row in rows]
    elif field.name == "_xid":
        values = [row.xid for row in rows]
    elif field.name == "_committed_at":
        values = [row.at_us for row in rows]
    else:
        values = [list(row.unchanged) for row in rows]
    return pa.array(values, field.type)


def _parsed(texts: list[bytes | None], dtype: pa.DataType) -> pa.Array:
    if pa.types.is_binary(dtype):
        return pa.array(
            [None if each is None else bytes.fromhex(each[2:].decode()) for each in texts], dtype
        )
    found = pa.array(texts, pa.string())
    if pa.types.is_boolean(dtype):
        return pc.equal(found, "t")
    return found if pa.types.is_string(dtype) else found.cast(dtype)
