"""Streams of Redis to a table, by way of SQLAlchemy. The database may crash meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy as sa

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.sqlalchemy.data_source import SqlAlchemySink
from engine.sinks.sqlalchemy.epochs import Epochs
from tests.faults.roads.from_redis import FromRedis, columns
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import Meanwhile, Setup
from tests.servers.postgresql import PASSWORD, USER, running_postgresql


def _asks_nothing() -> None:
    right = Epochs._row

    def row(self: Any, *given: Any) -> Any:
        noted = right(self, *given)
        return None if noted is None else replace(noted, epoch=-1)

    Epochs._row = row  # type: ignore[method-assign]


def _notes_later() -> None:
    def commit(self: Any, context: Any, epoch: int, tables: Sequence[Any], target: Any) -> None:
        with self.changing(context, epoch) as noted:
            if noted.timeline == context.timeline and noted.epoch >= epoch:
                return
            target.write(self.connected(), tables, epoch)
        reach("sqlalchemy.written")
        with self.changing(context, epoch):
            self.note(context, epoch)

    from engine.base.failpoints import reach

    Epochs.commit = commit  # type: ignore[method-assign]


class RedisToDatabase(FromRedis):
    """Each world has streams and a table of its own."""

    level = "L5 Redis to SQLAlchemy"
    places = (
        *FromRedis.places, *["sqlalchemy.locked", "sqlalchemy.written", "sqlalchemy.committed"] * 2,
    )  # fmt: skip
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        "the table is not asked whether it has the epoch": _asks_nothing,
        "rows and the number of their epoch are two transactions": _notes_later,
    }

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with super().serving(folder), running_postgresql() as self._database:
            self.servers["the database"] = self._database
            url = sa.engine.make_url(self._database.url).set(
                drivername="postgresql+psycopg", username=USER, password=PASSWORD
            )
            self._sql = url.render_as_string(hide_password=False)
            yield

    def make(self, name: str) -> dict[str, str]:
        table = f"out_{name.replace('-', '_')}"
        return {**super().make(name), "sql": self._sql, "table": table}

    def came_out(self, setup: Setup) -> Counter[bytes]:
        with self._database.connect() as connection:
            found = connection.execute(f"SELECT stream, id FROM {setup.where['table']}")
            return Counter(f"{stream} {entry}".encode() for stream, entry in found)

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        sink = SqlAlchemySink({"url": setup.where["sql"], "table": setup.where["table"]})
        return bind_writer(sink.streamWriter(columns(), overwrite=False), "sqlalchemy")

    def meanwhile(self, setup: Setup, draw: Callable[[], float]) -> Mapping[str, Meanwhile]:
        def crash() -> None:
            self._database.process.kill()
            self._database.start()

        return {"the database crashed meanwhile": Meanwhile(10, crash)}


ROAD = RedisToDatabase
