"""The rows of a table of the user's state on a disk, as far as they are not at hand.

====== ==========================================================================================
column of a row
====== ==========================================================================================
key    the key's ``repr``: equal for equal keys, whose values have one form for each type
sub    the same of what tells the key's rows apart; whole numbers as such, so that they are ordered
number counts the rows as they come
moment when something is due
place  key and sub, pickled
value  pickled
====== ==========================================================================================

The pickles are the task's own: the file has no name, and nobody else can have written to it.
"""

# ruff: noqa: S608  the only name in these statements is the database's own

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from pickle import HIGHEST_PROTOCOL, dumps, loads
from typing import Any, Final

from engine.functions.custom_state.due import EARLIEST_MS
from engine.functions.custom_state.entries import Entries, Entry
from engine.functions.custom_state.keys import NAN, Key
from engine.functions.custom_state.layout import StateRow
from engine.state.database import Database

_COLUMNS: Final = "key BLOB, sub, number INTEGER, moment INTEGER, place BLOB, value BLOB"
_AT_ONCE: Final = 1 << 10
"""So many rows of what is due are in memory."""
_ONE: Final = b""
"""In place of a sub, where a key has one row."""


class EntriesOnDisk(Entries):
    """See the module.

    :param moments: some rows have one.
    :param ascend: the subs of a key do.
    """

    def __init__(self, database: Database, *, moments: bool, ascend: bool = False) -> None:
        self._database = database
        indexed = ["moment, number"] if moments else []
        name = database.create(f"{_COLUMNS}, PRIMARY KEY (key, sub)", indexed=indexed)
        self._numbers = count()
        self._count = 0
        here = f"{name} WHERE key = ? AND sub = ?"
        self._get = f"SELECT value, moment FROM {here}"
        self._drop = f"DELETE FROM {here}"
        self._put = f"UPDATE {name} SET value = ?, moment = ? WHERE key = ? AND sub = ?"
        self._add = f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?)"
        order = "sub" if ascend else "number"
        self._of = f"SELECT place, value, moment FROM {name} WHERE key = ? ORDER BY {order}"
        self._places = f"SELECT place FROM {name} WHERE key = ? ORDER BY {order}"
        self._drop_all = f"DELETE FROM {name} WHERE key = ?"
        later = "(moment IS NULL OR moment > ?)"
        self._has = f"SELECT 1 FROM {name} WHERE key = ? AND {later} LIMIT 1"
        self._last = f"SELECT max(sub) FROM {name} WHERE key = ?"
        self._rows = f"SELECT place, value, moment FROM {name}"
        self._next = f"SELECT min(moment) FROM {name} WHERE moment >= ?"
        self._due = f"SELECT moment, number, place FROM {name} WHERE moment <= ?"
        self._moments = moments

    def __len__(self) -> int:
        return self._count

    def get(self, key: Key, sub: Any = None) -> Entry | None:
        found = self._database.first(self._get, _text(key), _text_of_sub(sub))
        return None if found is None else (_unpickled(found[0]), found[1])

    def of(self, key: Key) -> list[tuple[Any, Entry]]:
        found = self._database.all(self._of, _text(key))
        return [(_place(place)[1], (_unpickled(value), moment)) for place, value, moment in found]

    def has(self, key: Key, after_ms: int) -> bool:
        return self._database.first(self._has, _text(key), after_ms) is not None

    def last(self, key: Key) -> Any:
        (found,) = self._database.first(self._last, _text(key))
        return found

    def put(self, key: Key, sub: Any, entry: Entry) -> None:
        value, moment = entry
        packed, text, of_sub = dumps(value, HIGHEST_PROTOCOL), _text(key), _text_of_sub(sub)
        if not self._database.run(self._put, packed, moment, text, of_sub):
            self.load([StateRow(key, sub, value, moment)])

    def drop(self, key: Key, sub: Any = None) -> bool:
        dropped = self._database.run(self._drop, _text(key), _text_of_sub(sub))
        self._count -= dropped
        return dropped > 0

    def drop_all(self, key: Key) -> list[Any]:
        text = _text(key)
        subs = [_place(place)[1] for (place,) in self._database.all(self._places, text)]
        self._count -= self._database.run(self._drop_all, text)
        return subs

    def load(self, rows: Iterable[StateRow]) -> None:
        self._count += self._database.run_for_each(
            self._add,
            (
                (
                    _text(row.key),
                    _text_of_sub(row.sub),
                    next(self._numbers),
                    row.moment_ms,
                    dumps((row.key, row.sub), HIGHEST_PROTOCOL),
                    dumps(row.value, HIGHEST_PROTOCOL),
                )
                for row in rows
            ),
        )

    def rows(self) -> Iterator[StateRow]:
        for place, value, moment in self._database.each(self._rows):
            yield StateRow(*_place(place), _unpickled(value), moment)

    def check(self) -> None:
        self._database.check()

    def next_ms(self, from_ms: int = EARLIEST_MS) -> int | None:
        found = self._database.first(self._next, from_ms) if self._moments else None
        return None if found is None else found[0]

    def due(self, until_ms: int) -> Iterator[tuple[int, Key, Any]]:
        if not self._moments:
            return
        database, in_order = self._database, f"ORDER BY moment, number LIMIT {_AT_ONCE}"
        some = database.all(f"{self._due} {in_order}", until_ms)
        copy = None
        if len(some) == _AT_ONCE:  # there may be more than memory has room for
            copy = database.create("moment INTEGER, number, place, PRIMARY KEY (moment, number)")
            database.run(f"INSERT INTO {copy} {self._due}", until_ms)
        while some:
            yield from ((moment, *_place(place)) for moment, _, place in some)
            behind = f"SELECT * FROM {copy} WHERE (moment, number) > (?, ?) {in_order}"
            some = [] if copy is None else database.all(behind, *some[-1][:2])
        if copy is not None:
            database.drop(copy)


def _place(data: bytes) -> tuple[Key, Any]:
    key, sub = _unpickled(data)
    return _found(key), _found(sub) if isinstance(sub, tuple) else sub


def _found(key: Key) -> Key:
    """The key as a ``dict`` finds it."""
    return tuple(
        _found(each) if isinstance(each, tuple) else NAN if each != each else each for each in key
    )


def _unpickled(data: bytes) -> Any:
    return loads(data)  # noqa: S301  pickled above


def _text(key: Key) -> bytes:
    return repr(key).encode()


def _text_of_sub(sub: Any) -> Any:
    return sub if isinstance(sub, int) else _ONE if sub is None else _text(sub)
