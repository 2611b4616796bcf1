"""The state of the user's code: one class per kind of variable, each a table of snapshots.

A value that has a time to live is gone for its reader as soon as processing time has come to its
end, and is dropped at the end of that epoch.

Source: Spark's ``ValueStateImplWithTTL`` and its likes, ``StateTTL.isExpired``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from engine.functions.custom_state.entries import Entries, Entry, OneEach, Several
from engine.functions.custom_state.entries_on_disk import EntriesOnDisk
from engine.functions.custom_state.keys import Key
from engine.functions.custom_state.layout import Layout, StateRow
from engine.functions.custom_state.values import LATEST_MS, Kept
from engine.state.arrays import budget
from engine.state.contract import StateTable
from engine.state.portions import portions_of

Sub = TypeVar("Sub")
_ROWS_AT_ONCE: Final = 1 << 10
"""Objects of Python on their way to a snapshot, which may be as large as the user likes."""


class KeptRows:
    """One table's.

    :param ascend: what tells the rows of a key apart does.
    :param moments: its rows have some; None: if their last column is one.
    :ivar table: what a snapshot knows of it.
    """

    def __init__(
        self, layout: Layout, *, ascend: bool = False, moments: bool | None = None
    ) -> None:
        self._layout = layout
        self.table: StateTable = layout.table()
        self._entries = _entries(
            layout, layout.moment is not None if moments is None else moments, ascend
        )
        self._changed: dict[tuple[Key, Any], None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def restore(self, table: pa.Table) -> None:
        """The rows of a snapshot, or some of them."""
        self._entries.load(self._layout.from_arrow(table))

    def changes(self, *, whole: bool) -> Iterator[pa.Table]:
        """See :meth:`engine.state.contract.StatefulStage.changes`."""
        self._entries.check()
        changed, self._changed = self._changed, {}
        rows = self._entries.rows() if whole else map(self._row, changed)
        yield from portions_of(iter(rows), _ROWS_AT_ONCE, self._layout.to_arrow)

    def _row(self, place: tuple[Key, Any]) -> StateRow:
        entry = self._entries.get(*place)
        return StateRow(*place, gone=True) if entry is None else StateRow(*place, *entry)

    def _put(self, key: Key, sub: Any, entry: Entry) -> None:
        self._entries.put(key, sub, entry)
        self._changed[key, sub] = None

    def _drop(self, key: Key, sub: Any = None) -> None:
        """Without a row there is nothing to do."""
        if self._entries.drop(key, sub):
            self._changed[key, sub] = None


def _entries(layout: Layout, moments: bool, ascend: bool) -> Entries:
    here = budget()
    if here is not None:
        return EntriesOnDisk(here.database, moments=moments, ascend=ascend)
    return OneEach() if layout.sub is None else Several(ascend=ascend)


class Variable(KeptRows):
    """One that ``init`` declares.

    :param ttl_ms: see :class:`engine.functions.custom_state.spec.StateVariable`.
    :ivar now_ms: processing time.
    """

    def __init__(self, layout: Layout, ttl_ms: int | None, *, ascend: bool = False) -> None:
        super().__init__(layout, ascend=ascend)
        self._ttl_ms = ttl_ms
        self.now_ms = 0

    def drop_expired(self) -> None:
        """At the end of an epoch."""
        if self._ttl_ms is not None:
            for _, key, sub in self._entries.due(self.now_ms):
                self._drop(key, sub)

    def _set(self, key: Key, sub: Any, value: Kept) -> None:
        # In Spark what would end behind the latest moment wraps around, and is gone at once.
        ends_ms = None if self._ttl_ms is None else min(self.now_ms + self._ttl_ms, LATEST_MS)
        self._put(key, sub, (value, ends_ms))

    def _value(self, key: Key, sub: Any = None) -> Kept | None:
        entry = self._entries.get(key, sub)
        return entry[0] if entry is not None and self._is_there(entry) else None

    def _is_there(self, entry: Entry) -> bool:
        return entry[1] is None or entry[1] > self.now_ms


class Values(Variable):
    """One value for each key."""

    def __init__(self, layout: Layout, ttl_ms: int | None = None) -> None:
        super().__init__(layout, ttl_ms)

    def get(self, key: Key) -> Kept | None:
        """None: there is none."""
        return self._value(key)

    def put(self, key: Key, value: Kept) -> None:
        """In place of another."""
        self._set(key, None, value)

    def clear(self, key: Key) -> None:
        """Without a value there is nothing to do."""
        self._drop(key)


class _Several(Variable, Generic[Sub]):
    """Several values for each key, told apart by something."""

    def items(self, key: Key) -> list[tuple[Sub, Kept]]:
        """Those that are there, as they stand now."""
        found = self._entries.of(key)
        return [(sub, entry[0]) for sub, entry in found if self._is_there(entry)]  # type: ignore[misc]  # there is a value

    def exists(self, key: Key) -> bool:
        """Whether there is one at least."""
        return self._entries.has(key, self.now_ms)

    def clear(self, key: Key) -> None:
        """All of them."""
        for sub in self._entries.drop_all(key):
            self._changed[key, sub] = None


class Lists(_Several[int]):
    """A list for each key; each item is a row of its own."""

    def __init__(self, layout: Layout, ttl_ms: int | None = None) -> None:
        super().__init__(layout, ttl_ms, ascend=True)

    def append(self, key: Key, values: list[Kept]) -> None:
        """Behind the others."""
        last = self._entries.last(key)
        for position, value in enumerate(values, 0 if last is None else last + 1):
            self._set(key, position, value)

    def put(self, key: Key, values: list[Kept]) -> None:
        """In place of the others."""
        self.clear(key)
        self.append(key, values)


class Maps(_Several[Key]):
    """A map for each key; each entry is a row of its own."""

    def __init__(self, layout: Layout, ttl_ms: int | None = None) -> None:
        super().__init__(layout, ttl_ms)

    def get(self, key: Key, map_key: Key) -> Kept | None:
        """None: it has no such key."""
        return self._value(key, map_key)

    def put(self, key: Key, map_key: Key, value: Kept) -> None:
        """In place of another."""
        self._set(key, map_key, value)

    def remove(self, key: Key, map_key: Key) -> None:
        """Without it there is nothing to do."""
        self._drop(key, map_key)
