"""How a data type is written in a JSON or CSV file, and the way back.

Timestamps and dates are written as text, binary values as Base64. So a column is first read as its
*written* type, which replaces these at any depth, and then turned into what was asked for. So are
decimals: Arrow's readers of JSON and CSV wrap around when one has too many digits.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.whole_columns import caster


def written_type(dtype: pa.DataType) -> pa.DataType:
    """The type with everything that is written as text replaced by string."""
    if _is_cast(dtype) or pa.types.is_binary(dtype):
        return pa.string()
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(written_type(field.type)) for field in dtype])
    if pa.types.is_map(dtype):
        return pa.map_(written_type(dtype.key_type), written_type(dtype.item_type))
    if pa.types.is_list(dtype):
        return pa.list_(written_type(dtype.value_type))
    return dtype


def from_written(array: pa.Array, dtype: pa.DataType, session_timezone: str) -> pa.Array:
    """The column as ``dtype``; its type now is ``written_type(dtype)``.

    :raises TransformError: a text is no timestamp, date or decimal that fits.
    :raises ValueError: a text is no Base64.
    """
    if array.type == dtype:
        return array
    if _is_cast(dtype):
        return caster(pa.string(), dtype, session_timezone)(array)
    if pa.types.is_binary(dtype):
        return pa.array([_decoded(text) for text in array.to_pylist()], dtype)

    def part(values: pa.Array, part_type: pa.DataType) -> pa.Array:
        return from_written(values, part_type, session_timezone)

    if pa.types.is_struct(dtype):
        parts = zip(array.flatten(), dtype, strict=True)  # a null struct has null fields there
        fields = [part(values, field.type) for values, field in parts]
        return pa.StructArray.from_arrays(fields, fields=list(dtype), mask=pc.is_null(array))
    offsets = _offsets(array)
    if pa.types.is_map(dtype):
        keys, items = part(array.keys, dtype.key_type), part(array.items, dtype.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=dtype)
    return pa.ListArray.from_arrays(offsets, part(array.values, dtype.value_type), type=dtype)


def _is_cast(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(dtype) or pa.types.is_decimal(dtype))


def _offsets(array: Any) -> pa.Array:
    """The offsets of a list or map array, null where the value is: so ``from_arrays`` knows."""
    if array.null_count == 0:
        return array.offsets
    valid = pa.concat_arrays([pc.is_valid(array), pa.array([True])])
    return pc.if_else(valid, array.offsets, pa.scalar(None, pa.int32()))


def _decoded(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as exc:
        raise ValueError(f"{text[:40]!r} is not Base64: {exc}") from exc
