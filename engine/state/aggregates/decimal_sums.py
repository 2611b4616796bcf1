"""``sum`` and ``avg`` of decimals.

A sum has ten digits more than its values, 38 at most; only then can it become too large, and if it
is behind a batch, it stays so: an error in ANSI mode when somebody asks for it, otherwise NULL.

Source: Spark's ``Sum`` and ``Average``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.expressions import ansi
from engine.expressions.buffers import valid_of
from engine.expressions.decimals import arithmetic
from engine.expressions.tree import Expr
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.fold import NumbersFold
from engine.state.aggregates.wide_sums import WideSums
from engine.state.columns import Slots, fixed_array, fixed_values

_DIGITS_MAX = 38
_MORE_DIGITS = 10
_COUNTED = pa.decimal128(20, 0)
"""A BIGINT as Spark divides by it."""


class DecimalTotals(NumbersFold):
    """A sum, of how many values, and whether it was too large."""

    kinds = (("i8", 0), ("?", False))

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._sums = WideSums()
        argument = aggregate.arguments[0].dtype
        digits = argument.precision + _MORE_DIGITS
        self._is_capped = digits > _DIGITS_MAX
        self._summed = pa.decimal128(min(digits, _DIGITS_MAX), argument.scale)

    def grow(self, room: int) -> None:
        super().grow(room)
        self._sums.grow(room)

    def clear(self, slots: Slots) -> None:
        super().clear(slots)
        self._sums.clear(slots)

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        self._add(slots, columns[0])
        np.add.at(self.arrays[0], slots, np.broadcast_to(valid_of(columns[0]), len(slots)))

    def _add(self, slots: Slots, values: pa.Array) -> None:
        self._sums.add(slots, values)
        if self._is_capped and len(slots):
            fits = self._sums.fits(slots, self._summed.precision)
            self.arrays[1][slots[~fits]] = True

    def _totals(self, slots: Slots) -> pa.Array:
        counts, overflowed = self.arrays
        return self._sums.take(slots, self._summed, (counts[slots] > 0) & ~overflowed[slots])

    def _totals_to_return(self, slots: Slots, instead: str) -> pa.Array:
        totals = self._totals(slots)
        if self.aggregate.eval_mode == "ANSI":
            has_total = np.broadcast_to(valid_of(totals), len(slots))
            if (~has_total & (self.arrays[0][slots] > 0)).any():
                raise ansi.arithmetic_overflow(self._summed, instead)
        return totals


class DecimalSum(DecimalTotals):
    """Its partial form does not have the count, only whether there are values."""

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        return ("sum", self._summed), ("isEmpty", pa.bool_())

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        counts, overflowed = self.arrays
        self._add(slots, states[0])
        has_rows = fixed_values(states[1]) == 0
        counts[slots[has_rows]] = 1
        has_total = np.broadcast_to(valid_of(states[0]), len(slots))
        overflowed[slots[has_rows & ~has_total]] = True

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self._totals(slots), fixed_array(pa.bool_(), self.arrays[0][slots] == 0)]

    def results(self, slots: Slots) -> pa.Array:
        return self._totals_to_return(slots, "try_sum")


class DecimalAverage(DecimalTotals):
    """The sum is divided as Spark divides decimals."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        sides = Expr("Column", (), self._summed), Expr("Column", (), _COUNTED)
        mode = {"eval_mode": aggregate.eval_mode}
        self._divide = arithmetic(Expr("Divide", sides, aggregate.dtype, True, mode))

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        return ("sum", self._summed), ("count", pa.int64())

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        counts, overflowed = self.arrays
        self._add(slots, states[0])
        added = fixed_values(states[1])
        np.add.at(counts, slots, added)
        has_total = np.broadcast_to(valid_of(states[0]), len(slots))
        overflowed[slots[(added > 0) & ~has_total]] = True

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self._totals(slots), fixed_array(pa.int64(), self.arrays[0][slots])]

    def results(self, slots: Slots) -> pa.Array:
        totals = self._totals_to_return(slots, "try_avg")
        counts = fixed_array(pa.int64(), np.maximum(self.arrays[0][slots], 1))
        return self._divide(totals, counts.cast(_COUNTED))
