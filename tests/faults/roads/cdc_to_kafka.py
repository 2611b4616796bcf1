"""The changes of a table of PostgreSQL to Kafka, exactly once, behind a snapshot of what it had."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from pyspark.sql.types import StructType

from engine.execution.definition import StreamBinding
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.contract import SinkBinding
from engine.sources.postgres.catalog import Catalog
from engine.sources.postgres.data_source import PostgresDataSource
from engine.sources.postgres.partition_reader import TableReader
from tests.faults.roads.beside import beside
from tests.faults.roads.kafka_to_kafka import KafkaToKafka, sink_of
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import Setup
from tests.servers.postgresql import PASSWORD, USER, PostgreSQL, running_postgresql

FEED_EVERY_S = 0.01
ROWS_BEFORE = 500
COLUMNS = StructType().add("value", "string")


def _acknowledges_at_once() -> None:
    right = TableReader._tell

    def tell(self: Any, *, ask: bool) -> None:
        self._committed = self._position
        right(self, ask=ask)

    TableReader._tell = tell  # type: ignore[method-assign]
    Catalog.check_slot = lambda *_: None  # type: ignore[method-assign]


def _snapshot_beside_the_slot() -> None:
    """Rows that are committed between the two come neither with the one nor with the other."""
    right = TableReader._table_rows

    def rows(self: Any) -> Any:
        found = list(right(self))
        self._position += 50_000
        yield from found

    TableReader._table_rows = rows  # type: ignore[method-assign]


class CdcToKafka(KafkaToKafka):
    """Each world has a table, a slot and a topic of its own."""

    level = "L5 PostgreSQL to Kafka"
    places = (*KafkaToKafka.places, "postgres.snapshot")
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        "the slot advances with what is read": _acknowledges_at_once,
        "changes begin behind the snapshot's position": _snapshot_beside_the_slot,
    }

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        with super().serving(folder), running_postgresql() as self._database:
            self.servers["PostgreSQL"] = self._database
            yield

    def make(self, name: str) -> dict[str, str]:
        slot = f"in_{name.replace('-', '_')}"
        with self._database.connect() as connection:
            for (old,) in connection.execute("SELECT slot_name FROM pg_replication_slots"):
                connection.execute("SELECT pg_drop_replication_slot(%s)", [old])
            connection.execute(
                f"CREATE TABLE {slot} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                "value text)"
            )
            connection.execute(
                f"INSERT INTO {slot} (value) SELECT 'before ' || i "
                f"FROM generate_series(1, {ROWS_BEFORE}) i"
            )
        there = {"bootstrap": self.bootstrap, "url": self._database.url, "slot": slot}
        return {**there, "sink": self.new_topic(f"out-{name}")}

    def feeding(self, setup: Setup) -> AbstractContextManager[None]:
        return _feeding(self._database, setup.where["slot"])

    def went_in(self, setup: Setup) -> Counter[bytes]:
        with self._database.connect() as connection:
            found = connection.execute(f"SELECT value FROM {setup.where['slot']}")
            return Counter(value.encode() for (value,) in found)

    @staticmethod
    def stream(setup: Setup) -> StreamBinding:
        source = PostgresDataSource(
            {
                "url": setup.where["url"],
                "user": USER,
                "password": PASSWORD,
                "table": setup.where["slot"],
                "slot": setup.where["slot"],
                "unavailableValues": "null",
            }
        )
        schema = to_arrow(COLUMNS, "source postgres")
        pipeline = Pipeline(SourceRelation("postgres", {}, schema), (), schema)
        return StreamBinding(pipeline, source.continuousReader(COLUMNS), "postgres")

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        return sink_of(setup, COLUMNS)


@contextmanager
def _feeding(database: PostgreSQL, table: str) -> Iterator[None]:
    """Transactions of some rows, again and again; whether one was committed the table tells."""
    stop = threading.Event()

    def feed() -> None:
        number = 0
        while not stop.is_set():
            with suppress(psycopg.OperationalError), database.connect() as connection:
                while not stop.wait(FEED_EVERY_S):
                    number += 1
                    connection.execute(
                        f"INSERT INTO {table} (value) SELECT '{number} ' || i "
                        "FROM generate_series(1, 3) i"
                    )

    with beside(feed, stop):
        yield


ROAD = CdcToKafka
