"""Columns that are written and read by slot, of any type that the engine has.

Values of fixed width are in NumPy arrays. Others stay in Arrow's: a slot remembers in which row of
all that was ever put in its value is, and what no slot remembers goes when it is the greater part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.errors import StateTooLargeError
from engine.expressions.buffers import bits_of, valid_of
from engine.expressions.lists import validity
from engine.expressions.row_context import taken
from engine.state.arrays import budget, grown, kept_rows
from engine.state.portions import in_portions

Slots = npt.NDArray[np.int64]
_NULL: Final = -1
_ROWS_MIN: Final = 1 << 12
"""As long as there are fewer, nothing is tidied up."""
_PART_BYTES: Final = 1 << 22
_SLOTS_AT_ONCE: Final = 1 << 16
_DEAD_SHARE_MAX: Final = 0.125
"""So many of the rows may stay though no slot remembers them: to move all others takes ten times as
long as to put two arrays together."""


class Column(ABC):
    """One value for each slot, NULL at first."""

    dtype: pa.DataType

    @abstractmethod
    def grow(self, room: int) -> None:
        """Slots are below this number from now on."""

    @abstractmethod
    def put(self, slots: Slots, values: pa.Array) -> None:
        """Each slot has this value now; of several for one slot, the last counts."""

    @abstractmethod
    def take(self, slots: Slots) -> pa.Array:
        """The values of these slots."""

    @abstractmethod
    def clear(self, slots: Slots) -> None:
        """They are NULL again."""

    @abstractmethod
    def is_valid(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """Whether they are not NULL."""


def column_of(dtype: pa.DataType) -> Column:
    """A column of this type; it has no slots yet."""
    if pa.types.is_struct(dtype):
        return _StructColumn(dtype)
    if pa.types.is_null(dtype):
        return _NullColumn()
    if is_fixed(dtype):
        return _FixedColumn(dtype)
    return _RowsColumn(dtype) if budget() is None else _PartsColumn(dtype)


def fixed_array(dtype: pa.DataType, values: npt.NDArray[Any], valid: Any = None) -> pa.Array:
    """An Arrow array of a type of fixed width.

    :param values: contiguous, of the type's width (booleans in bytes), and nobody else's.
    :param valid: false where it is NULL; None: nowhere.
    """
    rows = len(values)
    if pa.types.is_boolean(dtype):
        values = np.packbits(values, bitorder="little")
    known = None if valid is None else validity(valid)
    return pa.Array.from_buffers(dtype, rows, [known, pa.py_buffer(values)])


def fixed_values(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a type of fixed width: integers and floating numbers as such, booleans as
    bytes, of 128 bits as opaque values. In the place of NULL stands anything."""
    dtype = array.type
    if pa.types.is_boolean(dtype):
        return bits_of(array.buffers()[1], array.offset, len(array)).view(np.uint8)
    if len(array) == 0:
        return np.empty(0, storage(dtype))
    values = np.frombuffer(array.buffers()[1], storage(dtype))
    return values[array.offset : array.offset + len(array)]


def storage(dtype: pa.DataType) -> Any:
    """NumPy's type for the values of a type of fixed width."""
    if pa.types.is_boolean(dtype):
        return np.dtype(np.uint8)
    if pa.types.is_floating(dtype):
        return np.dtype(f"f{dtype.bit_width // 8}")
    return np.dtype(f"i{dtype.bit_width // 8}" if dtype.bit_width < 128 else "V16")


def is_fixed(dtype: pa.DataType) -> bool:
    """Whether all values have the same size."""
    is_wide = pa.types.is_decimal128(dtype) or pa.types.is_interval(dtype)
    return bool(pa.types.is_primitive(dtype) or is_wide)


class _FixedColumn(Column):
    def __init__(self, dtype: pa.DataType) -> None:
        self.dtype = dtype
        self._values = np.empty(0, storage(dtype))
        self._valid = np.empty(0, np.bool_)

    def grow(self, room: int) -> None:
        self._values = grown(self._values, room, np.zeros((), self._values.dtype))
        self._valid = grown(self._valid, room, False)

    def put(self, slots: Slots, values: pa.Array) -> None:
        self._values[slots] = fixed_values(values)
        self._valid[slots] = valid_of(values)

    def take(self, slots: Slots) -> pa.Array:
        return fixed_array(self.dtype, self._values[slots], self._valid[slots])

    def clear(self, slots: Slots) -> None:
        self._valid[slots] = False

    def is_valid(self, slots: Slots) -> npt.NDArray[np.bool_]:
        return self._valid[slots]


