"""A table of PostgreSQL, and tasks that read it."""

from __future__ import annotations

import pickle
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict

from engine.sources.builtin_sources import source_class
from engine.sources.contract import PartitionReader
from engine.sources.postgres.reader import PostgresReader
from tests.servers.postgresql import PostgreSQL
from tests.waiting import wait_until


class Changes:
    """A table in its schema, and a query that reads it."""

    def __init__(self, server: PostgreSQL, schema: str, columns: str, **options: str) -> None:
        self.server, self.table, self.slot = server, f"{schema}.t", schema
        self.options = {**server.options, "table": self.table, "slot": schema, **options}
        self.opened: list[PartitionReader] = []
        self.run(f"CREATE TABLE {self.table} ({columns})")

    def run(self, *statements: str) -> None:
        """In one transaction."""
        with self.server.connect() as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement.replace(" @t", f" {self.table}"))

    def ask(self, query: str) -> Any:
        with self.server.connect() as connection:
            (found,) = connection.execute(query).fetchone()
            return found

    def reader(self, **options: str) -> PostgresReader:
        """On its way to the executor."""
        source = source_class("postgres")(CaseInsensitiveDict({**self.options, **options}))
        made: PostgresReader = source.continuousReader(source.schema())
        return pickle.loads(pickle.dumps(made))

    def open(self, start: Any = None, until: Any = None, **options: str) -> PartitionReader:
        """A task that begins there; None: where a new query does."""
        reader = self.reader(**options)
        start = reader.initialOffset() if start is None else start
        (partition,) = reader.partitions(start)
        opened = reader.open(pickle.loads(pickle.dumps(partition)), until)
        self.opened.append(opened)
        return opened

    def close(self) -> None:
        for each in self.opened:
            each.close()
        self.opened.clear()
        with self.server.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
                "WHERE slot_name = %s",
                [self.slot],
            )
            wait_until(
                lambda: (
                    not connection.execute(
                        "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active",
                        [self.slot],
                    ).fetchone()
                ),
                "the slot is free",
            )
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                "WHERE slot_name = %s",
                [self.slot],
            )


def take(reader: PartitionReader, rows: int, *names: str) -> list[tuple[Any, ...]]:
    """So many rows, and that there are no others where the epoch may end."""
    names = names or ("_op", "id", "n")
    found: list[tuple[Any, ...]] = []

    def came() -> bool:
        batch = reader.read(0.05)
        if batch is not None:
            columns = [batch.column(name).to_pylist() for name in names]
            found.extend(zip(*columns, strict=True))
        return len(found) >= rows and not reader.midway

    wait_until(came, f"{rows} rows have come")
    assert len(found) == rows, found
    return found
