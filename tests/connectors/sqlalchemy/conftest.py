"""Each test with a file of SQLite, with a server of PostgreSQL, and with what the variable
``SQL_DATABASES`` names: URLs of other databases, with spaces, where tables may be made."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.connectors.sqlalchemy.queries import Database, close_all
from tests.servers.postgresql import PASSWORD, USER

OTHERS = os.environ.get("SQL_DATABASES", "").split()


@pytest.fixture(params=["sqlite", "postgresql", *OTHERS], ids=lambda each: each.partition(":")[0])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A table's name in it is of this test alone."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'shop.db'}"
    elif request.param == "postgresql":
        server = request.getfixturevalue("postgresql")
        url = sa.engine.make_url(server.url).set(
            drivername="postgresql+psycopg", username=USER, password=PASSWORD
        ).render_as_string(hide_password=False)  # fmt: skip
    else:
        url = request.param
    made = Database(url, f"t{uuid.uuid4().hex[:12]}")
    yield made
    close_all()
    made.run(*(f"DROP TABLE IF EXISTS {name}" for name in (made.table, "continuous_epochs")))
    made.engine.dispose()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'shop.db'}", "orders")
    yield made
    close_all()
    made.engine.dispose()
