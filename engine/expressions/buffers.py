"""NumPy's view of Arrow columns, for the hottest kernels that Arrow does not have.

Nothing is copied: see :mod:`engine.expressions.vectors` for the comfortable way.

The slots of nulls hold arbitrary values: a function that works on them must not fail for any.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Values = npt.NDArray[Any]
_ALL: Final[Any] = np.True_
LONG: Final = 1_000
"""Rows from which on more calls that each look at all of them are cheaper than one slow call."""


def values_of(array: pa.Array) -> Values:
    """The values of a column of fixed-width numbers, including those in the slots of nulls."""
    if array.null_count == 0:
        return np.asarray(array.to_numpy(zero_copy_only=True))
    dtype = array.type.to_pandas_dtype()
    everything = np.frombuffer(array.buffers()[1], dtype)
    return everything[array.offset : array.offset + len(array)]


def valid_of(array: pa.Array) -> Any:
    """Where a column is not null: booleans, or True for everywhere."""
    if array.null_count == 0:
        return _ALL
    return bits_of(array.buffers()[0], array.offset, len(array))


def true_positions(mask: pa.Array) -> pa.Array:
    """Where a column of booleans is true, not null."""
    if len(mask) < LONG:
        return pc.indices_nonzero(mask)
    valid, bits = mask.buffers()
    is_true = bits_of(bits, mask.offset, len(mask))
    if valid is not None:
        is_true = is_true & bits_of(valid, mask.offset, len(mask))
    return pa.array(np.flatnonzero(is_true))


def bits_of(bits: pa.Buffer, offset: int, count: int) -> Values:
    """Of an Arrow buffer with a bit for each; so many of them behind the first ones."""
    octets = np.frombuffer(bits, np.uint8, offset=offset // 8)
    skipped = offset % 8
    unpacked = np.unpackbits(octets, count=skipped + count, bitorder="little")
    return unpacked[skipped:].view(np.bool_)


def room(count: int, dtype: npt.DTypeLike) -> Values:
    """For so many values; those of long columns in the memory that Arrow keeps: NumPy gives it back
    to the system at once, and to get it anew costs more than most functions."""
    if count < LONG:
        return np.empty(count, dtype)
    kind = np.dtype(dtype)
    return np.frombuffer(pa.allocate_buffer(count * kind.itemsize), kind)


def with_nulls_of(array: pa.Array, values: Values, dtype: pa.DataType) -> pa.Array:
    """New values, null where ``array`` is."""
    if array.null_count == 0:
        return pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(values)], 0)
    shifted: Values = values
    if array.offset:
        # The bits of the nulls start at the array's offset, so the values have to as well.
        shifted = np.empty(array.offset + len(values), values.dtype)
        shifted[array.offset :] = values
    buffers = [array.buffers()[0], pa.py_buffer(shifted)]
    return pa.Array.from_buffers(dtype, len(values), buffers, array.null_count, array.offset)


def is_ascii(texts: pa.Array) -> bool:
    """Whether all bytes of a column of texts are below 128, those in the slots of nulls too."""
    _, offsets, data = texts.buffers()
    if data is None or len(texts) == 0 or (data.size < LONG and data.to_pybytes().isascii()):
        return True
    bounds = np.frombuffer(offsets, np.int32)
    start, end = bounds[texts.offset], bounds[texts.offset + len(texts)]
    return bool(start == end or np.frombuffer(data, np.int8)[start:end].min() >= 0)


def kept(mask: Values, size: int) -> Values:
    """For each boolean an integer of ``size`` bytes of which all bits are set, or none. With them
    values are chosen without a branch, which is slow where no row is like the one before."""
    result = room(len(mask), f"i{size}")
    np.copyto(result, np.negative(mask.view(np.int8)))
    return result


def chosen(mask: pa.Array, left: pa.Array | pa.Scalar, right: pa.Array | pa.Scalar) -> pa.Array:
    """The left values where ``mask``, which has no nulls, is true; elsewhere the right ones.

    Both are of one type.
    """
    dtype = left.type
    if len(mask) < LONG or not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype)):
        return pc.if_else(mask, left, right)
    from_left = kept(bits_of(mask.buffers()[1], mask.offset, len(mask)), dtype.bit_width // 8)
    bits, others = _bits_of(left), _bits_of(right)
    result = np.bitwise_xor(bits, others, out=room(len(mask), from_left.dtype))
    np.bitwise_and(result, from_left, out=result)
    np.bitwise_xor(result, others, out=result)
    valid_left, valid_right = _validity_of(left), _validity_of(right)
    valid = None
    if not (valid_left is _VALID and valid_right is _VALID):
        valid = pc.if_else(mask, valid_left, valid_right).buffers()[1]
    return pa.Array.from_buffers(dtype, len(mask), [valid, pa.py_buffer(result)])


def _bits_of(value: pa.Array | pa.Scalar) -> Any:
    """Values as integers of their width; a Scalar as one of NumPy."""
    if isinstance(value, pa.Scalar):
        return _bits_of(pa.repeat(value, 1))[0]
    return values_of(value).view(f"i{value.type.bit_width // 8}")


_VALID: Final = pa.scalar(True)


def _validity_of(value: pa.Array | pa.Scalar) -> Any:
    """Where a value is not null, as booleans of Arrow; :data:`_VALID` for everywhere."""
    if isinstance(value, pa.Scalar):
        return _VALID if value.is_valid else pa.scalar(False)
    if value.null_count == 0:
        return _VALID
    return pa.Array.from_buffers(
        pa.bool_(), len(value), [None, value.buffers()[0]], offset=value.offset
    )


def saturated(x: Any) -> Any:
    """DOUBLE to BIGINT as Java casts: NaN is 0, too large is the largest."""
    inside = (x >= -(2.0**63)) & (x < 2.0**63)
    whole = np.where(inside, x, 0).astype(np.int64)
    limits = np.where(x > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    return np.where(inside | np.isnan(x), whole, limits)


def null_elsewhere(array: pa.Array, mask: pa.Array) -> pa.Array:
    """The values where ``mask``, which has no nulls, is true; null elsewhere."""
    if (
        array.offset
        or mask.offset
        or pa.types.is_nested(array.type)
        or pa.types.is_null(array.type)
    ):
        return pc.if_else(mask, array, pa.scalar(None, array.type))
    valid = mask if array.null_count == 0 else pc.and_(mask, array.is_valid())
    buffers = [valid.buffers()[1], *array.buffers()[1:]]
    return pa.Array.from_buffers(array.type, len(array), buffers)
