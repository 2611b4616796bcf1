"""Columns of arrays and maps, taken apart: all items in one column, and how many each row has.

Kernels work on the items of all rows at once and put the rows together again at the end. The items
of a map are structs of ``key`` and ``value``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.datum import to_array
from engine.expressions.registry import Datum, ValueFunction
from engine.expressions.tree import Expr

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_ITEMS_MAX: Final = 2**31 - 1


@dataclass(frozen=True)
class Lists:
    """A column of arrays.

    :param items: those of the first row, of the second, ...
    :param lengths: how many items each row has; 0 for NULL.
    :param valid: false for NULL.
    """

    items: pa.Array
    lengths: Ints
    valid: Mask

    @staticmethod
    def of(array: pa.Array) -> Lists:
        """Take a column of arrays or maps apart."""
        known = valid(array)
        offsets = array.offsets.to_numpy().astype(np.int64)
        lengths = np.where(known, np.diff(offsets), 0)
        start, end = (offsets[0], offsets[-1]) if len(offsets) else (0, 0)
        items = array.values.slice(start, end - start)
        if len(items) > lengths.sum():  # NULL can have items, too
            shown = np.repeat(known, np.diff(offsets))
            items = items.filter(pa.array(shown))
        return Lists(items, lengths, known)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> Ints:
        """Where the items of each row start."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def rows(self) -> Ints:
        """The row of each item."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def positions(self) -> Ints:
        """The position of each item in its row, from 0."""
        return ranges(np.zeros_like(self.lengths), self.lengths)

    def where(self, keep: Mask) -> Lists:
        """Without the items for which ``keep`` is false."""
        if keep.all():
            return self
        lengths = self.count(keep)
        return Lists(self.items.filter(pa.array(keep)), lengths, self.valid)

    def taken(self, order: Ints) -> Lists:
        """The items in another order, which keeps those of a row together; -1 is NULL."""
        return Lists(take(self.items, order), self.lengths, self.valid)

    def count(self, chosen: Mask) -> Ints:
        """How many items of each row are chosen."""
        return np.bincount(self.rows[chosen], minlength=len(self)).astype(np.int64)

    def first(self, chosen: Mask) -> Ints:
        """The index of the first chosen item of each row, -1 if there is none."""
        result = np.full(len(self), -1, np.int64)
        indices = np.flatnonzero(chosen)[::-1]
        result[self.rows[indices]] = indices  # of several, the last assignment counts
        return result

    def only(self, valid: Mask) -> Lists:
        """NULL where ``valid`` is false as well."""
        kept = self.where(np.repeat(valid, self.lengths))
        return Lists(kept.items, kept.lengths, self.valid & valid)

    def array(self, dtype: pa.DataType) -> pa.Array:
        """The column put together again, as ARRAY or MAP."""
        offsets = np.zeros(len(self) + 1, np.int32)
        np.cumsum(self.lengths, out=offsets[1:])
        inner = dtype.value_type if pa.types.is_list(dtype) else dtype.field(0).type
        items = to_array(self.items, len(self.items), inner)
        if items.offset and pa.types.is_map(dtype):  # Arrow reads the keys of a map from the first
            items = pa.StructArray.from_arrays(items.flatten(), fields=list(inner))
        buffers = [validity(self.valid), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(dtype, len(self), buffers, children=[items])


def joined(parts: Sequence[Lists]) -> Lists:
    """The items of several columns, row by row; NULL where any of them is."""
    known = np.logical_and.reduce([part.valid for part in parts])
    parts = [part.only(known) for part in parts]
    rows = np.concatenate([part.rows for part in parts])
    items = pa.concat_arrays([part.items for part in parts])
    order = np.argsort(rows, kind="stable")
    lengths = np.sum([part.lengths for part in parts], axis=0)
    return Lists(take(items, order), lengths, known)


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """``start, start + 1, ...`` for each row, ``length`` numbers, one row after the other.

    :raises TransformError: they are more than the items of an Arrow array can be.
    """
    total = int(lengths.sum())
    if total > _ITEMS_MAX:
        raise TransformError(
            f"{total} items of arrays in one batch are more than {_ITEMS_MAX}",
            hint="Make shorter arrays, or let the source make smaller batches.",
        )
    places = np.arange(total) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return np.asarray(places)


def valid(array: pa.Array) -> Mask:
    """False where the column is NULL."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def validity(known: Mask) -> pa.Buffer | None:
    """Arrow's bits of what is not NULL."""
    return None if known.all() else pa.array(known).buffers()[1]


def take(items: pa.Array, indices: Ints) -> pa.Array:
    """The items at these indices; NULL for negative ones."""
    nowhere = indices < 0
    return items.take(pa.array(indices, mask=nowhere if nowhere.any() else None))


def ints(array: pa.Array) -> Ints:
    """A column of integers; NULL is 0."""
    return np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False)).astype(np.int64)


def integers(values: Ints, known: Mask, dtype: pa.DataType) -> pa.Array:
    """A column of integers, NULL where not ``known``."""
    return pa.array(values, pa.int64(), mask=~known).cast(dtype)


def booleans(values: Any, known: Mask) -> pa.Array:
    """A column of booleans, NULL where not ``known``."""
    return pa.array(values, pa.bool_(), mask=~known)


def entries(keys: pa.Array, values: pa.Array) -> pa.StructArray:
    """The items of a map."""
    return pa.StructArray.from_arrays([keys, values], names=["key", "value"])


def on_arrays(expr: Expr, function: Callable[..., pa.Array]) -> ValueFunction:
    """A kernel from a function of columns: Scalars are made into columns, of one row if there is
    nothing else."""
    dtypes = [child.dtype for child in expr.children]

    def either(*values: Datum) -> Datum:
        rows = next((len(value) for value in values if not isinstance(value, pa.Scalar)), None)
        columns = _columns(values, dtypes, 1 if rows is None else rows)
        result = to_array(function(*columns), 1 if rows is None else rows, expr.dtype)
        return result[0] if rows is None else result

    return either


def _columns(values: Sequence[Datum], dtypes: Sequence[pa.DataType], rows: int) -> list[pa.Array]:
    return [to_array(value, rows, dtype) for value, dtype in zip(values, dtypes, strict=True)]


def replaced(array: pa.Array, rows: Ints, values: pa.Array) -> pa.Array:
    """The array with other values in some rows."""
    if len(rows) == len(array):
        return values
    source = np.arange(len(array))
    source[rows] = len(array) + np.arange(len(rows))
    return take(pa.concat_arrays([array, to_array(values, len(rows), array.type)]), source)
