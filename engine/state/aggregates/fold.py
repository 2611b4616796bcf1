"""What an aggregate function is here: the states of all keys, side by side, by slot.

All rows of a batch are folded in at once. A state can leave as a few columns, its *partial* form,
and be merged with others: so it travels from the tasks that read to those that own the key, and
into a snapshot and out of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.expressions.buffers import valid_of
from engine.expressions.row_context import taken
from engine.pipeline.stateful import Aggregate
from engine.state.arrays import grown
from engine.state.columns import Slots, fixed_values

Values = npt.NDArray[Any]


class Fold(ABC):
    """The states of one aggregate. It has no slots before :meth:`grow`; each slot's state is at
    first that of no rows."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate

    @property
    @abstractmethod
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and types of the columns of the partial form."""

    @property
    def kind(self) -> str:
        """Of states whose columns other functions have as well: what tells them apart, for none can
        go on with those of another. Empty: the columns do."""
        return ""

    @property
    def width(self) -> int:
        """How many bytes each state has, if these are many, and as many of every state; else 0."""
        return 0

    @abstractmethod
    def grow(self, room: int) -> None:
        """Slots are below this number from now on."""

    @abstractmethod
    def clear(self, slots: Slots) -> None:
        """The states of these slots are those of no rows again."""

    @abstractmethod
    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        """Fold rows in, in their order.

        :param slots: of each row.
        :param columns: the values of the aggregate's arguments.
        :raises TransformError: a result is too large, in ANSI mode.
        """

    @abstractmethod
    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        """Fold partial forms in, each of rows that came later than those before it."""

    @abstractmethod
    def states(self, slots: Slots) -> list[pa.Array]:
        """The partial forms of these slots."""

    @abstractmethod
    def results(self, slots: Slots) -> pa.Array:
        """What the function returns for each of these slots.

        :raises TransformError: a result is too large, in ANSI mode.
        """


class NumbersFold(Fold):
    """States that are a few numbers, each in an array by slot.

    :ivar kinds: NumPy's type of each, and its value before the first row.
    """

    kinds: tuple[tuple[str, Any], ...]

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self.arrays = [np.empty(0, dtype) for dtype, _ in self.kinds]

    def grow(self, room: int) -> None:
        self.arrays = [
            grown(array, room, initial)
            for array, (_, initial) in zip(self.arrays, self.kinds, strict=True)
        ]

    def clear(self, slots: Slots) -> None:
        for array, (_, initial) in zip(self.arrays, self.kinds, strict=True):
            array[slots] = initial


def rows_with_values(slots: Slots, columns: Sequence[pa.Array]) -> tuple[Slots, Sequence[pa.Array]]:
    """The rows in which no column is NULL."""
    known = [valid_of(column) for column in columns if column.null_count]
    if not known:
        return slots, columns
    rows = np.flatnonzero(np.logical_and.reduce(known))
    positions = pa.array(rows)
    return slots[rows], [taken(column, positions) for column in columns]


def numbers(slots: Slots, column: pa.Array) -> tuple[Slots, Values]:
    """The rows in which the column is not NULL, and its values, of a type of fixed width."""
    values = fixed_values(column)
    if column.null_count == 0:
        return slots, values
    known = valid_of(column)
    return slots[known], values[known]


def firsts(slots: Slots) -> Slots:
    """Which row is the first of its slot."""
    return _marked(slots, slice(None, None, -1))


def lasts(slots: Slots) -> Slots:
    """Which row is the last of its slot."""
    return _marked(slots, slice(None))


def _marked(slots: Slots, order: slice) -> Slots:
    if not len(slots):
        return slots
    rows = np.arange(len(slots))
    marks = np.empty(int(slots.max()) + 1, np.int64)
    marks[slots[order]] = rows[order]  # of several, the last assignment counts
    return np.flatnonzero(marks[slots] == rows)
