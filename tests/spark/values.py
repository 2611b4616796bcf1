"""Values and errors of Spark and of our side in one form, and whether they are the same."""

from __future__ import annotations

import math
import re
import struct
from typing import Any, Final

import pyarrow as pa

_PATTERN_SYNTAX: Final = "java.util.regex.PatternSyntaxException"


def plain_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Comparable Python values; temporal ones as integers, for Python's own types are too small;
    structs as tuples, arrays as lists, maps as lists of pairs."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in plain_values(chunk)]
    dtype = array.type
    if pa.types.is_timestamp(dtype) or pa.types.is_duration(dtype):
        array = array.cast(pa.int64())
    elif pa.types.is_date32(dtype):
        array = array.cast(pa.int32())
    elif pa.types.is_struct(dtype):
        columns = [plain_values(column) for column in array.flatten()]
        rows = zip(*columns, strict=True) if columns else ((),) * len(array)
        return [row if ok else None for row, ok in zip(rows, _valid(array), strict=True)]
    elif pa.types.is_map(dtype) or pa.types.is_list(dtype):
        items, offsets = plain_values(array.values), array.offsets.to_pylist()
        spans = zip(offsets[:-1], offsets[1:], _valid(array), strict=True)
        return [items[start:end] if ok else None for start, end, ok in spans]
    elif pa.types.is_string(dtype):
        # Spark's texts can be what is no UTF-8.
        values = array.cast(pa.binary()).to_pylist()
        return [None if v is None else v.decode(errors="surrogateescape") for v in values]
    return list(array.to_pylist())


def _valid(array: pa.Array) -> list[bool]:
    return list(array.is_valid().to_pylist())


def error_class(message: str) -> str:
    """Spark's error class without its subclass: ``CAST_INVALID_INPUT``. What Java finds wrong with
    a pattern, and where, is not compared."""
    if _PATTERN_SYNTAX in message:
        return _PATTERN_SYNTAX
    match = re.search(r"\[([A-Z0-9_]+)[\].]", message)
    return match[1] if match else message


def normalized(dtype: pa.DataType) -> pa.DataType:
    """A type without what Spark and we may say differently: nullability, names of list items."""
    if pa.types.is_struct(dtype):
        return pa.struct([(f.name, normalized(f.type)) for f in dtype])
    if pa.types.is_map(dtype):
        return pa.map_(normalized(dtype.key_type), normalized(dtype.item_type))
    if pa.types.is_list(dtype):
        return pa.list_(normalized(dtype.value_type))
    if pa.types.is_timestamp(dtype) and dtype.tz is not None:
        return pa.timestamp("us", tz="UTC")
    return dtype


def same(theirs: Any, mine: Any, ulps: int = 0) -> bool:
    """Equal as Spark's own tests understand it, or nearly.

    :param ulps: by how many units in the last place DOUBLEs may differ.
    """
    if isinstance(theirs, float) and isinstance(mine, float):
        if math.isnan(theirs) and math.isnan(mine):
            return True
        near = abs(theirs - mine) <= ulps * math.ulp(theirs)
        return (ulps > 0 and math.isfinite(mine) and near) or struct.pack(
            "d", theirs
        ) == struct.pack("d", mine)
    if isinstance(theirs, (list, tuple)) and isinstance(mine, (list, tuple)):
        pairs = zip(theirs, mine, strict=False)
        return len(theirs) == len(mine) and all(same(a, b, ulps) for a, b in pairs)
    return bool(type(theirs) is type(mine) and theirs == mine)
