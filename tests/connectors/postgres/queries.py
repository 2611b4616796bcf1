"""The sink of PostgreSQL, and a look at what it has written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from engine.sinks.postgres.data_source import PostgresWriter
from tests.connectors.databases.queries import SCHEMA, unbound
from tests.servers.postgresql import PostgreSQL


def writer(
    server: PostgreSQL, table: str, schema: pa.Schema = SCHEMA, **options: str
) -> PostgresWriter:
    """A sink that is not bound."""
    made = unbound("postgres", {**server.options, "table": table, **options}, schema)
    assert isinstance(made, PostgresWriter)
    return made


def read(server: PostgreSQL, query: str) -> list[tuple[Any, ...]]:
    with server.connect() as connection:
        return list(connection.execute(query).fetchall())


def read_nothing(server: PostgreSQL, statements: str) -> None:
    with server.connect() as connection:
        connection.execute(statements)


def ids(server: PostgreSQL, table: str) -> list[int]:
    return [row[0] for row in read(server, f"SELECT id FROM {table} ORDER BY id")]


def stages(server: PostgreSQL, schema: str) -> list[str]:
    return [
        row[0]
        for row in read(
            server,
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = "
            f"'{schema}'::regnamespace AND relname ~ '^continuous_[0-9a-f]{{12}}_' ORDER BY 1",
        )
    ]
