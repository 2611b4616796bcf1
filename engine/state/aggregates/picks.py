"""``first``, ``last``, ``any_value``: by the order in which rows come.

Source: Spark's ``First`` and ``Last``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.expressions.row_context import taken
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.fold import Fold, firsts, lasts, rows_with_values
from engine.state.arrays import grown
from engine.state.columns import Slots, column_of, fixed_array, fixed_values


class Pick(Fold):
    """A value, which may be NULL, and whether it was set."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._is_first = aggregate.function == "First"
        self._ignores_nulls = bool(aggregate.params.get("ignore_nulls", False))
        self._values = column_of(aggregate.dtype)
        self._is_set = np.empty(0, np.bool_)

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (self.aggregate.function.lower(), self.aggregate.dtype), ("valueSet", pa.bool_())

    def grow(self, room: int) -> None:
        self._values.grow(room)
        self._is_set = grown(self._is_set, room, False)

    def clear(self, slots: Slots) -> None:
        self._values.clear(slots)
        self._is_set[slots] = False

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        if self._ignores_nulls:
            slots, columns = rows_with_values(slots, columns)
        self._pick(slots, columns[0])

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        values, is_set = states
        rows = np.flatnonzero(fixed_values(is_set))
        self._pick(slots[rows], taken(values, pa.array(rows)))

    def _pick(self, slots: Slots, values: pa.Array) -> None:
        if self._is_first:
            rows = firsts(slots)
            rows = rows[~self._is_set[slots[rows]]]
        else:
            rows = lasts(slots)
        if len(rows):
            self._values.put(slots[rows], taken(values, pa.array(rows)))
            self._is_set[slots[rows]] = True

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self.results(slots), fixed_array(pa.bool_(), self._is_set[slots])]

    def results(self, slots: Slots) -> pa.Array:
        return self._values.take(slots)
