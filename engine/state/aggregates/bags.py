"""Many values for each slot, in the order in which they came.

What is added to a slot's values is put together with them as an array: the work is that of the
slots that a batch touches, as it is in Spark.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from engine.expressions.lists import Lists, joined
from engine.expressions.row_context import taken
from engine.state.columns import Slots, column_of

Tidy = Callable[[Lists], Lists]


class Bags:
    """See the module.

    :param item: the type of the values.
    :param tidy: makes fewer of a slot's values whenever some have come; None: all stay.
    """

    def __init__(self, item: pa.DataType, tidy: Tidy | None = None) -> None:
        self.dtype = pa.list_(item)
        self._lists = column_of(self.dtype)
        self._tidy = tidy

    def grow(self, room: int) -> None:
        """Slots are below this number from now on."""
        self._lists.grow(room)

    def clear(self, slots: Slots) -> None:
        """They have no values any more."""
        self._lists.clear(slots)

    def add(self, slots: Slots, items: pa.Array) -> None:
        """Each slot has one more value; it may be named several times."""
        if not len(slots):
            return
        order = np.argsort(slots, kind="stable")
        distinct, counts = np.unique(slots, return_counts=True)
        everywhere = np.ones(len(distinct), np.bool_)
        new = Lists(taken(items, pa.array(order)), counts.astype(np.int64), everywhere)
        together = joined([self.take(distinct), new])
        if self._tidy is not None:
            together = self._tidy(together)
        self._lists.put(distinct, together.array(self.dtype))

    def add_lists(self, slots: Slots, lists: pa.Array) -> None:
        """As :meth:`add`, with an array of values for each slot; NULL has none."""
        parts = Lists.of(lists)
        self.add(np.repeat(slots, parts.lengths), parts.items)

    def take(self, slots: Slots) -> Lists:
        """The values of these slots; none is NULL."""
        lists = Lists.of(self._lists.take(slots))
        return Lists(lists.items, lists.lengths, np.ones(len(slots), np.bool_))
