"""The changes of a table of PostgreSQL to Kafka, exactly once, behind a snapshot of what it had."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from engine.execution.definition import StreamBinding
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.contract import SinkBinding
from engine.sources.postgres import partition_reader
from engine.sources.postgres.data_source import PostgresDataSource
from engine.sources.postgres.partition_reader import TableReader
from engine.sources.postgres.pgoutput import Begin
from tests.faults.roads.driver import DEADLINE_S
from tests.faults.roads.kafka_to_kafka import KafkaToKafka
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log
from tests.faults.roads.road import Setup
from tests.servers.postgresql import PASSWORD, USER, PostgreSQL, running_postgresql

FEED_EVERY_S = 0.01
ROWS_BEFORE = 500


def _acknowledges_at_once() -> None:
    right = TableReader._tell

    def tell(self: Any, *, ask: bool) -> None:
        self._committed = self._position
        right(self, ask=ask)

    TableReader._tell = tell  # type: ignore[method-assign]
    TableReader._check = None  # type: ignore[attr-defined]
    from engine.sources.postgres.catalog import Catalog

    Catalog.check_slot = lambda *_: None  # type: ignore[method-assign]


def _ends_within() -> None:
    TableReader.midway = property(lambda self: False)  # type: ignore[assignment, method-assign]
    partition_reader.BATCH_ROWS = 2  # type: ignore[misc]
    right = TableReader._take

    def take(self: Any, payload: bytes) -> None:
        right(self, payload)
        if isinstance(self._transaction, Begin) and self._rows:
            self._reach(self._transaction.commit_lsn + 1)

    TableReader._take = take  # type: ignore[method-assign]


def _begins_at_the_commit() -> None:
    right = TableReader._take

    def take(self: Any, payload: bytes) -> None:
        before, begin = self._position, self._transaction
        right(self, payload)
        if begin is not None and self._transaction is None:
            self._position = max(before, begin.commit_lsn)

    TableReader._take = take  # type: ignore[method-assign]


def _forgets_the_end() -> None:
    right = TableReader.__init__

    def init(self: Any, options: Any, partition: Any, columns: Any, until: Any, there: Any) -> None:
        right(self, options, partition, columns, until, there)
        if until is not None:
            self._until = until + 100_000

    TableReader.__init__ = init  # type: ignore[method-assign]


class CdcToKafka(KafkaToKafka):
    """Each world has a table, a slot and a topic of its own."""

    level = "L5 PostgreSQL to Kafka"
    places = (*KafkaToKafka.places, "postgres.snapshot")
    mutants: ClassVar = {
        COMMITTED_EARLY: commit_before_log,
        "the slot advances with what is read": _acknowledges_at_once,
        "an epoch ends within a transaction": _ends_within,
        "an offset is where the commit begins": _begins_at_the_commit,
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
                "value varchar(99) STORAGE MAIN)"
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
            }
        )
        reader = source.continuousReader(source.schema()).prune(["value"])
        assert reader is not None
        schema = to_arrow(source.schema(), "source postgres")
        schema = type(schema)([]) if False else _only(schema, "value")
        pipeline = Pipeline(SourceRelation("postgres", {}, schema), (), schema)
        return StreamBinding(pipeline, reader, "postgres")

    @staticmethod
    def sink(setup: Setup) -> SinkBinding:
        return KafkaToKafka.sink(replace(setup))


def _only(schema: Any, name: str) -> Any:
    import pyarrow as pa

    return pa.schema([schema.field(name)])


@contextmanager
def _feeding(database: PostgreSQL, table: str) -> Iterator[None]:
    """Transactions of some rows, again and again; each until it is known to be committed."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def feed() -> None:
        number = 0
        try:
            while not stop.wait(FEED_EVERY_S):
                _commit(database, table, number)
                number += 1
        except BaseException as exc:
            failures.append(exc)

    thread = threading.Thread(target=feed, name="feed")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(DEADLINE_S)
    if failures:
        raise failures[0]


ROAD = CdcToKafka
