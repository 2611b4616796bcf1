"""NULLs below a NULL struct, in fields that are NOT NULL.

Nobody sees them, yet Arrow's casts, even one to the very same type, and its writer of Parquet mind
them. ``if(c, named_struct('a', 1), NULL)`` has them, and a struct of a left join's table.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.datum import to_array
from engine.expressions.types import nullable_inside


def fitted(column: pa.ChunkedArray, dtype: pa.DataType) -> pa.ChunkedArray:
    """The column with this type, without NULLs that are hidden.

    :raises pyarrow.ArrowException: Arrow has no such cast, or not of these values.
    """
    if column.type == dtype:
        return settled(column)
    if not _may_hide(dtype):
        return column.cast(dtype)
    # What is hidden stays NULL for the cast: else it would be a value, which may not fit.
    loose = column.cast(nullable_inside(dtype))
    made = [to_array(chunk, len(chunk), dtype) for chunk in loose.chunks]
    return settled(pa.chunked_array(made, dtype)).cast(dtype)


def settled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values; nothing that is NOT NULL has hidden NULLs. Those that are seen stay."""
    if not _may_hide(column.type):
        return column
    made = [_settled(chunk, chunk.is_valid()) for chunk in column.chunks]
    return pa.chunked_array(made, column.type)


@lru_cache(maxsize=64)
def _may_hide(dtype: pa.DataType) -> bool:
    """Whether there is a struct with a field that is NOT NULL."""
    inner = [dtype.field(at) for at in range(dtype.num_fields)]
    if pa.types.is_struct(dtype) and not all(field.nullable for field in inner):
        return True
    return any(_may_hide(field.type) for field in inner)


def _settled(array: pa.Array, seen: pa.Array) -> pa.Array:
    """:param seen: which values are neither NULL nor below one."""
    dtype = array.type
    if not _may_hide(dtype):
        return array
    if pa.types.is_struct(dtype):
        return _struct(array, array.is_null(), seen)
    values = _inside(array.values, dtype.field(0), None)
    return _list(array, array.buffers()[0], array.null_count, values)


def _inside(array: pa.Array, field: pa.Field, seen: pa.Array | None) -> pa.Array:
    """The values of a field.

    :param seen: those of what they are in; None: all are.
    """
    valid = array.is_valid()
    array = _settled(array, valid if seen is None else pc.and_(seen, valid))
    if field.nullable or seen is None or not array.null_count:
        return array
    if pc.any(pc.and_not(seen, valid)).as_py():
        return array  # the declaration is wrong, and whoever minds may say so
    return _without_nulls(array)


def _without_nulls(array: pa.Array) -> pa.Array:
    """Whatever is in the slots of NULLs becomes their value."""
    dtype = array.type
    if pa.types.is_struct(dtype) and len(dtype):
        return _struct(array, None, None)
    if pa.types.is_list(dtype) or pa.types.is_map(dtype):
        return _list(array, None, 0, array.values)
    buffers = array.buffers()
    return pa.Array.from_buffers(dtype, len(array), [None, *buffers[1:]], 0, array.offset)


def _struct(array: pa.Array, mask: pa.Array | None, seen: pa.Array | None) -> pa.Array:
    """:param seen: None: the fields stay as they are."""
    fields = list(array.type)
    children = [array.field(at) for at in range(len(fields))]
    if seen is not None:
        children = [_inside(*each, seen) for each in zip(children, fields, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _list(array: pa.Array, valid: pa.Buffer | None, nulls: int, values: pa.Array) -> pa.Array:
    buffers = [valid, array.buffers()[1]]
    return pa.Array.from_buffers(
        array.type, len(array), buffers, nulls, array.offset, children=[values]
    )
