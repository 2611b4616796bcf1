"""Kernels from plain functions: on NumPy arrays for numbers and times, row by row for texts.

They take Arrays and Scalars in any mixture, give NULL where any argument is NULL, and return a
Scalar if all arguments are Scalars.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import TransformError
from engine.expressions.buffers import Values, kept, valid_of, values_of
from engine.expressions.malformed import JAVA, View
from engine.expressions.registry import Datum
from engine.expressions.types import YEAR_MONTH_INTERVAL

Mask = npt.NDArray[np.bool_]
Failure = Callable[..., TransformError]


def on_numpy(
    function: Callable[..., Any], dtype: pa.DataType, *values: Datum, failure: Failure | None = None
) -> Datum:
    """Apply a function of NumPy arrays; Scalars arrive as NumPy scalars, NULL as 0.

    Integers of any width arrive in 64 bits, so do dates (days), timestamps and intervals
    (microseconds, or months). The result wraps around to the width of ``dtype``, as casts in Java
    do.

    :param function: returns an array, or an array and a mask that is false where the result is
        not defined.
    :param failure: makes the error for the first row that is not defined, from its arguments.
        Without it such rows are NULL.
    """
    length = _length(values)
    if _any_null_scalar(values):
        return _nulls(dtype, length)
    arguments: list[Any] = []
    valid: Any = np.True_
    for value in values:
        array, is_valid = to_numpy(value)
        arguments.append(array)
        valid = valid & is_valid
    with np.errstate(all="ignore"):
        result = function(*arguments)
    if isinstance(result, tuple):
        result, defined = result
        undefined = np.broadcast_to(valid & ~defined, (length,) if length is not None else ())
        if failure is not None and undefined.any():
            row = int(np.argmax(undefined))
            raise failure(*(a[row] if np.ndim(a) else a for a in arguments))
        valid = valid & defined
    if length is None:
        return from_numpy(np.atleast_1d(result), np.atleast_1d(valid), dtype)[0]
    return from_numpy(np.broadcast_to(result, (length,)), valid, dtype)


def per_row(
    function: Callable[..., Any], dtype: pa.DataType, *values: Datum, malformed: View = JAVA
) -> Datum:
    """Apply a function of Python values to each row. It may return None for NULL.

    :param malformed: what it sees of texts if one of them is no UTF-8.
    """
    length = _length(values)
    if _any_null_scalar(values):
        return _nulls(dtype, length)
    columns, view = _seen(values, malformed)
    if len(columns) == 1 and length is not None and view is None:
        return pa.array([None if v is None else function(v) for v in columns[0]], dtype)
    rows = zip(*columns, strict=False)
    results = (None if None in row else function(*row) for row in rows)
    return _collected(results, dtype, length, view)


def of_columns(convert: Callable[[pa.Array], pa.Array]) -> Callable[[Datum], Datum]:
    """A function of Arrays as one of Scalars, too."""

    def function(value: Datum) -> Datum:
        return convert(pa.repeat(value, 1))[0] if isinstance(value, pa.Scalar) else convert(value)

    return function


def per_row_with_nulls(
    function: Callable[..., Any], dtype: pa.DataType, *values: Datum, malformed: View = JAVA
) -> Datum:
    """As :func:`per_row`, for a function that is to see NULL, as None."""
    columns, view = _seen(values, malformed)
    results = (function(*row) for row in zip(*columns, strict=False))
    return _collected(results, dtype, _length(values), view)


def to_numpy(value: Datum) -> tuple[Any, Any]:
    """Values, NULL as 0, and a mask of those that are not NULL. Scalars must be valid."""
    if isinstance(value, pa.Scalar):
        return to_numpy(pa.repeat(value, 1))[0][0], np.True_
    if value.type == YEAR_MONTH_INTERVAL:
        value = _months(value)
    storage = _storage(value.type)
    if storage != value.type:
        value = value.view(storage)
    mask: Any = np.True_
    if value.null_count:
        mask = valid_of(value)
        if pa.types.is_integer(storage) or pa.types.is_floating(storage):
            array = _zero_elsewhere(values_of(value), mask)
            return (array.astype(np.int64) if array.dtype.kind == "i" else array), mask
        value = value.fill_null(pa.scalar(0, pa.int8()).cast(storage))
    array = value.to_numpy(zero_copy_only=False)
    return (array.astype(np.int64) if pa.types.is_signed_integer(storage) else array), mask


def _zero_elsewhere(values: Values, mask: Mask) -> Values:
    bits = kept(mask, values.itemsize)
    return np.bitwise_and(values.view(bits.dtype), bits, out=bits).view(values.dtype)


def field_of(value: Datum, place: int) -> Datum:
    """A field of a struct, NULL where the struct is: as ``pc.struct_field``, which takes twenty
    times as long where it is nowhere."""
    if isinstance(value, pa.StructArray) and value.null_count == 0:
        return value.field(place)
    return pc.struct_field(value, place)


def to_list(array: pa.Array) -> list[Any]:
    """Python values; dates as days, timestamps and intervals as microseconds, for Python's own
    types end at the year 9999; texts that are no UTF-8 as Java reads them."""
    try:
        return list(_storage_of(array).to_pylist())
    except UnicodeDecodeError:
        return JAVA.values(array)


def _storage_of(array: pa.Array) -> pa.Array:
    dtype = array.type
    storage = _storage(dtype)
    return array if storage is dtype else array.view(storage)


def from_numpy(array: Any, valid: Any, dtype: pa.DataType) -> pa.Array:
    """The inverse of :func:`to_numpy`."""
    if dtype == YEAR_MONTH_INTERVAL:
        return _interval_of_months(from_numpy(array, valid, pa.int32()))
    storage = _storage(dtype)
    array = np.asarray(array).astype(storage.to_pandas_dtype(), copy=False)
    if valid is np.True_:
        result = pa.array(array, storage)
    elif array.dtype.kind in "iuf":
        bits = np.packbits(np.broadcast_to(valid, array.shape), bitorder="little")
        buffers = [pa.py_buffer(bits), pa.py_buffer(np.ascontiguousarray(array))]
        result = pa.Array.from_buffers(storage, len(array), buffers)
    else:
        result = pa.array(array, storage, mask=~np.broadcast_to(valid, array.shape))
    return result if storage == dtype else result.view(dtype)


_MONTHS_DAYS_NANOS = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])


def _months(array: pa.Array) -> pa.Array:
    stored = np.frombuffer(array.buffers()[1], _MONTHS_DAYS_NANOS)
    months = stored["months"][array.offset : array.offset + len(array)]
    mask = array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.where(mask, 0, months), pa.int32(), mask=mask)


def _interval_of_months(months: pa.Array) -> pa.Array:
    stored = np.zeros(len(months), _MONTHS_DAYS_NANOS)
    stored["months"] = months.fill_null(0).to_numpy(zero_copy_only=False)
    buffers = [months.buffers()[0], pa.py_buffer(stored)]
    return pa.Array.from_buffers(YEAR_MONTH_INTERVAL, len(months), buffers, months.null_count)


def all_null(values: Sequence[Datum], dtype: pa.DataType) -> Datum:
    """NULL for every row of ``values``."""
    return _nulls(dtype, _length(values))


def _storage(dtype: pa.DataType) -> pa.DataType:
    return _STORAGE.get(dtype.id, dtype)


_STORAGE: Final = {
    pa.date32().id: pa.int32(),
    pa.timestamp("us").id: pa.int64(),
    pa.duration("us").id: pa.int64(),
}


def _length(values: Iterable[Datum]) -> int | None:
    return next((len(value) for value in values if not isinstance(value, pa.Scalar)), None)


def _any_null_scalar(values: Iterable[Datum]) -> bool:
    return any(isinstance(value, pa.Scalar) and not value.is_valid for value in values)


def _nulls(dtype: pa.DataType, length: int | None) -> Datum:
    return pa.scalar(None, dtype) if length is None else pa.nulls(length, dtype)


def _seen(values: Sequence[Datum], malformed: View) -> tuple[list[Iterable[Any]], View | None]:
    """Columns of Python values; and the view of texts, if one of them is no UTF-8."""
    try:
        return _columns(values, lambda array: list(array.to_pylist())), None
    except UnicodeDecodeError:
        return _columns(values, malformed.values), malformed


def _columns(values: Sequence[Datum], read: Callable[[pa.Array], list[Any]]) -> list[Iterable[Any]]:
    scalars_repeat = _length(values) is not None
    columns: list[Iterable[Any]] = []
    for value in values:
        if isinstance(value, pa.Scalar):
            only = read(_storage_of(pa.repeat(value, 1)))
            columns.append(itertools.repeat(only[0]) if scalars_repeat else only)
        else:
            columns.append(read(_storage_of(value)))
    return columns


def _collected(
    results: Iterable[Any], dtype: pa.DataType, length: int | None, view: View | None = None
) -> Datum:
    if view is not None:
        array = view.array(list(results), dtype)
        return array if length is not None else array[0]
    if length is None:
        return pa.scalar(next(iter(results)), dtype)
    return pa.array(list(results), dtype)
