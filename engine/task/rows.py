"""What kernels see of a record batch while it passes the steps of a pipeline.

To a kernel it is a ``pyarrow.RecordBatch`` (``num_rows``, ``column``, ``filter``), but it costs far
less to make, and a column that nobody asks for is never filtered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc


class Rows:
    """Columns of equal length.

    :param num_rows: that length.
    :param load: makes the column at a position; called once for each at most.
    """

    __slots__ = ("_columns", "_load", "num_rows")

    def __init__(self, num_rows: int, load: Callable[[int], pa.Array]) -> None:
        self.num_rows = num_rows
        self._load = load
        self._columns: dict[int, pa.Array] = {}

    def column(self, index: int) -> pa.Array:
        """The column at a position."""
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

    def taken(self, positions: pa.Array) -> Rows:
        """The rows at these positions, each as often as it is named."""
        return Rows(
            len(positions), lambda index: pc.take(self.column(index), positions, boundscheck=False)
        )


def as_batch(arrays: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A record batch; one without columns has a number of rows all the same."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
