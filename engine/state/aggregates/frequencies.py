"""``mode``, ``median``, ``percentile`` and its kin, ``approx_percentile``: how often each value was
there.

Source: Spark's ``Mode``, ``PercentileBase``, ``ApproximatePercentile``, ``QuantileSummaries``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.casts.rules import Casting, converter
from engine.expressions.datum import constant_value
from engine.expressions.lists import Lists, entries
from engine.expressions.logic.ranks import normalized, ranks
from engine.expressions.releases import SPARK_VERSION, has
from engine.expressions.row_context import taken
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.bags import Bags
from engine.state.aggregates.collections import equal_items
from engine.state.aggregates.fold import Fold, Values, rows_with_values
from engine.state.columns import Slots, fixed_array, fixed_values


class _Frequencies(Fold):
    """The distinct values, in the order in which they came, each with its count."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._value = aggregate.arguments[0].dtype
        entry = pa.struct([("key", self._value), ("value", pa.int64())])
        self._bags = Bags(entry, _counted)

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("counts", self._bags.dtype),)

    def grow(self, room: int) -> None:
        self._bags.grow(room)

    def clear(self, slots: Slots) -> None:
        self._bags.clear(slots)

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        slots, (values,) = rows_with_values(slots, columns[:1])
        self._bags.add(slots, _entries(values, np.ones(len(slots), np.int64)))

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        self._bags.add_lists(slots, states[0])

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self._bags.take(slots).array(self._bags.dtype)]

    def _ordered(self, slots: Slots) -> tuple[Lists, Slots, Values]:
        """The entries of each slot, the ranks of their values, and the counts."""
        lists = self._bags.take(slots)
        return lists, ranks(lists.items.field(0)), fixed_values(lists.items.field(1))


class Mode(_Frequencies):
    """The value that was there most often; of several the first that came, or the one that the
    query asks for."""

    def results(self, slots: Slots) -> pa.Array:
        lists, order, counts = self._ordered(slots)
        reverse = self.aggregate.params.get("reverse_opt")
        preferred = np.arange(len(order)) if reverse is None else order if reverse else -order
        best_first = np.lexsort((preferred, -counts, lists.rows))
        chosen = np.full(len(slots), -1, np.int64)
        has_values = lists.lengths > 0
        chosen[has_values] = best_first[lists.starts[has_values]]
        positions = pa.array(chosen, mask=~has_values)
        return taken(lists.items.field(0), positions)


