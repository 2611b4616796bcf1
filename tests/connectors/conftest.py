"""Servers that several connectors write to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.postgresql import PostgreSQL, missing, running_postgresql


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    if reason := missing("psycopg", "pgpq"):
        pytest.skip(f"no PostgreSQL: {reason}")
    with running_postgresql() as server:
        yield server
