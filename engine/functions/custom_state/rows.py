"""Rows and results of a processor as PySpark's ``Row`` (``transformWithState``).

Source: PySpark's ``TransformWithStateInPySparkRowSerializer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import Row

from engine.functions.invoke import labelled


class RowForm:
    """:param arguments: the columns that the processor gets, as functions see them.
    :param keys: those of the key, likewise.
    """

    def __init__(self, arguments: pa.Schema, keys: pa.Schema) -> None:
        self._arguments = arguments
        self._keys = keys
        self._row: Any = Row(*arguments.names)

    def keys(self, columns: Sequence[pa.Array]) -> list[tuple[Any, ...]]:
        """The user's form of keys."""
        return list(zip(*_lists(columns, self._keys), strict=True))

    def groups(
        self, columns: Sequence[pa.Array], starts: npt.NDArray[np.int64]
    ) -> Iterator[Iterator[Row]]:
        """What the user gets of each key.

        :param starts: see :class:`engine.functions.custom_state.keys.Grouped`.
        """
        row = self._row
        values = list(zip(*_lists(columns, self._arguments), strict=True))
        bounds = starts.tolist()
        for start, end in pairwise(bounds):
            yield (row(*each) for each in values[start:end])


class RowResults:
    """Those of a batch.

    :param returned: their columns.
    """

    def __init__(self, returned: pa.Schema) -> None:
        self._returned = returned
        self._rows: list[dict[str, Any]] = []

    def add(self, rows: Iterable[Row]) -> None:
        """Take what the user returns."""
        self._rows += [row.asDict(True) for row in rows]

    def made(self) -> Iterator[pa.RecordBatch]:
        """All that was taken so far."""
        rows, self._rows = self._rows, []
        if rows:
            # A column that does not fit one array is several: so are the batches.
            yield from pa.Table.from_pylist(rows, schema=self._returned).to_batches()


def _lists(columns: Sequence[pa.Array], schema: pa.Schema) -> list[list[Any]]:
    names = [str(index) for index in range(len(schema))]
    batch = labelled(pa.RecordBatch.from_arrays(list(columns), names=names), schema)
    return [column.to_pylist() for column in batch.columns]
