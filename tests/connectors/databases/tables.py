"""A table of a database, and the sink that writes it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from engine.sinks.reopen import reopen_sink
from tests.connectors.databases.queries import SCHEMA, close_all, unbound
from tests.servers.postgresql import PASSWORD, USER

DATABASES = ("sqlite", "postgresql", *os.environ.get("SQL_DATABASES", "").split())
"""SQLite, a server of PostgreSQL, and what the variable names: URLs of other databases, with
spaces, where tables may be made."""


class Database:
    """One to write to, and to look into.

    :param table: of the test.
    :param sink: that writes to it.
    :param options: of the sink, beside the table; the url if there are none.
    """

    def __init__(
        self, url: str, table: str, sink: str = "sqlalchemy", options: dict[str, str] | None = None
    ) -> None:
        self.url, self.table, self.sink = url, table, sink
        self.options = {**(options or {"url": url}), "table": table}
        self.engine = sa.create_engine(url, poolclass=sa.pool.NullPool)

    @property
    def dialect(self) -> str:
        return self.engine.dialect.name

    @property
    def default_schema(self) -> str:
        """Where a table is that is named without one."""
        return str(sa.inspect(self.engine).default_schema_name)

    def run(self, *statements: str) -> None:
        with self.engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def read(self, query: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(query)]

    def ids(self) -> list[int]:
        return [row[0] for row in self.read(f"SELECT id FROM {self.table} ORDER BY id")]

    def writer(self, schema: pa.Schema = SCHEMA, **options: str) -> Any:
        """A sink that is not bound."""
        return unbound(self.sink, {**self.options, **options}, schema)

    def reopened(self, **options: str) -> Any:
        """The sink without its query."""
        given = {**self.options, **options}
        if self.dialect == "sqlite":  # as a checkpoint tells it, which has no url
            given["path"] = given.pop("url")
        return reopen_sink(self.sink, given)


@contextmanager
def database_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Database]:
    """:param kind: one of :data:`DATABASES`, or ``sink postgres``: the same server by that sink."""
    name, url, sink, options = f"t{uuid.uuid4().hex[:12]}", kind, "sqlalchemy", None
    if kind == "sqlite":
        url = f"sqlite:///{folder / 'shop.db'}"
    elif kind in ("postgresql", "sink postgres"):
        server = request.getfixturevalue("postgresql")
        with server.connect() as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        in_it = f"-csearch_path={name}"
        parsed = sa.engine.make_url(server.url).update_query_dict({"options": in_it})
        url = parsed.set(
            drivername="postgresql+psycopg", username=USER, password=PASSWORD
        ).render_as_string(hide_password=False)  # fmt: skip
        if kind == "sink postgres":
            sink, options = "postgres", {**server.options, "libpq.options": in_it}
    made = Database(url, name, sink, options)
    yield made
    close_all()
    made.run(*(f"DROP TABLE IF EXISTS {name}" for name in (made.table, "continuous_epochs")))
    made.engine.dispose()