class _StructColumn(Column):
    def __init__(self, dtype: pa.DataType) -> None:
        self.dtype = dtype
        self._fields = [column_of(field.type) for field in dtype]
        self._valid = np.empty(0, np.bool_)

    def grow(self, room: int) -> None:
        for field in self._fields:
            field.grow(room)
        self._valid = grown(self._valid, room, False)

    def put(self, slots: Slots, values: pa.Array) -> None:
        for index, field in enumerate(self._fields):
            field.put(slots, values.field(index))
        self._valid[slots] = valid_of(values)

    def take(self, slots: Slots) -> pa.Array:
        fields = [field.take(slots) for field in self._fields]
        known = validity(self._valid[slots])
        return pa.Array.from_buffers(self.dtype, len(slots), [known], children=fields)

    def clear(self, slots: Slots) -> None:
        for field in self._fields:
            field.clear(slots)
        self._valid[slots] = False

    def is_valid(self, slots: Slots) -> npt.NDArray[np.bool_]:
        return self._valid[slots]


class _NullColumn(Column):
    dtype = pa.null()

    def grow(self, room: int) -> None:
        """Nothing is kept."""

    def put(self, slots: Slots, values: pa.Array) -> None:
        """Nothing is kept."""

    def take(self, slots: Slots) -> pa.Array:
        return pa.nulls(len(slots))

    def clear(self, slots: Slots) -> None:
        """Nothing is kept."""

    def is_valid(self, slots: Slots) -> npt.NDArray[np.bool_]:
        return np.zeros(len(slots), np.bool_)


class _RowsColumn(Column):
    """Rows are in two arrays, the newer of which grows until it is as long as the older one. Arrow
    counts the bytes of texts, and the items of arrays, with 32 bits: an array has 2**31 at most.
    """

    def __init__(self, dtype: pa.DataType) -> None:
        self.dtype = dtype
        self._rows = np.empty(0, np.int64)  # by slot
        self._older = pa.array([], dtype)
        self._newer: list[pa.Array] = []
        self._count = 0  # of rows in all of them

    def grow(self, room: int) -> None:
        self._rows = grown(self._rows, room, _NULL)

    def put(self, slots: Slots, values: pa.Array) -> None:
        numbers = np.arange(self._count, self._count + len(values))
        self._rows[slots] = np.where(valid_of(values), numbers, _NULL)
        self._newer.append(values)
        self._count += len(values)
        if self._count > max(2 * len(self._older), _ROWS_MIN):
            self._tidy_up()

    def take(self, slots: Slots) -> pa.Array:
        rows = self._rows[slots]
        border = len(self._older)
        if len(self._newer) > 1:
            self._newer = [_joined(self._newer)]
        is_null = rows == _NULL
        is_new = rows >= border
        if not is_new.any():
            return _taken(self._older, rows, is_null)
        if is_new.all():
            return _taken(self._newer[0], rows - border, is_null)
        old, new = np.flatnonzero(~is_new), np.flatnonzero(is_new)
        parts = [
            _taken(self._older, rows[old], is_null[old]),
            _taken(self._newer[0], rows[new] - border, is_null[new]),
        ]
        order = np.argsort(np.concatenate([old, new]))
        return taken(_joined(parts), pa.array(order))

    def clear(self, slots: Slots) -> None:
        self._rows[slots] = _NULL

    def is_valid(self, slots: Slots) -> npt.NDArray[np.bool_]:
        return np.asarray(self._rows[slots] != _NULL)

    def _tidy_up(self) -> None:
        """Keeps the rows that a slot remembers, in one array; or all, if few others are there."""
        slots = np.flatnonzero(self._rows != _NULL)
        if self._count - len(slots) <= _DEAD_SHARE_MAX * self._count:
            self._older, self._newer = _joined([self._older, *self._newer]), []
            return
        self._older, self._newer = self.take(slots), []
        self._rows[slots] = np.arange(len(slots))
        self._count = len(slots)


