"""Rows of a task that are on a disk, found by their keys: tables of SQLite, in a file without a
name.

What a task has there is gone with it, and is nobody else's: nothing is ever committed, no journal
is written, and no write is waited for.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from engine.errors import ConfigError
from engine.state.scratch import Scratch

if TYPE_CHECKING:
    import sqlite3

_PRAGMAS: Final = (
    "journal_mode = OFF",
    "synchronous = OFF",
    "locking_mode = EXCLUSIVE",
    "temp_store = MEMORY",
)
_AT_ONCE: Final = 1 << 8
_FULL: Final = ("database or disk is full", "disk I/O error")
"""The second one is told where a page cannot be written to a file system that has set nothing
aside for it."""


class Database:
    """See the module. Of one thread. Once a statement has failed, what is there is not to be relied
    on: all others raise the same.

    :param cache_bytes: so much of it is in memory, and what the system likes to keep.
    :raises ConfigError: the folder cannot have a file, or Python has no SQLite.
    """

    def __init__(self, scratch: Scratch, cache_bytes: int) -> None:
        self._scratch = scratch
        self._connection, self._error = _connected(scratch)
        weakref.finalize(self, self._connection.close)
        self._tables = 0
        self._failed: Exception | None = None
        for pragma in (*_PRAGMAS, f"cache_size = {-max(cache_bytes >> 10, 1)}"):
            self.all(f"PRAGMA {pragma}")
        self.run("BEGIN")

    def check(self) -> None:
        """:raises Exception: what a statement has raised before, whoever has caught it."""
        self._open()

    def create(self, columns: str, *, indexed: Sequence[str] = ()) -> str:
        """A table.

        :param columns: with the keys, as SQL.
        :param indexed: lists of columns.
        :return: its name.
        """
        self._tables += 1
        name = f"t{self._tables}"
        self.run(f"CREATE TABLE {name} ({columns}) WITHOUT ROWID")
        for number, some in enumerate(indexed):
            self.run(f"CREATE INDEX {name}_{number} ON {name} ({some})")
        return name

    def drop(self, name: str) -> None:
        """A table that is not needed any more; its place is taken by others."""
        self.run(f"DROP TABLE {name}")

    def run(self, sql: str, *values: Any) -> int:
        """A statement that changes something.

        :return: how many rows.
        :raises StateTooLargeError: the disk is full.
        """
        try:
            return self._open().execute(sql, values).rowcount
        except self._error as exc:
            raise self._told(exc) from exc

    def run_for_each(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """As :meth:`run`, for some rows."""
        try:
            return self._open().executemany(sql, rows).rowcount
        except self._error as exc:
            raise self._told(exc) from exc

    def first(self, sql: str, *values: Any) -> Any:
        """The first row of a query, or None. It raises as :meth:`run`: what it reads takes the
        place of something else, which is written."""
        try:
            return self._open().execute(sql, values).fetchone()
        except self._error as exc:
            raise self._told(exc) from exc

    def all(self, sql: str, *values: Any) -> list[Any]:
        """All rows of a query; as :meth:`first`."""
        try:
            return self._open().execute(sql, values).fetchall()
        except self._error as exc:
            raise self._told(exc) from exc

    def each(self, sql: str) -> Iterator[Any]:
        """The same one by one. The table does not change meanwhile."""
        try:
            found = self._open().execute(sql)
            while rows := found.fetchmany(_AT_ONCE):
                yield from rows
        except self._error as exc:
            raise self._told(exc) from exc

    def _open(self) -> sqlite3.Connection:
        if self._failed is not None:
            raise self._failed
        return self._connection

    def _told(self, error: Exception) -> Exception:
        is_full = str(error) in _FULL
        self._failed = self._scratch.too_small(str(error)) if is_full else error
        return self._failed


def _connected(scratch: Scratch) -> tuple[sqlite3.Connection, type[Exception]]:
    try:
        import sqlite3
    except ImportError as exc:
        raise ConfigError(
            "State of functions and processors of your own leaves the memory by way of SQLite, and "
            f"this Python was built without it: {exc}.",
            hint="Leave the option stateSpillAfterBytes out, or use a Python that has the module "
            "sqlite3.",
        ) from exc
    # The last reference may go on another thread.
    connection = scratch.opened(
        lambda path: sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    )
    return connection, sqlite3.DatabaseError
