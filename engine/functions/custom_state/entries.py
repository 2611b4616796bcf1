"""The rows of a table of the user's state, by their keys: in memory, as Python's own objects.

Beyond a budget they are in a file, see :mod:`engine.functions.custom_state.entries_on_disk`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from engine.functions.custom_state.due import EARLIEST_MS, Due
from engine.functions.custom_state.keys import Key
from engine.functions.custom_state.layout import StateRow
from engine.functions.custom_state.values import Kept

Entry = tuple[Kept | None, int | None]
"""A value, and a moment at which something is due: it expires, it times out."""


class Entries(ABC):
    """One table's. A key may have several rows, told apart by a ``sub``."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def get(self, key: Key, sub: Any = None) -> Entry | None:
        """None: there is none."""

    @abstractmethod
    def of(self, key: Key) -> list[tuple[Any, Entry]]:
        """The key's, in the order in which they came; of a table whose subs ascend, in theirs."""

    @abstractmethod
    def has(self, key: Key, after_ms: int) -> bool:
        """Whether the key has a row without a moment, or with one after a time. The rows behind the
        first such one are not looked at, and no value is."""

    @abstractmethod
    def last(self, key: Key) -> Any:
        """The greatest sub of a key, in a table whose subs ascend; None: it has no row."""

    @abstractmethod
    def put(self, key: Key, sub: Any, entry: Entry) -> None:
        """In place of another."""

    @abstractmethod
    def drop(self, key: Key, sub: Any = None) -> bool:
        """:return: whether it was there."""

    @abstractmethod
    def drop_all(self, key: Key) -> list[Any]:
        """:return: the subs of the rows that were there, in their order."""

    @abstractmethod
    def load(self, rows: Iterable[StateRow]) -> None:
        """Rows of a snapshot, in any order; none of them is there."""

    @abstractmethod
    def rows(self) -> Iterator[StateRow]:
        """All; nothing is put or dropped meanwhile."""

    def check(self) -> None:  # noqa: B027  in memory nothing is lost
        """:raises StateTooLargeError: something was not put here, though the user's code may have
        gone on."""

    @abstractmethod
    def next_ms(self, from_ms: int = EARLIEST_MS) -> int | None:
        """The earliest moment, from one on, inclusive; None: no row has one."""

    @abstractmethod
    def due(self, until_ms: int) -> Iterator[tuple[int, Key, Any]]:
        """Moment, key and sub of what is due up to a time, inclusive, the earliest first: all that
        is as the first is asked for, whatever is put and dropped meanwhile."""


class OneEach(Entries):
    """In memory, a row for each key."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._due: Due[Key] = Due()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key, sub: Any = None) -> Entry | None:
        return self._entries.get(key)

    def of(self, key: Key) -> list[tuple[Any, Entry]]:
        entry = self._entries.get(key)
        return [] if entry is None else [(None, entry)]

    def has(self, key: Key, after_ms: int) -> bool:
        entry = self._entries.get(key)
        return entry is not None and _is_after(entry, after_ms)

    def last(self, key: Key) -> Any:
        return None

    def put(self, key: Key, sub: Any, entry: Entry) -> None:
        old = self._entries.get(key)
        if old is not None and old[1] is not None:
            self._due.remove(old[1], key)
        self._entries[key] = entry
        if entry[1] is not None:
            self._due.add(entry[1], key)

    def drop(self, key: Key, sub: Any = None) -> bool:
        old = self._entries.pop(key, None)
        if old is not None and old[1] is not None:
            self._due.remove(old[1], key)
        return old is not None

    def drop_all(self, key: Key) -> list[Any]:
        return [None] if self.drop(key) else []

    def load(self, rows: Iterable[StateRow]) -> None:
        for row in rows:
            self.put(row.key, None, (row.value, row.moment_ms))

    def rows(self) -> Iterator[StateRow]:
        return (StateRow(key, None, *entry) for key, entry in self._entries.items())

    def next_ms(self, from_ms: int = EARLIEST_MS) -> int | None:
        return self._due.next_ms(from_ms)

    def due(self, until_ms: int) -> Iterator[tuple[int, Key, Any]]:
        return ((at_ms, key, None) for at_ms, key in self._due.until(until_ms))


class Several(Entries):
    """In memory, some rows for each key.

    :param ascend: the subs of a key do.
    """

    def __init__(self, *, ascend: bool = False) -> None:
        self._ascend = ascend
        self._entries: dict[Key, dict[Any, Entry]] = {}
        self._count = 0
        self._due: Due[tuple[Key, Any]] = Due()

    def __len__(self) -> int:
        return self._count

    def get(self, key: Key, sub: Any = None) -> Entry | None:
        entries = self._entries.get(key)
        return None if entries is None else entries.get(sub)

    def of(self, key: Key) -> list[tuple[Any, Entry]]:
        return list(self._entries.get(key, {}).items())

    def has(self, key: Key, after_ms: int) -> bool:
        entries = self._entries.get(key)
        return entries is not None and any(_is_after(e, after_ms) for e in entries.values())

    def last(self, key: Key) -> Any:
        entries = self._entries.get(key)
        return next(reversed(entries)) if entries else None

    def put(self, key: Key, sub: Any, entry: Entry) -> None:
        entries = self._entries.setdefault(key, {})
        old = entries.get(sub)
        if old is None:
            self._count += 1
        elif old[1] is not None:
            self._due.remove(old[1], (key, sub))
        entries[sub] = entry
        if entry[1] is not None:
            self._due.add(entry[1], (key, sub))

    def drop(self, key: Key, sub: Any = None) -> bool:
        entries = self._entries.get(key)
        old = None if entries is None else entries.pop(sub, None)
        if entries is None or old is None:
            return False
        self._count -= 1
        if not entries:
            del self._entries[key]
        if old[1] is not None:
            self._due.remove(old[1], (key, sub))
        return True

    def drop_all(self, key: Key) -> list[Any]:
        entries = self._entries.pop(key, {})
        self._count -= len(entries)
        for sub, (_, at_ms) in entries.items():
            if at_ms is not None:
                self._due.remove(at_ms, (key, sub))
        return list(entries)

    def load(self, rows: Iterable[StateRow]) -> None:
        keys = dict[Key, None]()
        for row in rows:
            self.put(row.key, row.sub, (row.value, row.moment_ms))
            keys[row.key] = None
        if self._ascend:
            for key in keys:
                self._entries[key] = dict(sorted(self._entries[key].items(), key=itemgetter(0)))

    def rows(self) -> Iterator[StateRow]:
        for key, entries in self._entries.items():
            for sub, entry in entries.items():
                yield StateRow(key, sub, *entry)

    def next_ms(self, from_ms: int = EARLIEST_MS) -> int | None:
        return self._due.next_ms(from_ms)

    def due(self, until_ms: int) -> Iterator[tuple[int, Key, Any]]:
        return ((at_ms, *place) for at_ms, place in self._due.until(until_ms))


def _is_after(entry: Entry, time_ms: int) -> bool:
    return entry[1] is None or entry[1] > time_ms
