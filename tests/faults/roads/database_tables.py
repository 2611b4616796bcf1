"""Tables of a database as ends of roads: where a commit can be interrupted, what is done wrong, and
a server that crashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from engine.base.failpoints import reach
from engine.sinks.databases.epochs import Epochs, Noted
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import Meanwhile
from tests.servers.postgresql import PostgreSQL

CRASHED: Final = "PostgreSQL crashed meanwhile"
COMMITTING: Final = ("database.locked", "database.taken", "database.committed")
_TWO: Final = "rows and the number of their epoch are two transactions"


def _asks_nothing() -> None:
    Noted.newest = lambda *_: -1  # type: ignore[method-assign]


def _notes_later() -> None:
    def commit(self: Any, context: Any, epoch: int, take: Callable[[], None]) -> None:
        with self.changing(context, epoch) as noted:
            if noted.newest(context) >= epoch:
                return
            take()
        reach("database.taken")
        with self.changing(context, epoch):
            self.note(context, epoch)

    Epochs.commit = commit  # type: ignore[method-assign]


MUTANTS: Final[Mapping[str, Callable[[], None]]] = {
    COMMITTED_EARLY: commit_before_log,
    "the table is not asked whether it has the epoch": _asks_nothing,
    _TWO: _notes_later,
}
BROUGHT_OUT: Final = {_TWO: ("database.taken",)}


def table_of(name: str) -> str:
    """That of a world."""
    return f"out_{name.replace('-', '_')}"


def crashing(database: PostgreSQL) -> Meanwhile:
    """It is killed, and comes back."""

    def crash() -> None:
        database.process.kill()
        database.start()

    return Meanwhile(10, crash)
