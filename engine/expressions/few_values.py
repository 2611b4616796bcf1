"""Python's values of few rows as Arrow's, and back, where that is simple and quick."""

from __future__ import annotations

import itertools
import struct
from typing import Any, Final

import pyarrow as pa

from engine.expressions.types import TIMESTAMP

Values = list[Any]

FEW: Final = 64
"""Rows up to which Python is faster, roughly."""
_CODES: Final = {
    pa.int8().id: "b",
    pa.int16().id: "h",
    pa.int32().id: "i",
    pa.int64().id: "q",
    pa.float64().id: "d",
    TIMESTAMP.id: "q",
}
_PACK: Final = {
    id_: [struct.Struct(f"={count}{code}").pack for count in range(FEW + 2)]
    for id_, code in _CODES.items()
}
_OFFSETS: Final = _PACK[pa.int32().id]
_BOOL: Final = pa.bool_().id
_TEXT: Final = pa.string().id


def listed(array: pa.Array) -> Values | None:
    """The values of a column, of timestamps the microseconds; None if one is NULL, or of another
    type than these here.

    :raises UnicodeDecodeError: a text is no UTF-8.
    """
    if array.null_count or not is_for_python(array.type):
        return None
    if array.type.id == TIMESTAMP.id:  # Python's own end at the year 9999
        array = array.view(pa.int64())
    values: Values = array.to_pylist()
    return values


def array_of(values: Values, dtype: pa.DataType) -> pa.Array:
    """As ``pa.array``, which takes three times as long.

    :param values: :data:`FEW` at most, none of them NULL.
    :param dtype: one of those that :func:`is_for_python` is true for.
    """
    kind, count = dtype.id, len(values)
    if kind == _TEXT:
        octets = [text.encode() for text in values]
        offsets = _OFFSETS[count + 1](*itertools.accumulate(map(len, octets), initial=0))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(octets))]
    elif kind == _BOOL:
        bits = sum(value << place for place, value in enumerate(values))
        buffers = [None, pa.py_buffer(bits.to_bytes(FEW // 8, "little"))]
    else:
        buffers = [None, pa.py_buffer(_PACK[kind][count](*values))]
    return pa.Array.from_buffers(dtype, count, buffers, 0)


def is_for_python(dtype: pa.DataType) -> bool:
    """Whether columns of a type can be had so."""
    return dtype.id in _CODES or dtype.id in (_BOOL, _TEXT)
