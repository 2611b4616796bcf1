"""Grouping keys: the rows of a batch by their keys, and keys as a ``dict`` finds them.

A key is kept as a tuple of plain values, see :mod:`engine.functions.custom_state.values`, what is
nested as tuples in it. Keys are equal as Spark groups them: NULL equals NULL, all NaNs are one, and
-0.0 is 0.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import Row

from engine.expressions.types import schema_to_spark
from engine.functions.custom_state.values import Codec, Kept, one_array, plain_type

Key = tuple[Hashable, ...]
Codes = npt.NDArray[np.int64]
NAN: Final = float("nan")
"""A ``dict`` finds a NaN only if it is the same object."""
_CODES_MAX: Final = 1 << 62
_SHOWN_MAX: Final = 200
"""Letters of a key in an error."""


@dataclass(frozen=True)
class Grouped:
    """The rows of a batch, those of a key one behind the other, and otherwise in their order.

    :param starts: the position of each key's first row, and last the number of rows.
    :param keys: in the order of their first rows in the batch.
    """

    rows: pa.RecordBatch
    starts: npt.NDArray[np.int64]
    keys: list[Key]

    @property
    def first(self) -> pa.Array:
        """The positions of the keys' first rows."""
        return pa.array(self.starts[:-1])


class Keys:
    """Of one schema.

    :param fields: of the grouping columns.
    """

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self.fields = [field.with_nullable(True) for field in fields]
        self._freezers = [_freezer(field.type) for field in fields]
        self._is_frozen = not any(self._freezers)
        self._thaws = [_thaw(field.type) for field in fields]
        self._codec = Codec(json.dumps(schema_to_spark(pa.schema(self.fields))))

    def of(self, columns: Sequence[pa.Array]) -> list[Key]:
        """The key of each row."""
        lists = []
        for column, freeze in zip(columns, self._freezers, strict=True):
            values = _plain(column).to_pylist()
            lists.append(values if freeze is None else [freeze(value) for value in values])
        return list(zip(*lists, strict=True))

    def freeze(self, kept: Kept) -> Key:
        """The key that has these values."""
        if self._is_frozen:
            return kept
        return tuple(
            value if freeze is None else freeze(value)
            for value, freeze in zip(kept, self._freezers, strict=True)
        )

    def to_arrow(self, keys: Sequence[Key]) -> list[pa.Array]:
        """The inverse of :meth:`of`."""
        arrays = []
        for index, (field, thaw) in enumerate(zip(self.fields, self._thaws, strict=True)):
            values = [key[index] for key in keys]
            if thaw is not None:
                values = [thaw(value) for value in values]
            arrays.append(one_array(values, field.type))
        return arrays

    def row(self, key: Key) -> Row:
        """The key as a Row, which is how Spark hands it to the user where there are no rows."""
        values = (
            value if thaw is None else thaw(value)
            for value, thaw in zip(key, self._thaws, strict=True)
        )
        return self._codec.give(tuple(values))

    def shown(self, key: Key) -> str:
        """The key, for an error."""
        text = ", ".join(f"{name}={value!r}" for name, value in self.row(key).asDict().items())
        return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."

    def group(self, rows: pa.RecordBatch, positions: Sequence[int]) -> Grouped:
        """:param positions: of the key's columns."""
        columns = [rows.column(position) for position in positions]
        order, starts = _by_code(_codes(columns, rows.num_rows))
        if order is not None:
            rows = rows.take(pa.array(order))
            columns = [rows.column(position) for position in positions]
        first = pa.array(starts[:-1])
        return Grouped(rows, starts, self.of([column.take(first) for column in columns]))


def _plain(column: pa.Array) -> pa.Array:
    dtype = plain_type(column.type)
    return column if dtype == column.type else column.cast(dtype)


def _by_code(codes: Codes) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int64]]:
    """The order that puts equal codes together, None for the present one; and where each begins.
    Codes are ordered as they first appear."""
    size = len(codes)
    steps = np.diff(codes)
    order = None
    if size and steps.min(initial=0) < 0:
        small = codes.max() < 1 << 16
        order = np.argsort(codes.astype(np.uint16) if small else codes, kind="stable")
        steps = np.diff(codes[order])
    starts = np.concatenate([[0], np.flatnonzero(steps) + 1, [size]]).astype(np.int64)
    return order, starts


def _codes(columns: Sequence[pa.Array], rows: int) -> Codes:
    """A number for each row, equal for equal keys, that grows as keys first appear."""
    codes, count = np.zeros(rows, np.int64), 1
    for leaf in (leaf for column in columns for leaf in _leaves(column)):
        encoded = leaf.dictionary_encode(null_encoding="encode")
        size = max(len(encoded.dictionary), 1)
        if count > _CODES_MAX // size:
            codes, count = _dense(codes)
        codes = codes * size + encoded.indices.to_numpy(zero_copy_only=False)
        count *= size
    return _dense(codes)[0] if len(columns) != 1 or pa.types.is_struct(columns[0].type) else codes


def _dense(codes: Codes) -> tuple[Codes, int]:
    encoded = pa.array(codes).dictionary_encode()
    indices = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return indices, max(len(encoded.dictionary), 1)


def _leaves(column: pa.Array) -> list[pa.Array]:
    """Columns that Arrow can compare, equal together where the column is."""
    dtype = column.type
    if pa.types.is_struct(dtype):
        return [column.is_valid(), *(leaf for child in column.flatten() for leaf in _leaves(child))]
    if pa.types.is_floating(dtype):
        nan = pa.scalar(NAN, dtype)
        return [pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, dtype)))]
    if pa.types.is_nested(dtype):
        freeze = _freezer(dtype) or _same
        numbers: dict[Any, int] = {}
        values = (freeze(value) for value in _plain(column).to_pylist())
        return [pa.array([numbers.setdefault(value, len(numbers)) for value in values], pa.int64())]
    return [pa.nulls(len(column), pa.bool_())] if pa.types.is_null(dtype) else [column]


def _freezer(dtype: pa.DataType) -> Callable[[Any], Hashable] | None:
    """From a plain value to one that a ``dict`` finds; None: it is the same."""
    if pa.types.is_floating(dtype):
        return lambda value: value if value is None else NAN if value != value else value + 0.0
    if pa.types.is_struct(dtype):
        fields = [(field.name, _freezer(field.type) or _same) for field in dtype]
        return lambda value: (
            None if value is None else tuple(freeze(value[name]) for name, freeze in fields)
        )
    if pa.types.is_list(dtype):
        element = _freezer(dtype.value_type) or _same
        return lambda value: None if value is None else tuple(map(element, value))
    return None


def _thaw(dtype: pa.DataType) -> Callable[[Any], Any] | None:
    """The inverse of a freezer's, as Arrow takes it."""
    if pa.types.is_struct(dtype):
        fields = [(field.name, _thaw(field.type) or _same) for field in dtype]
        return lambda value: (
            None
            if value is None
            else {name: thaw(each) for (name, thaw), each in zip(fields, value, strict=True)}
        )
    if pa.types.is_list(dtype):
        element = _thaw(dtype.value_type) or _same
        return lambda value: None if value is None else [element(each) for each in value]
    return None


def _same(value: Any) -> Any:
    return value
