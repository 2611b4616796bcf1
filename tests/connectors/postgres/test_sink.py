"""The sink of PostgreSQL: what is committed, once, whoever dies or comes too late."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("psycopg", reason="needs the extra postgres")

from engine.errors import (
    ConfigError,
    PreparedEpochLostError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
)
from tests.connectors.databases.queries import Query, rows
from tests.connectors.postgres.queries import ids, read, read_nothing, stages, writer
from tests.servers.postgresql import PASSWORD, PostgreSQL
from tests.waiting import wait_until

UTC = datetime.timezone.utc


def test_the_table_is_made_and_gets_the_rows_of_each_epoch(
    postgresql: PostgreSQL, schema: str
) -> None:
    query = Query(writer(postgresql, f"{schema}.t"))
    assert query.latest is None
    message, other = query.prepare(0, rows(1, 2), rows(3)), query.prepare(0, rows(4), task=1)
    assert ids(postgresql, f"{schema}.t") == []
    query.sink.commit([message, other], 0)
    assert ids(postgresql, f"{schema}.t") == [1, 2, 3, 4]
    query.task().committed(0)
    query.commit(1)
    for epoch in range(2, 6):  # more than it has stages
        query.commit(epoch, rows(10 + epoch))
    assert ids(postgresql, f"{schema}.t") == [1, 2, 3, 4, 12, 13, 14, 15]
    again = Query(writer(postgresql, f"{schema}.t"), generation=1, logged=5)
    assert again.latest == 5
    query.close()
    again.close()
    assert stages(postgresql, schema) == []


def test_stages_survive_a_crash_of_the_server(server: PostgreSQL, schema: str) -> None:
    query = Query(writer(server, f"{schema}.t"))
    message = query.prepare(0, rows(1))
    server.process.kill()
    server.start()
    Query(writer(server, f"{schema}.t"), generation=1, logged=0, prepared=[(0, [message])])
    assert ids(server, f"{schema}.t") == [1]
    assert stages(server, schema) == []


def test_rows_that_a_standby_did_not_have_are_missed(postgresql: PostgreSQL, schema: str) -> None:
    query = Query(writer(postgresql, f"{schema}.t"))
    query.commit(0, rows(1))
    message = query.prepare(1, rows(2, 3))
    read_nothing(postgresql, f"DELETE FROM {schema}.{message.stage} WHERE id = 3")
    again = writer(postgresql, f"{schema}.t")
    with pytest.raises(PreparedEpochLostError, match="1 of 2 rows"):
        Query(again, generation=1, logged=1, prepared=[(1, [message])])
    assert ids(postgresql, f"{schema}.t") == [1]


def test_stages_survive_an_orderly_restart(server: PostgreSQL, schema: str) -> None:
    query = Query(writer(server, f"{schema}.t"))
    message = query.prepare(0, rows(1))
    server.stop()
    with pytest.raises(SinkUnavailableError):
        query.sink.commit([message], 0)
    server.start()
    Query(writer(server, f"{schema}.t"), generation=1, logged=0, prepared=[(0, [message])])
    assert ids(server, f"{schema}.t") == [1]


def test_a_stage_that_is_gone_is_missed(postgresql: PostgreSQL, schema: str) -> None:
    query = Query(writer(postgresql, f"{schema}.t"))
    message = query.prepare(0, rows(1))
    read_nothing(postgresql, f"DROP TABLE {schema}.{message.stage}")
    with pytest.raises(PreparedEpochLostError):
        query.sink.commit([message], 0)


def test_a_driver_that_sleeps_in_its_transaction_is_thrown_out(
    postgresql: PostgreSQL, schema: str
) -> None:
    limit = "idle_in_transaction_session_timeout"
    old = Query(writer(postgresql, f"{schema}.t"))
    message = old.prepare(0, rows(1))
    with pytest.raises(SinkUnavailableError), old.sink._epochs.changing(old.context):  # noqa: PT012
        connection = old.sink._epochs.connected()
        assert connection.execute(f"SHOW {limit}").fetchone() == ("10s",)
        connection.execute(f"SET LOCAL {limit} = 200")  # it sleeps from now on
        Query(writer(postgresql, f"{schema}.t"), generation=1, logged=0, prepared=[(0, [message])])
        old.sink._epochs.note(old.context, 7)
    assert ids(postgresql, f"{schema}.t") == [1]


def test_what_a_suspended_task_holds_is_not_waited_for(postgresql: PostgreSQL, schema: str) -> None:
    old = Query(writer(postgresql, f"{schema}.t"))
    new: list[Query] = []

    def batches() -> Any:
        yield rows(1)
        new.append(Query(writer(postgresql, f"{schema}.t"), generation=1))
        yield rows(2)

    message = old.task().write(0, batches())
    assert message.stage in stages(postgresql, schema)
    new[0].commit(0, rows(5))
    assert ids(postgresql, f"{schema}.t") == [5]
    Query(writer(postgresql, f"{schema}.t"), generation=2, logged=0)
    assert message.stage not in stages(postgresql, schema)


# -- by key ----------------------------------------------------------------------------------------


def test_a_key_alone_is_a_row(postgresql: PostgreSQL, schema: str) -> None:
    only = pa.schema([("id", pa.int64())])
    query = Query(writer(postgresql, f"{schema}.t", only, mode="upsert", keyColumns="id"))
    for epoch in range(2):
        query.commit(epoch, pa.RecordBatch.from_pylist([{"id": 1}, {"id": 1}], only))
    assert ids(postgresql, f"{schema}.t") == [1]


def test_mode_upsert_wants_a_unique_index(postgresql: PostgreSQL, schema: str) -> None:
    read_nothing(postgresql, f"CREATE TABLE {schema}.t (id bigint, name text)")
    sink = writer(postgresql, f"{schema}.t", mode="upsert", keyColumns="id")
    with pytest.raises(ConfigError, match=r"no unique index on .id."):
        sink.validate()
    read_nothing(postgresql, f"CREATE UNIQUE INDEX ON {schema}.t (id)")
    sink.validate()


# -- columns ---------------------------------------------------------------------------------------

MANY = pa.schema(
    [
        ("flag", pa.bool_()), ("tiny", pa.int8()), ("small", pa.int16()), ("int", pa.int32()),
        ("big", pa.int64()), ("real", pa.float32()), ("double", pa.float64()),
        ("price", pa.decimal128(10, 2)), ("text", pa.string()), ("bytes", pa.binary()),
        ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())), ("counts", pa.list_(pa.int32())),
    ]
)  # fmt: skip


def test_values_of_every_type_arrive_as_they_are(postgresql: PostgreSQL, schema: str) -> None:
    at = datetime.datetime(2024, 2, 29, 23, 59, 59, 999999)
    given = [
        (
            True, -128, -32768, -(2**31), -(2**63), 1.5, float("inf"), decimal.Decimal("-0.01"),
            "ü\n\"'\\ \t", b"\x00\xff", datetime.date(1, 1, 1), at.replace(tzinfo=UTC), at,
            ["a", None, ""], [],
        ),
        (
            False, 127, 32767, 2**31 - 1, 2**63 - 1, -0.0, 5e-324, decimal.Decimal("99999999.99"),
            "", b"", datetime.date(9999, 12, 31), datetime.datetime(1, 1, 1, tzinfo=UTC),
            datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), None, [1, None, -3],
        ),
        (None,) * 15,
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(
        [dict(zip(MANY.names, each, strict=True)) for each in given], MANY
    )
    query = Query(writer(postgresql, f"{schema}.t", MANY))
    query.commit(0, batch.slice(0, 1), batch.slice(1))
    assert read(postgresql, f"SELECT * FROM {schema}.t") == given


def test_a_table_that_is_there_may_have_other_types_and_more_columns(
    postgresql: PostgreSQL, schema: str
) -> None:
    read_nothing(
        postgresql,
        f"CREATE TYPE {schema}.mood AS ENUM ('ok', 'sad'); "
        f"CREATE TABLE {schema}.t (n serial, j jsonb, u uuid NOT NULL, v varchar(3), "
        f"m {schema}.mood, x numeric(6,2) CHECK (x > 0), more text DEFAULT 'there')",
    )
    columns = pa.schema(
        [("j", pa.string()), ("u", pa.string()), ("v", pa.string()), ("m", pa.string()),
         ("x", pa.int32())]
    )  # fmt: skip
    query = Query(writer(postgresql, f"{schema}.t", columns))

    def row(**given: Any) -> pa.RecordBatch:
        usual = {"j": '{"a": 1}', "u": "a" * 32, "v": "abc", "m": "ok", "x": 5}
        return pa.RecordBatch.from_pylist([{**usual, **given}], columns)

    query.commit(0, row())
    found = read(postgresql, f"SELECT n, j->>'a', u::text, v, m::text, x, more FROM {schema}.t")
    uuid = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
    assert found == [(1, "1", uuid, "abc", "ok", decimal.Decimal("5.00"), "there")]
    # What the table would refuse fails the task: nothing is prepared that no commit could finish.
    for wrong in ({"j": "{"}, {"u": "x"}, {"u": None}, {"v": "abcd"}, {"m": "mad"}, {"x": 10**5}):
        with pytest.raises(SinkCommitRejectedError):
            query.prepare(1, row(**wrong))
        query.task().aborted(1)
    query.commit(1, row(x=6))
    assert len(read(postgresql, f"SELECT * FROM {schema}.t")) == 2


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("id text, name text", "column id with the type text"),
        ("id bigint", "no column name"),
        ("id bigint, name text, other int NOT NULL", "other, which must not be left out"),
        ('id bigint, "Name" text', "column Name, which the query calls name"),
        ("id bigint GENERATED ALWAYS AS IDENTITY, name text", "makes the values of id itself"),
    ],
)
def test_a_table_that_the_rows_do_not_fit_is_refused(
    postgresql: PostgreSQL, schema: str, ddl: str, says: str
) -> None:
    read_nothing(postgresql, f"CREATE TABLE {schema}.t ({ddl})")
    with pytest.raises(ConfigError, match=says):
        writer(postgresql, f"{schema}.t").validate()


def test_columns_are_added_if_that_is_wanted(postgresql: PostgreSQL, schema: str) -> None:
    read_nothing(
        postgresql, f"CREATE TABLE {schema}.t (id bigint); INSERT INTO {schema}.t VALUES (0)"
    )
    query = Query(writer(postgresql, f"{schema}.t", schemaEvolution="add-columns"))
    query.commit(0, rows(1))
    assert read(postgresql, f"SELECT * FROM {schema}.t ORDER BY 1") == [(0, None), (1, "n1")]


def test_what_breaks_a_unique_index_is_told(postgresql: PostgreSQL, schema: str) -> None:
    read_nothing(postgresql, f"CREATE TABLE {schema}.t (id bigint PRIMARY KEY, name text)")
    query = Query(writer(postgresql, f"{schema}.t"))
    query.commit(0, rows(1))
    message = query.prepare(1, rows(1, 2))
    with pytest.raises(SinkCommitRejectedError, match=r"Key .id.=.1. already exists") as error:
        query.sink.commit([message], 1)
    assert "Mend it in the database" in str(error.value)
    read_nothing(postgresql, f"DELETE FROM {schema}.t")
    Query(writer(postgresql, f"{schema}.t"), generation=1, logged=1, prepared=[(1, [message])])
    assert ids(postgresql, f"{schema}.t") == [1, 2]


# -- what is refused -------------------------------------------------------------------------------


def test_no_secret_is_seen(postgresql: PostgreSQL, schema: str) -> None:
    sink = writer(postgresql, f"{schema}.t")
    assert PASSWORD not in repr(vars(sink)["_options"])
    assert {"user", "password"} <= set(sink.tuningOptions)
    wrong = {"password": "wr0ng-h0rse"}
    with pytest.raises(ConfigError, match="password authentication failed") as error:
        writer(postgresql, f"{schema}.t", **wrong).validate()
    assert "wr0ng" not in str(error.value)
    with pytest.raises(ConfigError, match="has a password"):
        writer(postgresql, f"{schema}.t", url="postgresql://u:p4ss@h/d")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "nonsense"}, "no address of a database"),
        ({"url": "postgresql://h"}, "names no database"),
        ({"libpq.nonsense": "1"}, "nonsense"),
    ],
)
def test_options_that_are_wrong_are_refused(
    postgresql: PostgreSQL, options: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        writer(postgresql, "t", **options)


def test_a_schema_without_rights_is_refused(postgresql: PostgreSQL, schema: str) -> None:
    with pytest.raises(ConfigError, match="schema nowhere, for stages, does not exist"):
        writer(postgresql, f"{schema}.t", stagingSchema="nowhere").validate()


def test_a_commit_whose_answer_was_lost_is_looked_for(postgresql: PostgreSQL, schema: str) -> None:
    query = Query(writer(postgresql, f"{schema}.t"))
    read_nothing(
        postgresql,
        f"CREATE FUNCTION {schema}.die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$; "
        f"CREATE CONSTRAINT TRIGGER die AFTER INSERT ON {schema}.t DEFERRABLE INITIALLY DEFERRED "
        f"FOR EACH ROW EXECUTE FUNCTION {schema}.die()",
    )
    message = query.prepare(0, rows(1))
    with pytest.raises(SinkCommitUnknownError):
        query.sink.commit([message], 0)
    read_nothing(postgresql, f"DROP TRIGGER die ON {schema}.t")
    for _ in range(2):
        query.sink.commit([message], 0)
    assert ids(postgresql, f"{schema}.t") == [1]


def test_a_lost_connection_is_an_outage(server: PostgreSQL, schema: str) -> None:
    query = Query(writer(server, f"{schema}.t"))

    def batches() -> Any:
        yield rows(1)
        read_nothing(
            server,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%'",
        )
        wait_until(
            lambda: not read(server, "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'COPY%'"),
            "the connection is gone",
        )
        yield rows(2)
        yield rows(*range(100_000))

    with pytest.raises(SinkUnavailableError):
        query.task().write(0, batches())