class Percentile(_Frequencies):
    """Exactly, interpolated between the two values beside the position, which since Spark 4.3 can
    end in another digit. Spark tells 0.0 from -0.0,
    in an order that is that of its hash table; this does not."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        wanted = constant_value(aggregate.arguments[1])
        self._is_list = isinstance(wanted, list)
        self._percentages = wanted if self._is_list else [wanted]
        self._as_doubles = converter(Casting(self._value, pa.float64(), "LEGACY", "UTC"))

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        if len(columns) < 3:
            super().update(slots, columns)
            return
        slots, (values, _, frequencies) = rows_with_values(slots, columns)
        times = fixed_values(frequencies).astype(np.int64)
        if (times < 0).any():
            raise _negative(int(times[times < 0][0]))
        rows = np.flatnonzero(times)
        self._bags.add(slots[rows], _entries(taken(values, pa.array(rows)), times[rows]))

    def results(self, slots: Slots) -> pa.Array:
        lists, order, counts = self._ordered(slots)
        is_descending = bool(self.aggregate.params.get("reverse", False))
        by_value = np.lexsort((-order if is_descending else order, lists.rows))
        has_values = lists.lengths > 0
        values = fixed_values(self._as_doubles(lists.items.field(0)))[by_value]
        groups = _Sorted(values, counts[by_value], lists.starts[has_values])
        found = np.empty((len(slots), len(self._percentages)))
        for index, each in enumerate(self._percentages):
            found[has_values, index] = self._at(groups, each)
        if not self._is_list:
            return fixed_array(pa.float64(), np.ascontiguousarray(found[:, 0]), has_values)
        lengths = np.where(has_values, len(self._percentages), 0)
        items = pa.array(found[has_values].ravel())
        return Lists(items, lengths, has_values).array(self.aggregate.dtype)

    def _at(self, groups: _Sorted, percentage: float) -> Values:
        position = (groups.totals - 1) * percentage
        low, high = np.floor(position), np.ceil(position)
        before, behind = (groups.index(each.astype(np.int64) + 1) for each in (low, high))
        lower, higher = groups.values[before], groups.values[behind]
        with np.errstate(all="ignore"):
            between = (
                lower + (position - low) * (higher - lower)
                if has(self.aggregate.params[SPARK_VERSION], "4.3.0")
                else (high - position) * lower + (position - low) * higher
            )
        return np.where(before == behind, lower, between)


class DiscretePercentile(Percentile):
    """The first value that so many are not behind."""

    def _at(self, groups: _Sorted, percentage: float) -> Values:
        return groups.values[groups.index(np.ceil(groups.totals * percentage).astype(np.int64))]


class ApproximatePercentile(_Frequencies):
    """The value with which so many have come, exactly. So is Spark's of fewer values than half of
    the accuracy; of more its rank is off by one in so many, depending on how rows came together."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        wanted = constant_value(aggregate.arguments[1])
        self._is_list = isinstance(wanted, list)
        self._percentages = np.array(wanted if self._is_list else [wanted], np.float64)

    def results(self, slots: Slots) -> pa.Array:
        lists, order, counts = self._ordered(slots)
        by_value = np.lexsort((order, lists.rows))
        has_values = (lists.lengths > 0) & (len(self._percentages) > 0)
        groups = _Sorted(by_value, counts[by_value], lists.starts[lists.lengths > 0])
        places = np.empty((len(slots), len(self._percentages)), np.int64)
        for index, each in enumerate(self._percentages):
            rank = np.maximum(np.ceil(groups.totals * each), 1).astype(np.int64)
            places[has_values, index] = groups.values[groups.index(rank)]
        found = taken(lists.items.field(0), pa.array(places[has_values].ravel()))
        items = _as_double_keeps_it(found)
        if self._is_list:
            lengths = np.where(has_values, len(self._percentages), 0)
            return Lists(items, lengths, has_values).array(self.aggregate.dtype)
        rows = np.cumsum(has_values) - 1
        return taken(items, pa.array(rows, mask=~has_values))


def _as_double_keeps_it(values: pa.Array) -> pa.Array:
    """Spark has the values as DOUBLEs meanwhile: those of 64 bits lose some."""
    dtype = values.type
    if not (pa.types.is_int64(dtype) or pa.types.is_timestamp(dtype)):
        return values
    numbers = fixed_values(values).astype(np.float64)
    limit = float(2**63)
    longs = np.where(numbers >= limit, 0, numbers).astype(np.int64)
    return fixed_array(dtype, np.where(numbers >= limit, 2**63 - 1, longs))


class _Sorted:
    """The distinct values of several slots, or their places, each slot's side by side, in order.

    :param starts: where each slot's begin; none is without values.
    """

    def __init__(self, values: Values, counts: Values, starts: Slots) -> None:
        self.values = values
        self._starts = starts
        self._ends = np.cumsum(counts)
        self._before = self._ends[starts] - counts[starts]
        self.totals = np.add.reduceat(counts, starts) if len(starts) else starts

    def index(self, count: Slots) -> Slots:
        """For each slot the value with which so many have come."""
        found = np.searchsorted(self._ends, self._before + count)
        return np.maximum(found, self._starts)


def _entries(values: pa.Array, counts: Values) -> pa.Array:
    """As Spark counts them, -0.0 is 0.0."""
    return entries(normalized(values), pa.array(counts))


def _negative(count: int) -> TransformError:
    return failure(
        "NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION",
        f"Found {count} as a frequency, where it has to be positive.",
    )


def _counted(lists: Lists) -> Lists:
    """Equal values of a row as one, with the sum of their counts."""
    keys = lists.items.field(0)
    order, starts = equal_items(lists, keys)
    if len(starts) == len(order):
        return lists
    counts = np.add.reduceat(fixed_values(lists.items.field(1))[order], starts)
    first = order[starts]
    in_order = np.argsort(first)
    items = entries(taken(keys, pa.array(first[in_order])), pa.array(counts[in_order]))
    lengths = np.bincount(lists.rows[first], minlength=len(lists)).astype(np.int64)
    return Lists(items, lengths, lists.valid)
