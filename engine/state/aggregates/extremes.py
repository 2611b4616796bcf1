"""``min`` and ``max`` (``bool_and`` and ``bool_or`` are such, too), ``min_by`` and ``max_by``.

NaN is larger than all numbers. -0.0 equals 0.0, and of equal values ``min`` and ``max`` keep the
first, ``min_by`` and ``max_by`` the last.

Source: Spark's ``Min``, ``Max``, ``MaxMinBy``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.expressions.logic.ranks import ranks
from engine.expressions.row_context import taken
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.fold import Fold, NumbersFold, Values, numbers, rows_with_values
from engine.state.columns import Slots, column_of, fixed_array, storage

_LARGEST = {"Max", "MaxBy"}


def extreme(aggregate: Aggregate) -> Fold:
    """``min`` or ``max`` of a type."""
    dtype = aggregate.dtype
    if pa.types.is_primitive(dtype) and not pa.types.is_interval(dtype):
        return _NumberExtreme(aggregate)
    return _AnyExtreme(aggregate)


class _NumberExtreme(NumbersFold):
    """Of numbers, times and booleans: the value, and whether there is one."""

    def __init__(self, aggregate: Aggregate) -> None:
        dtype = storage(aggregate.dtype)
        is_max = aggregate.function in _LARGEST
        self._is_floating = dtype.kind == "f"
        initial: Any
        self._choose: np.ufunc
        if self._is_floating:  # fmin passes NaN over
            self._choose, initial = (np.maximum, -np.inf) if is_max else (np.fmin, np.nan)
        else:
            limits = np.iinfo(dtype)
            self._choose = np.maximum if is_max else np.minimum
            initial = limits.min if is_max else limits.max
        self.kinds = ((dtype.str, initial), ("?", False))
        self._has_negative_zero = False
        super().__init__(aggregate)

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        return ((self.aggregate.function.lower(), self.aggregate.dtype),)

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        slots, values = numbers(slots, columns[0])
        with np.errstate(invalid="ignore"):
            if self._is_floating and self._minds_zeros(values):
                self._update_minding_zeros(slots, values)
            else:
                self._choose.at(self.arrays[0], slots, values)
        self.arrays[1][slots] = True

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        self.update(slots, states)

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self.results(slots)]

    def results(self, slots: Slots) -> pa.Array:
        extremes, seen = self.arrays
        return fixed_array(self.aggregate.dtype, extremes[slots], seen[slots])

    def _minds_zeros(self, values: Values) -> bool:
        if not self._has_negative_zero:
            self._has_negative_zero = bool((np.signbit(values) & (values == 0)).any())
        return self._has_negative_zero

    def _update_minding_zeros(self, slots: Slots, values: Values) -> None:
        """Of the zeros that are an extreme, the first stays, whatever its sign."""
        extremes = self.arrays[0]
        before = extremes[slots]
        self._choose.at(extremes, slots, values)
        new = np.flatnonzero((values == 0) & (extremes[slots] == 0))[::-1]
        extremes[slots[new]] = values[new]
        old = np.flatnonzero((before == 0) & (extremes[slots] == 0))
        extremes[slots[old]] = before[old]


class _AnyExtreme(Fold):
    """Of whatever has an order."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._extremes = column_of(aggregate.dtype)

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        return ((self.aggregate.function.lower(), self.aggregate.dtype),)

    def grow(self, room: int) -> None:
        self._extremes.grow(room)

    def clear(self, slots: Slots) -> None:
        self._extremes.clear(slots)

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        slots, (values,) = rows_with_values(slots, columns)
        known = np.unique(slots)
        known = known[self._extremes.is_valid(known)]
        owners = np.concatenate([known, slots])
        candidates = pa.concat_arrays([self._extremes.take(known), values])
        is_max = self.aggregate.function in _LARGEST
        best = _best(owners, ranks(candidates), is_max=is_max, is_last=False)
        best = best[best >= len(known)]
        self._extremes.put(owners[best], taken(candidates, pa.array(best)))

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        self.update(slots, states)

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self.results(slots)]

    def results(self, slots: Slots) -> pa.Array:
        return self._extremes.take(slots)


class ExtremeBy(Fold):
    """The value that stands beside the extreme, and the extreme."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._value_type, self._order_type = (each.dtype for each in aggregate.arguments)
        self._values, self._orders = column_of(self._value_type), column_of(self._order_type)

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        return ("value", self._value_type), ("ordering", self._order_type)

    @property
    def kind(self) -> str:
        return self.aggregate.function

    def grow(self, room: int) -> None:
        self._values.grow(room)
        self._orders.grow(room)

    def clear(self, slots: Slots) -> None:
        self._values.clear(slots)
        self._orders.clear(slots)

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        values, orders = columns
        if orders.null_count:
            rows = np.flatnonzero(orders.is_valid().to_numpy(zero_copy_only=False))
            slots, positions = slots[rows], pa.array(rows)
            values, orders = taken(values, positions), taken(orders, positions)
        known = np.unique(slots)
        known = known[self._orders.is_valid(known)]
        owners = np.concatenate([known, slots])
        candidates = pa.concat_arrays([self._orders.take(known), orders])
        is_max = self.aggregate.function in _LARGEST
        best = _best(owners, ranks(candidates), is_max=is_max, is_last=True)
        best = best[best >= len(known)]
        positions = pa.array(best - len(known))
        self._orders.put(owners[best], taken(orders, positions))
        self._values.put(owners[best], taken(values, positions))

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        self.update(slots, states)

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self._values.take(slots), self._orders.take(slots)]

    def results(self, slots: Slots) -> pa.Array:
        return self._values.take(slots)


def _best(owners: Slots, keys: Slots, *, is_max: bool, is_last: bool) -> Slots:
    """For each owner the row with the largest or the smallest key; of several the first or the
    last."""
    rows = np.arange(len(owners))
    order = np.lexsort((-rows if is_last else rows, -keys if is_max else keys, owners))
    chosen = owners[order]
    starts = np.ones(len(order), np.bool_)
    starts[1:] = chosen[1:] != chosen[:-1]
    return np.asarray(order[starts])
