"""What kernels see of a record batch while it passes the steps of a pipeline.

To a kernel it is a ``pyarrow.RecordBatch`` (``num_rows``, ``column``, ``filter``, ``slice``, and
nothing else), but it costs far less to make, and a column that nobody asks for is never filtered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


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
        return self.taken(pc.indices_nonzero(mask))

    def slice(self, offset: int, length: int | None = None) -> Rows:
        """The rows from a position on, all of them or so many."""
        left = max(self.num_rows - offset, 0)
        count = left if length is None else min(length, left)
        return Rows(count, lambda index: self.column(index).slice(offset, count))

    def taken(self, positions: pa.Array) -> Rows:
        """The rows at these positions, each as often as it is named."""
        return Rows(
            len(positions), lambda index: pc.take(self.column(index), positions, boundscheck=False)
        )
