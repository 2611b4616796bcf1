"""Spark's order of values of any type, as numbers: equal values have equal ranks, smaller values
smaller ones.

NULL comes first and equals NULL; NaN equals NaN and is the largest number; -0.0 equals 0.0; texts
and binaries are compared byte by byte, arrays item by item, structs field by field. With ranks,
what is done to numbers can be done to nested values.

Source: ``SQLOrderingUtil`` and ``PhysicalDataType`` of Spark.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.datum import to_array
from engine.expressions.lists import Ints, Lists, Mask, valid, validity
from engine.expressions.types import YEAR_MONTH_INTERVAL
from engine.expressions.vectors import from_numpy, to_numpy


def is_orderable(dtype: pa.DataType) -> bool:
    """Whether values of this type have an order: maps have none."""
    if pa.types.is_struct(dtype):
        return all(is_orderable(field.type) for field in dtype)
    if pa.types.is_list(dtype):
        return is_orderable(dtype.value_type)
    return not pa.types.is_map(dtype)


def ranks(array: pa.Array, *, signed_zeros: bool = False) -> Ints:
    """The rank of each value, from 1; 0 for NULL.

    :param signed_zeros: -0.0 is less than 0.0 (not inside of nested values).
    """
    dtype = array.type
    if pa.types.is_null(dtype):
        return np.zeros(len(array), np.int64)
    if pa.types.is_struct(dtype):
        keys = _struct_keys(array)
    elif pa.types.is_list(dtype):
        keys = _list_keys(array)
    elif pa.types.is_floating(dtype):
        keys = _float_keys(array, signed_zeros)
    elif dtype == YEAR_MONTH_INTERVAL:
        keys = from_numpy(*to_numpy(array), pa.int64())
    else:
        keys = array
    result = pc.rank(keys, sort_keys="ascending", tiebreaker="dense")
    return np.where(valid(array), result.to_numpy(), 0).astype(np.int64)


def common_ranks(*arrays: pa.Array) -> list[Ints]:
    """Ranks of several columns of one type that can be compared with each other."""
    dtype = next((a.type for a in arrays if not pa.types.is_null(a.type)), pa.null())
    together = pa.concat_arrays([to_array(array, len(array), dtype) for array in arrays])
    ends = np.cumsum([len(array) for array in arrays])
    return list(np.split(ranks(together), ends[:-1]))


def has_floats(dtype: pa.DataType) -> bool:
    """Whether there are numbers in it that can be -0.0."""
    if pa.types.is_struct(dtype):
        return any(has_floats(field.type) for field in dtype)
    if pa.types.is_list(dtype):
        return has_floats(dtype.value_type)
    return bool(pa.types.is_floating(dtype))


def normalized(array: pa.Array) -> pa.Array:
    """The same values, with 0.0 for -0.0 in all depths: what Spark keeps of equal ones."""
    dtype = array.type
    if not has_floats(dtype):
        return array
    if pa.types.is_struct(dtype):
        fields = [normalized(field) for field in array.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(dtype), mask=array.is_null())
    if pa.types.is_list(dtype):
        lists = Lists.of(array)
        return Lists(normalized(lists.items), lists.lengths, lists.valid).array(dtype)
    return pc.add(array, pa.scalar(0.0, dtype))


def _float_keys(array: pa.Array, signed_zeros: bool) -> pa.Array:
    """Integers in the order of the numbers."""
    values, is_valid = to_numpy(array)
    values = values.astype(np.float64)
    if not signed_zeros:
        values = values + 0.0
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    bits = np.where(np.isnan(values), np.iinfo(np.int64).max, bits)
    return from_numpy(np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits), is_valid, pa.int64())


def _struct_keys(array: pa.StructArray) -> pa.Array:
    """The ranks of a row's fields in one binary of fixed length."""
    fields = [ranks(field) for field in array.flatten()]
    width = len(fields)
    packed = np.empty((len(array), width), ">u4")
    for index, field in enumerate(fields):
        packed[:, index] = field
    offsets = np.arange(len(array) + 1) * width * packed.itemsize
    return _binaries(packed.tobytes(), offsets, valid(array))


def _list_keys(array: pa.ListArray) -> pa.Array:
    """The ranks of a row's items in one binary: a prefix is less than what it is a prefix of."""
    lists = Lists.of(array)
    packed = ranks(lists.items).astype(">u4")
    offsets = np.concatenate([[0], np.cumsum(lists.lengths)]) * packed.itemsize
    return _binaries(packed.tobytes(), offsets, lists.valid)


def _binaries(data: bytes, offsets: Ints, known: Mask) -> pa.Array:
    buffers = [validity(known), pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
