"""``collect_list``, ``collect_set``, ``listagg``: all values, in the order in which they come.

Source: Spark's ``CollectList``, ``CollectSet``, ``ListAgg``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.exchange.hashing import hash_rows
from engine.expressions.datum import constant
from engine.expressions.lists import Lists
from engine.expressions.logic.ranks import normalized, ranks
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.bags import Bags
from engine.state.aggregates.fold import Fold, rows_with_values
from engine.state.columns import Slots


class Collect(Fold):
    """The values that are not NULL, or all of them; a set has 0.0 for -0.0."""

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._ignores_nulls = bool(aggregate.params.get("ignore_nulls", True))
        self._is_set = aggregate.function == "CollectSet"
        item = aggregate.arguments[0].dtype
        self.bags = Bags(item, without_repetitions if self._is_set else None)

    @property
    def state(self) -> tuple[tuple[str, pa.DataType], ...]:
        return (("values", self.bags.dtype),)

    @property
    def kind(self) -> str:
        return "distinct" if self._is_set else "all"

    def grow(self, room: int) -> None:
        self.bags.grow(room)

    def clear(self, slots: Slots) -> None:
        self.bags.clear(slots)

    def update(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        columns = columns[:1]
        if self._ignores_nulls:
            slots, columns = rows_with_values(slots, columns)
        self.bags.add(slots, normalized(columns[0]) if self._is_set else columns[0])

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        self.bags.add_lists(slots, states[0])

    def states(self, slots: Slots) -> list[pa.Array]:
        return [self.bags.take(slots).array(self.bags.dtype)]

    def results(self, slots: Slots) -> pa.Array:
        return self.bags.take(slots).array(self.aggregate.dtype)


class JoinedTexts(Collect):
    """The values as one, with a delimiter between them; of none it is NULL.

    Param ``descending``: whether they are ordered so (``WITHIN GROUP (ORDER BY ...)`` of the very
    values); None: they are as they came.
    """

    def results(self, slots: Slots) -> pa.Array:
        dtype = self.aggregate.dtype
        lists = self.bags.take(slots)
        descending = self.aggregate.params.get("descending")
        if descending is not None:
            order = ranks(lists.items)
            lists = lists.taken(np.lexsort((-order if descending else order, lists.rows)))
        known = Lists(lists.items, lists.lengths, lists.lengths > 0)
        delimiter = constant(self.aggregate.arguments[1])
        if delimiter is None or not delimiter.is_valid:
            delimiter = pa.scalar(b"", pa.binary())
        binaries = Lists(known.items.view(pa.binary()), known.lengths, known.valid)
        between = pa.scalar(delimiter.as_buffer().to_pybytes(), pa.binary())
        return pc.binary_join(binaries.array(pa.list_(pa.binary())), between).view(dtype)


def without_repetitions(lists: Lists) -> Lists:
    """Of equal items of a row the first stays."""
    order, starts = equal_items(lists, lists.items)
    keep = np.zeros(len(order), np.bool_)
    keep[order[starts]] = True
    return lists.where(keep)


def equal_items(lists: Lists, keys: pa.Array) -> tuple[Slots, Slots]:
    """The items of each row, equal ones together and in their order: their indices, and where
    among these others begin.

    :param keys: one for each item.
    """
    hashes = hash_rows([keys], len(keys))
    rows = lists.rows
    order = np.lexsort((hashes[1], hashes[0], rows))
    differs = np.ones(len(order), np.bool_)
    for each in (rows, hashes[0], hashes[1]):
        sorted_ones = each[order]
        differs[1:] &= sorted_ones[1:] == sorted_ones[:-1]
    differs[1:] = ~differs[1:]
    return order, np.flatnonzero(differs)
