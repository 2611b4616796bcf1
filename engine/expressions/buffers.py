"""NumPy's view of Arrow columns, for the hottest kernels that Arrow does not have.

Nothing is copied: see :mod:`engine.expressions.vectors` for the comfortable way.

The slots of nulls hold arbitrary values: a function that works on them must not fail for any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Values = npt.NDArray[Any]


def values_of(array: pa.Array) -> Values:
    """The values of a column of fixed-width numbers, including those in the slots of nulls."""
    if array.null_count == 0:
        return np.asarray(array.to_numpy(zero_copy_only=True))
    dtype = array.type.to_pandas_dtype()
    everything = np.frombuffer(array.buffers()[1], dtype)
    return everything[array.offset : array.offset + len(array)]


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
    if data is None or len(texts) == 0:
        return True
    bounds = np.frombuffer(offsets, np.int32)
    first, last = bounds[texts.offset], bounds[texts.offset + len(texts)]
    octets = np.frombuffer(data, np.int8)[first:last]
    return octets.size == 0 or bool(octets.min() >= 0)


def saturated(x: Any) -> Any:
    """DOUBLE to BIGINT as Java casts: NaN is 0, too large is the largest."""
    inside = (x >= -(2.0**63)) & (x < 2.0**63)
    whole = np.where(inside, x, 0).astype(np.int64)
    limits = np.where(x > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    return np.where(inside | np.isnan(x), whole, limits)
