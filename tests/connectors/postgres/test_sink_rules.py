"""The sink of PostgreSQL: what a table and a role want of rows and statements."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

pytest.importorskip("psycopg", reason="needs the extra postgres")

from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from tests.connectors.databases.queries import CHANGES, KEYED, SCHEMA, Query, changes, rows
from tests.connectors.postgres.queries import ids, read, read_nothing, writer
from tests.servers.postgresql import PASSWORD, PostgreSQL

LIMIT_MS = 2000
"""More than a loaded machine keeps a statement waiting, or a client that has just logged in."""


def test_a_key_of_null_is_refused_before_the_epoch_is_prepared(
    postgresql: PostgreSQL, schema: str
) -> None:
    read_nothing(postgresql, f"CREATE TABLE {schema}.t (id bigint UNIQUE, name text)")
    query = Query(writer(postgresql, f"{schema}.t", mode="upsert", keyColumns="id"))
    query.commit(0, rows(1))
    nobody = pa.RecordBatch.from_pylist([{"id": None, "name": "x"}], SCHEMA)
    with pytest.raises(SinkCommitRejectedError, match="violates check constraint"):
        query.prepare(1, nobody)
    assert ids(postgresql, f"{schema}.t") == [1]


def test_what_a_table_wants_of_rows_it_does_not_want_of_deleted_ones(
    postgresql: PostgreSQL, schema: str
) -> None:
    read_nothing(
        postgresql,
        f"CREATE TABLE {schema}.t (id bigint PRIMARY KEY CHECK (id > 0), name text NOT NULL, "
        "CHECK (name IS NOT NULL AND name NOT LIKE '%{%s') NO INHERIT)",
    )
    query = Query(writer(postgresql, f"{schema}.t", CHANGES, **KEYED))
    query.commit(0, changes((1, "a", False), (2, "b", False)))
    query.commit(1, changes((1, None, True)))
    assert ids(postgresql, f"{schema}.t") == [2]
    unknown = pa.RecordBatch.from_pylist([{"id": 3, "name": None, "gone": None}], CHANGES)
    for batch in (changes((2, "{%s", False)), changes((2, None, False)), unknown):
        with pytest.raises(SinkCommitRejectedError, match="violates check constraint"):
            query.prepare(2, batch)
        query.task().aborted(2)


def test_what_an_index_includes_is_no_part_of_its_key(postgresql: PostgreSQL, schema: str) -> None:
    read_nothing(postgresql, f"CREATE TABLE {schema}.t (id bigint, name text)")
    read_nothing(postgresql, f"CREATE UNIQUE INDEX ON {schema}.t (id) INCLUDE (name)")
    with pytest.raises(ConfigError, match=r"no unique index on \(id, name\)"):
        Query(writer(postgresql, f"{schema}.t", mode="upsert", keyColumns="id,name"))
    query = Query(writer(postgresql, f"{schema}.t", mode="upsert", keyColumns="id"))
    query.commit(0, rows(1, 1))
    assert ids(postgresql, f"{schema}.t") == [1]


def test_parameters_of_the_client_that_are_set_here_are_refused(
    postgresql: PostgreSQL, schema: str
) -> None:
    with pytest.raises(ConfigError, match="sets the parameter client_encoding"):
        writer(postgresql, f"{schema}.t", **{"libpq.client_encoding": "LATIN1"})
    with pytest.raises(ConfigError, match="sets the parameter replication"):
        writer(postgresql, f"{schema}.t", url=f"{postgresql.url}?replication=database")


def test_limits_of_the_role_for_statements_do_not_end_an_epoch(
    postgresql: PostgreSQL, schema: str
) -> None:
    read_nothing(postgresql, f"CREATE ROLE {schema} LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    for limit in ("statement_timeout", "idle_session_timeout"):
        read_nothing(postgresql, f"ALTER ROLE {schema} SET {limit} = '{LIMIT_MS}ms'")
    query = Query(writer(postgresql, f"{schema}.t", user=schema))

    def slowly() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        read_nothing(postgresql, f"SELECT pg_sleep({1.2 * LIMIT_MS / 1000})")
        yield rows(2)

    for epoch, batches in enumerate([[rows(1), rows(2)], slowly()]):
        query.sink.commit([query.task().write(epoch, iter(batches))], epoch)
        query.task().committed(epoch)
    assert ids(postgresql, f"{schema}.t") == [1, 1, 2, 2]
    own = {"libpq.options": f"-c statement_timeout={LIMIT_MS}"}
    query = Query(writer(postgresql, f"{schema}.t", user=schema, **own), generation=1, logged=1)
    with pytest.raises(SinkUnavailableError, match="statement timeout"):
        query.task().write(2, slowly())


WIDER = pa.schema([("price", pa.float64()), *SCHEMA])
GROWS = {"schemaEvolution": "add-columns"}


@pytest.mark.parametrize("keyed", [{}, {"mode": "upsert", "keyColumns": "id"}])
def test_an_epoch_is_committed_by_a_start_with_other_columns(
    postgresql: PostgreSQL, schema: str, keyed: dict[str, str]
) -> None:
    table = f"{schema}.t"
    old = Query(writer(postgresql, table, **keyed))
    message = old.prepare(0, rows(1, 2))
    now = writer(postgresql, table, WIDER, **keyed, **GROWS)
    new = Query(now, generation=1, logged=0, prepared=[(0, [message])])
    row = {"price": 2, "id": 3, "name": "c"}
    message = new.prepare(1, pa.RecordBatch.from_pylist([row], WIDER))
    narrow = writer(postgresql, table, pa.schema([SCHEMA.field("id")]), **keyed)
    Query(narrow, generation=2, logged=1, prepared=[(1, [message])])
    found = read(postgresql, f"SELECT id, name, price FROM {table} ORDER BY id")
    assert found == [(1, "n1", None), (2, "n2", None), (3, None, None)]


def test_an_epoch_without_what_the_table_wants_now_tells_how_to_get_rid_of_it(
    postgresql: PostgreSQL, schema: str
) -> None:
    table = f"{schema}.t"
    old = Query(writer(postgresql, table))
    message = old.prepare(0, rows(1))
    read_nothing(postgresql, f"ALTER TABLE {table} ADD COLUMN price float8 NOT NULL")
    now = writer(postgresql, table, WIDER)
    with pytest.raises(ConfigError, match="an earlier start, whose rows have no column price"):
        Query(now, generation=1, logged=0, prepared=[(0, [message])])
    read_nothing(postgresql, f"ALTER TABLE {table} DROP COLUMN price, ADD UNIQUE (id)")
    keyed = writer(postgresql, table, mode="upsert", keyColumns="id")
    with pytest.raises(ConfigError, match="tells which row is the last one of a key"):
        Query(keyed, generation=2, logged=0, prepared=[(0, [message])])
    assert ids(postgresql, table) == []
