"""Kafka to a table of PostgreSQL. The server may crash while something is staged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from engine.query.binding import bind_writer
from engine.sinks.contract import SinkBinding
from engine.sinks.postgres import epochs, task_writer
from engine.sinks.postgres.data_source import PostgresSink
from tests.faults.roads.database_tables import (
    BROUGHT_OUT,
    COMMITTING,
    CRASHED,
    MUTANTS,
    crashing,
    table_of,
)
from tests.faults.roads.from_kafka import FromKafka
from tests.faults.roads.kafka_topics import COLUMNS
from tests.faults.roads.road import BETWEEN, PLACES, Meanwhile, Setup
from tests.servers.postgresql import PASSWORD, USER, running_postgresql

HURRY = "nobody waits for the server's disk"
_LAZY = {"wal_writer_delay": "10s"}
"""Else the server soon writes by itself what nobody waits for."""


def _does_not_wait() -> None:
    def hurry(connection: Any) -> None:
        connection.execute("SET synchronous_commit = off")

    task_writer.make_durable = epochs.make_durable = hurry  # type: ignore[attr-defined]


class KafkaToPostgres(FromKafka):
    """Each world has a topic and a table of its own."""

    level = "L5 Kafka to PostgreSQL"
    places = (*PLACES, *COMMITTING)
    between = (*BETWEEN, "commitOffsets.after")
    mutants: ClassVar = {**MUTANTS, HURRY: _does_not_wait}
    brought_out: ClassVar = {**BROUGHT_OUT, HURRY: (CRASHED,)}

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with super().serving(folder), running_postgresql(_LAZY) as self._database:
            self.servers["PostgreSQL"] = self._database
            yield

    def make(self, name: str) -> dict[str, str]:
        return {**super().make(name), "url": self._database.url, "table": table_of(name)}

    def came_out(self, setup: Setup) -> Counter[bytes]:
        with self._database.connect() as connection:
            found = connection.execute(f"SELECT value FROM {setup.where['table']}")
            return Counter(value for (value,) in found)

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        sink = PostgresSink(
            {
                "url": setup.where["url"],
                "user": USER,
                "password": PASSWORD,
                "table": setup.where["table"],
            }
        )
        return bind_writer(sink.streamWriter(COLUMNS, overwrite=False), "postgres")

    def meanwhile(self, setup: Setup, draw: Callable[[], float]) -> Mapping[str, Meanwhile]:
        return {CRASHED: crashing(self._database)}

    def at_end(self, setup: Setup) -> Mapping[str, int]:
        with self._database.connect() as connection:
            (left,) = connection.execute(
                "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND "
                "relname ~ '^continuous_[0-9a-f]{12}_'"
            ).fetchone()
        return {"stages left by a drain": left}


ROAD = KafkaToPostgres
