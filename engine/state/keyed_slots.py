"""Keys of several columns, each with a slot: the hash finds it, the typed columns are beside it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.exchange.hashing import hash_rows
from engine.exchange.partitioning import Groups, groups_of_hashes
from engine.expressions.row_context import taken
from engine.state.columns import Slots, column_of
from engine.state.slot_table import SlotTable


class KeyedSlots:
    """See the module.

    :param types: of the key's columns; none: there is one key.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._table = SlotTable()
        self._columns = [column_of(dtype) for dtype in types]
        self._room = 0
        self._grow()

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._table)

    @property
    def room(self) -> int:
        """All slots are below this number; it grows."""
        return self._table.room

    @property
    def slots(self) -> Slots:
        """Of all keys, in ascending order."""
        return self._table.slots

    def reserve(self, keys: int) -> None:
        """So many more keys will come."""
        self._table.reserve(keys)

    def find_or_add(self, columns: Sequence[pa.Array], rows: int) -> tuple[Slots, Slots]:
        """The slot of each row's key; and which rows have brought a new key.

        :param columns: the keys, as :func:`engine.expressions.logic.ranks.normalized` leaves them.
        """
        slots, added = self._table.find_or_add(hash_rows(columns, rows))
        if self._room < self._table.room:
            self._grow()
        if len(added):
            new = slots[added]
            positions = None if len(added) == rows else pa.array(added)
            for column, values in zip(self._columns, columns, strict=True):
                column.put(new, values if positions is None else taken(values, positions))
        return slots, added

    def keys(self, slots: Slots) -> list[pa.Array]:
        """The columns of the keys in these slots."""
        return [column.take(slots) for column in self._columns]

    def groups(self, slots: Slots, groups: int) -> Groups:
        """The key groups of the keys in these slots, of so many."""
        return groups_of_hashes(self._table.hashes(slots), groups)

    def free(self, slots: Slots) -> None:
        """The keys in these slots, each of them once, are gone."""
        for column in self._columns:
            column.clear(slots)
        self._table.free(slots)

    def _grow(self) -> None:
        self._room = self._table.room
        for column in self._columns:
            column.grow(self._room)
