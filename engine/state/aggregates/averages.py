"""``avg`` and ``try_avg`` of whole and of floating numbers: the sum is a DOUBLE, added up row by
row, in the order in which they come.

Source: Spark's ``Average``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.state.aggregates.fold import NumbersFold, numbers
from engine.state.columns import Slots, fixed_array, fixed_values


class Average(NumbersFold):
    """A sum and a count."""

    kinds = (("f8", 0.0), ("i8", 0))
    state = (("sum", pa.float64()), ("count", pa.int64()))

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        sums, counts = self.arrays
        slots, values = numbers(slots, columns[0])
        with np.errstate(all="ignore"):
            np.add.at(sums, slots, values.astype(np.float64, copy=False))
        np.add.at(counts, slots, 1)

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        sums, counts = self.arrays
        with np.errstate(all="ignore"):
            np.add.at(sums, slots, fixed_values(states[0]))
        np.add.at(counts, slots, fixed_values(states[1]))

    def states(self, slots: Slots) -> list[pa.Array]:
        sums, counts = self.arrays
        return [fixed_array(pa.float64(), sums[slots]), fixed_array(pa.int64(), counts[slots])]

    def results(self, slots: Slots) -> pa.Array:
        counts = self.arrays[1][slots]
        with np.errstate(all="ignore"):
            averages = self.arrays[0][slots] / np.maximum(counts, 1)
        return fixed_array(pa.float64(), averages, counts > 0)
