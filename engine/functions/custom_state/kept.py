"""The rows of state in memory: one class per kind of variable, each a table of snapshots.

A value that has a time to live is gone for its reader as soon as processing time has come to its
end, and is dropped at the end of that epoch.

Source: Spark's ``ValueStateImplWithTTL`` and its likes, ``StateTTL.isExpired``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Generic, TypeVar

import pyarrow as pa

from engine.functions.custom_state.due import Due
from engine.functions.custom_state.keys import Key
from engine.functions.custom_state.layout import Layout, StateRow
from engine.functions.custom_state.values import Kept
from engine.state.contract import ROWS_AT_ONCE, StateTable

Entry = tuple[Kept, int | None]
"""A value, and when it expires."""
Sub = TypeVar("Sub")


class KeptRows(ABC):
    """One table's.

    :ivar table: what a snapshot knows of it.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.table: StateTable = layout.table()
        self._changed: dict[tuple[Key, Any], None] = {}

    def restore(self, table: pa.Table) -> None:
        """The rows of a snapshot, or some of them."""
        for row in self._layout.from_arrow(table):
            self._put(row)

    def changes(self, *, whole: bool) -> Iterator[pa.Table]:
        """See :meth:`engine.state.contract.StatefulStage.changes`."""
        changed, self._changed = self._changed, {}
        rows = self._rows() if whole else map(self._row, changed)
        while some := list(islice(rows, ROWS_AT_ONCE)):
            yield self._layout.to_arrow(some)

    def _row(self, place: tuple[Key, Any]) -> StateRow:
        key, sub = place
        return self._find(key, sub) or StateRow(key, sub, gone=True)

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def _put(self, row: StateRow) -> None:
        """Of a snapshot."""

    @abstractmethod
    def _find(self, key: Key, sub: Any) -> StateRow | None:
        """None: there is none."""

    @abstractmethod
    def _rows(self) -> Iterator[StateRow]:
        """All."""


class Variable(KeptRows):
    """One that ``init`` declares.

    :param ttl_ms: see :class:`engine.functions.custom_state.spec.StateVariable`.
    :ivar now_ms: processing time.
    """

    def __init__(self, layout: Layout, ttl_ms: int | None) -> None:
        super().__init__(layout)
        self._ttl_ms = ttl_ms
        self._expiring: Due[tuple[Key, Any]] = Due()
        self.now_ms = 0

    def drop_expired(self) -> None:
        """At the end of an epoch."""
        for _, (key, sub) in self._expiring.until(self.now_ms):
            self._drop(key, sub)

    @abstractmethod
    def _drop(self, key: Key, sub: Any) -> None:
        """The row goes, if it is there."""

    def _entry(self, value: Kept, place: tuple[Key, Any], old: Entry | None) -> Entry:
        """What is put in a place from now on."""
        self._forget(place, old)
        self._changed[place] = None
        if self._ttl_ms is None:
            return value, None
        expires_ms = self.now_ms + self._ttl_ms
        self._expiring.add(expires_ms, place)
        return value, expires_ms

    def _forget(self, place: tuple[Key, Any], old: Entry | None) -> None:
        if old is not None and old[1] is not None:
            self._expiring.remove(old[1], place)

    def _restored(self, row: StateRow) -> Entry:
        if row.moment_ms is not None:
            self._expiring.add(row.moment_ms, (row.key, row.sub))
        assert row.value is not None
        return row.value, row.moment_ms

    def _is_there(self, entry: Entry) -> bool:
        return entry[1] is None or entry[1] > self.now_ms


