"""Streams of Redis to a table, by way of SQLAlchemy. The database may crash meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.sqlalchemy.data_source import SqlAlchemySink
from tests.faults.roads.database_tables import (
    BROUGHT_OUT,
    COMMITTING,
    CRASHED,
    MUTANTS,
    crashing,
    table_of,
)
from tests.faults.roads.from_redis import FromRedis, columns
from tests.faults.roads.road import Meanwhile, Setup
from tests.servers.postgresql import PASSWORD, USER, running_postgresql


class RedisToDatabase(FromRedis):
    """Each world has streams and a table of its own."""

    level = "L5 Redis to SQLAlchemy"
    places = (*FromRedis.places, *COMMITTING, *COMMITTING)
    mutants = MUTANTS
    brought_out = BROUGHT_OUT

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
        return {**super().make(name), "sql": self._sql, "table": table_of(name)}

    def came_out(self, setup: Setup) -> Counter[bytes]:
        with self._database.connect() as connection:
            found = connection.execute(f"SELECT stream, id FROM {setup.where['table']}")
            return Counter(f"{stream} {entry}".encode() for stream, entry in found)

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        sink = SqlAlchemySink({"url": setup.where["sql"], "table": setup.where["table"]})
        return bind_writer(sink.streamWriter(columns(), overwrite=False), "sqlalchemy")

    def meanwhile(self, setup: Setup, draw: Callable[[], float]) -> Mapping[str, Meanwhile]:
        return {CRASHED: crashing(self._database)}


ROAD = RedisToDatabase
