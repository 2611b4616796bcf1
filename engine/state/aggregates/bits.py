"""``bit_and``, ``bit_or``, ``bit_xor``.

Source: Spark's ``BitAggregate``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.fold import NumbersFold, numbers
from engine.state.columns import Slots, fixed_array, storage


class Bits(NumbersFold):
    """The bits of all values together, and whether there are values."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._join: Any = {
            "BitAndAgg": np.bitwise_and, "BitOrAgg": np.bitwise_or, "BitXorAgg": np.bitwise_xor
        }[aggregate.function]  # fmt: skip
        initial = -1 if aggregate.function == "BitAndAgg" else 0
        self.kinds = ((storage(aggregate.dtype).str, initial), ("?", False))
        super().__init__(aggregate)

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("bits", self.aggregate.dtype),)

    @property
    def kind(self) -> str:
        return self.aggregate.function

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        slots, values = numbers(slots, columns[0])
        self._join.at(self.arrays[0], slots, values)
        self.arrays[1][slots] = True

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        self.update(slots, states)

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self.results(slots)]

    def results(self, slots: Slots) -> pa.Array:
        bits, seen = self.arrays
        return fixed_array(self.aggregate.dtype, bits[slots], seen[slots])