class Values(Variable):
    """One value for each key."""

    def __init__(self, layout: Layout, ttl_ms: int | None = None) -> None:
        super().__init__(layout, ttl_ms)
        self._entries: dict[Key, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Kept | None:
        """None: there is none."""
        entry = self._entries.get(key)
        return entry[0] if entry is not None and self._is_there(entry) else None

    def put(self, key: Key, value: Kept) -> None:
        """In place of another."""
        place = key, None
        self._entries[key] = self._entry(value, place, self._entries.get(key))

    def clear(self, key: Key) -> None:
        """Without a value there is nothing to do."""
        self._drop(key, None)

    def _drop(self, key: Key, sub: Any) -> None:
        old = self._entries.pop(key, None)
        if old is not None:
            self._forget((key, None), old)
            self._changed[key, None] = None

    def _put(self, row: StateRow) -> None:
        self._entries[row.key] = self._restored(row)

    def _find(self, key: Key, sub: Any) -> StateRow | None:
        entry = self._entries.get(key)
        return None if entry is None else StateRow(key, None, *entry)

    def _rows(self) -> Iterator[StateRow]:
        return (StateRow(key, None, *entry) for key, entry in self._entries.items())


class _Several(Variable, Generic[Sub]):
    """Several values for each key, told apart by something."""

    def __init__(self, layout: Layout, ttl_ms: int | None = None) -> None:
        super().__init__(layout, ttl_ms)
        self._entries: dict[Key, dict[Sub, Entry]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def items(self, key: Key) -> list[tuple[Sub, Kept]]:
        """Those that are there, as they stand now."""
        entries = self._entries.get(key, {})
        return [(sub, entry[0]) for sub, entry in entries.items() if self._is_there(entry)]

    def exists(self, key: Key) -> bool:
        """Whether there is one at least."""
        return any(map(self._is_there, self._entries.get(key, {}).values()))

    def clear(self, key: Key) -> None:
        """All of them."""
        for sub in list(self._entries.get(key, ())):
            self._drop(key, sub)

    def _drop(self, key: Key, sub: Sub) -> None:
        entries = self._entries.get(key, {})
        old = entries.pop(sub, None)
        if old is not None:
            self._forget((key, sub), old)
            self._changed[key, sub] = None
            self._count -= 1
            if not entries:
                del self._entries[key]

    def _set(self, key: Key, sub: Sub, value: Kept) -> None:
        entries = self._entries.setdefault(key, {})
        self._count += sub not in entries
        entries[sub] = self._entry(value, (key, sub), entries.get(sub))

    def _put(self, row: StateRow) -> None:
        self._entries.setdefault(row.key, {})[row.sub] = self._restored(row)
        self._count += 1

    def _find(self, key: Key, sub: Any) -> StateRow | None:
        entry = self._entries.get(key, {}).get(sub)
        return None if entry is None else StateRow(key, sub, *entry)

    def _rows(self) -> Iterator[StateRow]:
        for key, entries in self._entries.items():
            for sub, entry in entries.items():
                yield StateRow(key, sub, *entry)


class Lists(_Several[int]):
    """A list for each key; each item is a row of its own."""

    def append(self, key: Key, values: list[Kept]) -> None:
        """Behind the others."""
        entries = self._entries.get(key)
        position = next(reversed(entries)) + 1 if entries else 0
        for place, value in enumerate(values, position):
            self._set(key, place, value)

    def put(self, key: Key, values: list[Kept]) -> None:
        """In place of the others."""
        self.clear(key)
        self.append(key, values)

    def restore(self, table: pa.Table) -> None:
        super().restore(table)
        for key in dict.fromkeys(self._layout.keys_of(table)):
            self._entries[key] = dict(sorted(self._entries[key].items(), key=itemgetter(0)))


class Maps(_Several[Key]):
    """A map for each key; each entry is a row of its own."""

    def get(self, key: Key, map_key: Key) -> Kept | None:
        """None: it has no such key."""
        entry = self._entries.get(key, {}).get(map_key)
        return entry[0] if entry is not None and self._is_there(entry) else None

    def put(self, key: Key, map_key: Key, value: Kept) -> None:
        """In place of another."""
        self._set(key, map_key, value)

    def remove(self, key: Key, map_key: Key) -> None:
        """Without it there is nothing to do."""
        self._drop(key, map_key)
