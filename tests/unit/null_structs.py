"""Columns with structs that are NULL, whose fields are NOT NULL."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

FIELDS: Final = [pa.field("a", pa.int64(), False), pa.field("b", pa.string())]
_STRUCT: Final = pa.StructArray.from_arrays(
    [pa.array([1, None, 3]), pa.array(["x", None, None])],
    fields=FIELDS,
    mask=pa.array([False, True, False]),
)
_TWO_IN_ONE: Final = pa.array([0, 2, 2, 3], pa.int32())


def _in_struct(nullable: bool, mask: pa.Array | None) -> pa.Array:
    return pa.StructArray.from_arrays(
        [_STRUCT], fields=[pa.field("o", _STRUCT.type, nullable)], mask=mask
    )


COLUMNS: Final = {
    "struct": _STRUCT,
    "list": pa.ListArray.from_arrays(
        _TWO_IN_ONE, _STRUCT, pa.list_(pa.field("element", _STRUCT.type))
    ),
    "map": pa.MapArray.from_arrays(
        _TWO_IN_ONE,
        pa.array(["k", "l", "m"]),
        _STRUCT,
        pa.map_(pa.string(), pa.field("value", _STRUCT.type)),
    ),
    "nested": _in_struct(True, None),
    "nested, both NULL": _in_struct(False, _STRUCT.is_null()),
}
