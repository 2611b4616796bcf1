"""What kernels see of a record batch while it passes the steps of a pipeline.

To a kernel it is a ``pyarrow.RecordBatch`` (``num_rows``, ``column``, ``filter``, ``slice``, and
nothing else), but it costs far less to make, and a column that nobody asks for is never filtered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.buffers import null_elsewhere, true_positions

_take = pc.get_function("array_take").call
_WITHIN = pc.TakeOptions(boundscheck=False)


def taken(column: pa.Array, positions: pa.Array) -> pa.Array:
    """The values at these positions, which are all within the column; NULL where they are NULL."""
    return _take([column, positions], _WITHIN)


class Rows:
    """Columns of equal length.

    :param num_rows: that length.
    :param load: makes the column at a position, or the variable of a lambda with a name; called
        once for each at most.
    """

    __slots__ = ("_columns", "_load", "num_rows")

    def __init__(self, num_rows: int, load: Callable[[Any], pa.Array]) -> None:
        self.num_rows = num_rows
        self._load = load
        self._columns: dict[int | str, pa.Array] = {}

    def column(self, index: int | str) -> pa.Array:
        """The column at a position; by its name, the variable of a lambda."""
        column = self._columns.get(index)
        if column is None:
            column = self._columns[index] = self._load(index)
        return column

    def extended(self, width: int, columns: Sequence[pa.Array]) -> Rows:
        """These columns, of which there are ``width``, and more behind them."""
        return Rows(
            self.num_rows,
            lambda index: self.column(index) if index < width else columns[index - width],
        )

    def filter(self, mask: pa.Array) -> Rows:
        """The rows for which the mask is true: these very columns, if it is for all of them."""
        selected: int = mask.true_count
        if selected == self.num_rows:
            return self
        return self.taken(true_positions(mask))

    def slice(self, offset: int, length: int | None = None) -> Rows:
        """The rows from a position on, all of them or so many."""
        left = max(self.num_rows - offset, 0)
        count = left if length is None else min(length, left)
        return Rows(count, lambda index: self.column(index).slice(offset, count))

    def taken(self, positions: pa.Array) -> Rows:
        """The rows at these positions, each as often as it is named."""
        return Rows(len(positions), lambda index: taken(self.column(index), positions))


class Veiled(Rows):
    """Rows of which some may not count: there, every column is NULL.

    For most functions NULL is no reason to fail, so that all rows can be evaluated at once. Those
    for which it is are evaluated again, on the rows that count alone.
    """

    __slots__ = ("_counting",)

    def __init__(
        self, num_rows: int, load: Callable[[Any], pa.Array], counting: pa.Array | None = None
    ) -> None:
        super().__init__(num_rows, load)
        self._counting = counting

    @property
    def counts(self) -> bool:
        """Whether any row does."""
        return self._counting is None or self._counting.true_count > 0

    def where(self, mask: pa.Array) -> Veiled:
        """Those of them for which the mask, which has no nulls, is true; as they are, if it is for
        all."""
        if mask.true_count == self.num_rows:
            return self
        counting = mask if self._counting is None else pc.and_(self._counting, mask)
        return Veiled(
            self.num_rows, lambda index: null_elsewhere(self.column(index), counting), counting
        )
