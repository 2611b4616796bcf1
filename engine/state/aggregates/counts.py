"""``count``: rows in which no argument is NULL. ``count_if`` and ``regr_count`` are counts, too.

Source: Spark's ``Count``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.expressions.buffers import valid_of
from engine.state.aggregates.fold import NumbersFold
from engine.state.columns import Slots, fixed_array, fixed_values


class Count(NumbersFold):
    """The state is the count."""

    kinds = (("i8", 0),)
    state = (("count", pa.int64()),)

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        known = [valid_of(column) for column in columns if column.null_count]
        if known:
            slots = slots[np.logical_and.reduce(known)]
        np.add.at(self.arrays[0], slots, 1)

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        np.add.at(self.arrays[0], slots, fixed_values(states[0]))

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self.results(slots)]

    def results(self, slots: Slots) -> pa.Array:
        return fixed_array(pa.int64(), self.arrays[0][slots])
