"""Each test has a schema of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.postgresql import PostgreSQL


@pytest.fixture
def server(postgresql: PostgreSQL) -> Iterator[PostgreSQL]:
    """The same, to be killed, suspended and started again: in the end it runs."""
    yield postgresql
    postgresql.process.resume()
    if not postgresql.process.is_alive:
        postgresql.start()


@pytest.fixture(autouse=True)
def close_queries() -> Iterator[None]:
    yield
    from tests.connectors.databases.queries import close_all

    close_all()


@pytest.fixture
def schema(postgresql: PostgreSQL) -> str:
    """Its name; empty."""
    name = f"s{uuid.uuid4().hex[:12]}"
    with postgresql.connect() as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return name


@pytest.fixture
def changes(server: PostgreSQL, schema: str) -> Iterator[Any]:
    from tests.connectors.postgres.changes import Changes

    made = Changes(server, schema, "id bigint PRIMARY KEY, n integer")
    yield made
    made.close()
