"""``sum`` and ``try_sum`` of whole and of floating numbers; ``product``.

Whole numbers are added exactly: whether a sum fits BIGINT is looked at behind each batch. One that
does not wraps around without ANSI mode, is NULL for ever in ``try_sum``, and otherwise an error.
Floating numbers are added row by row, in the order in which they come.

Source: Spark's ``Sum`` and ``Product``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.expressions import ansi
from engine.expressions.buffers import valid_of
from engine.state.aggregates.fold import NumbersFold, Values, numbers
from engine.state.columns import Slots, fixed_array, fixed_values

_LONG = 1 << 63
_LOW = 0xFFFFFFFF


class LongSum(NumbersFold):
    """A sum, whether there are values, and whether it was too large (``try_sum`` alone has that in
    its partial form)."""

    kinds = (("i8", 0), ("?", False), ("?", False))
    _bound = 0
    """No sum is larger than this, with either sign."""

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        total = ("sum", pa.int64())
        return (total, ("isEmpty", pa.bool_())) if self._is_try else (total,)

    @property
    def _is_try(self) -> bool:
        return self.aggregate.eval_mode == "TRY"

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        sums, seen, _ = self.arrays
        slots, narrow = numbers(slots, columns[0])
        if not len(slots):
            return
        values = narrow.astype(np.int64, copy=False)
        if self.aggregate.eval_mode != "LEGACY" and self._may_overflow(values):
            self._add_with_care(slots, values)
        else:
            np.add.at(sums, slots, values)
        seen[slots] = True

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        self.update(slots, states[:1])
        if self._is_try:
            has_value = np.broadcast_to(valid_of(states[0]), len(slots))
            is_lost = ~has_value & (fixed_values(states[1]) == 0)
            self.arrays[2][slots[is_lost]] = True
            self.arrays[1][slots[is_lost]] = True

    def states(self, slots: Slots) -> list[pa.Array]:
        if not self._is_try:
            return [self.results(slots)]
        return [self.results(slots), fixed_array(pa.bool_(), ~self.arrays[1][slots])]

    def results(self, slots: Slots) -> pa.Array:
        sums, seen, overflowed = self.arrays
        return fixed_array(pa.int64(), sums[slots], seen[slots] & ~overflowed[slots])

    def _may_overflow(self, values: Values) -> bool:
        added = len(values) * max(abs(int(values.max())), abs(int(values.min())))
        self._bound += added
        if self._bound >= _LONG:
            sums = self.arrays[0]
            self._bound = max(abs(int(sums.max())), abs(int(sums.min()))) + added
        return self._bound >= _LONG

    def _add_with_care(self, slots: Slots, values: Values) -> None:
        """In two halves, neither of which can be too large."""
        sums, _, overflowed = self.arrays
        distinct, owners = np.unique(slots, return_inverse=True)
        high, low = sums[distinct] >> 32, sums[distinct] & _LOW
        np.add.at(high, owners, values >> 32)
        np.add.at(low, owners, values & _LOW)
        high += low >> 32
        fits = (high >= -(1 << 31)) & (high < 1 << 31)
        if not fits.all():
            if not self._is_try:
                raise ansi.arithmetic_overflow(self.aggregate.dtype, "try_sum")
            overflowed[distinct[~fits]] = True
        sums[distinct] = np.where(fits, (high << 32) | (low & _LOW), 0)


class DoubleSum(NumbersFold):
    """A sum, and whether there are values."""

    kinds = (("f8", 0.0), ("?", False))
    state = (("sum", pa.float64()),)
    _add: np.ufunc = np.add

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        slots, values = numbers(slots, columns[0])
        with np.errstate(all="ignore"):
            self._add.at(self.arrays[0], slots, values.astype(np.float64, copy=False))
        self.arrays[1][slots] = True

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        self.update(slots, states)

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self.results(slots)]

    def results(self, slots: Slots) -> pa.Array:
        sums, seen = self.arrays
        return fixed_array(pa.float64(), sums[slots], seen[slots])


class Product(DoubleSum):
    """As a sum, with factors."""

    kinds = (("f8", 1.0), ("?", False))
    state = (("product", pa.float64()),)
    _add = np.multiply