class _PartsColumn(Column):
    """The same where memory is within a budget: no array is made of all rows."""

    def __init__(self, dtype: pa.DataType) -> None:
        self.dtype = dtype
        self._rows = np.empty(0, np.int64)  # by slot
        self._parts = _Parts(dtype)
        self._tidy_at = _ROWS_MIN

    def grow(self, room: int) -> None:
        self._rows = grown(self._rows, room, _NULL)

    def put(self, slots: Slots, values: pa.Array) -> None:
        self._put(slots, values)
        if self._parts.count > self._tidy_at:
            self._tidy_up()

    def take(self, slots: Slots) -> pa.Array:
        return self._parts.take(self._rows[slots])

    def clear(self, slots: Slots) -> None:
        self._rows[slots] = _NULL

    def is_valid(self, slots: Slots) -> npt.NDArray[np.bool_]:
        return np.asarray(self._rows[slots] != _NULL)

    def _put(self, slots: Slots, values: pa.Array) -> None:
        first = self._parts.add(values)
        numbers = np.arange(first, first + len(values))
        self._rows[slots] = np.where(valid_of(values), numbers, _NULL)

    def _tidy_up(self) -> None:
        """Puts what slots remember into new parts, if much is there that none does."""
        alive = sum(len(slots) for slots in self._remembered())
        if self._parts.count - alive > _DEAD_SHARE_MAX * self._parts.count:
            older, self._parts = self._parts, _Parts(self.dtype)
            for remembered in self._remembered():
                parts = in_portions(
                    remembered, _SLOTS_AT_ONCE, lambda some: older.take(self._rows[some])
                )
                for slots, values in parts:
                    self._put(slots, values)
        self._tidy_at = max(2 * self._parts.count, _ROWS_MIN)

    def _remembered(self) -> Iterator[Slots]:
        """The slots that remember a row, some at a time."""
        for start in range(0, len(self._rows), _SLOTS_AT_ONCE):
            slots = np.flatnonzero(self._rows[start : start + _SLOTS_AT_ONCE] != _NULL)
            if len(slots):
                yield slots + start


class _Parts:
    """Rows that are numbered as they come, in arrays of about the same size.

    :ivar count: how many have come.
    """

    def __init__(self, dtype: pa.DataType) -> None:
        self.count = 0
        self._older: list[pa.Array] = []
        self._ends: list[int] = []  # of these: the number behind their last row
        self._newer: list[pa.Array] = []
        self._newer_bytes = 0
        self._nothing = pa.array([], dtype)

    def add(self, values: pa.Array) -> int:
        """The number of the first of them."""
        first = self.count
        self.count += len(values)
        self._newer.append(values)
        self._newer_bytes += values.nbytes
        if self._newer_bytes > _PART_BYTES:
            self._older.append(kept_rows(_joined(self._newer)))
            self._ends.append(self.count)
            self._newer, self._newer_bytes = [], 0
        return first

    def take(self, rows: Slots) -> pa.Array:
        """:param rows: their numbers; NULL for those that are."""
        if not len(rows):
            return self._nothing
        if len(self._newer) > 1:
            self._newer = [_joined(self._newer)]
        places = np.searchsorted(self._ends, rows, "right")
        order = np.argsort(places, kind="stable")
        wanted, first = np.unique(places[order], return_index=True)
        found = []
        for place, some in zip(wanted.tolist(), np.split(order, first[1:]), strict=True):
            part = [*self._older[place : place + 1], *self._newer, self._nothing][0]
            before = self._ends[place - 1] if place else 0
            found.append(_taken(part, rows[some] - before, rows[some] == _NULL))
        if len(found) == 1:
            return found[0]
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return taken(_joined([self._nothing, *found]), pa.array(back))


def _joined(parts: list[pa.Array]) -> pa.Array:
    """:raises StateTooLargeError: there is more in them than fits an array."""
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowInvalid as exc:
        raise StateTooLargeError(
            f"A task keeps values of type {parts[0].type} with more than 2**31 bytes, or items, in "
            f"one column of its state: {exc}.",
            hint="Start the query with more reducers, which share the state.",
        ) from exc


def _taken(rows: pa.Array, positions: Slots, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    return taken(rows, pa.array(positions, mask=is_null if is_null.any() else None))
