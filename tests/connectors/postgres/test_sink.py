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
    StaleRunError,
)
from engine.sinks.postgres.rewind import reopen
from tests.connectors.postgres.queries import (
    CHANGES,
    QUERY,
    Query,
    changes,
    ids,
    read,
    read_nothing,
    rows,
    stages,
    writer,
)
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


def test_an_epoch_is_committed_once(postgresql: PostgreSQL, schema: str) -> None:
    query = Query(writer(postgresql, f"{schema}.t"))
    message = query.prepare(0, rows(1))
    query.sink.commit([message], 0)
    query.sink.commit([message], 0)
    again = Query(
        writer(postgresql, f"{schema}.t"), generation=1, logged=0, prepared=[(0, [message])]
    )
    assert again.latest == 0
    assert ids(postgresql, f"{schema}.t") == [1]


def test_another_process_finishes_what_was_prepared(postgresql: PostgreSQL, schema: str) -> None:
    query = Query(writer(postgresql, f"{schema}.t"))
    message = query.prepare(0, rows(1))
    Query(writer(postgresql, f"{schema}.t"), generation=1, logged=0, prepared=[(0, [message])])
    assert ids(postgresql, f"{schema}.t") == [1]
    assert stages(postgresql, schema) == []


def test_a_run_that_was_replaced_commits_nothing(postgresql: PostgreSQL, schema: str) -> None:
    old = Query(writer(postgresql, f"{schema}.t"))
    message = old.prepare(0, rows(1))
    Query(writer(postgresql, f"{schema}.t"), generation=1)
    with pytest.raises(StaleRunError, match="generation 1 has written"):
        old.sink.commit([message], 0)
    with pytest.raises(StaleRunError):
        Query(writer(postgresql, f"{schema}.t"))
    assert ids(postgresql, f"{schema}.t") == []


def test_stages_survive_a_crash_of_the_server(server: PostgreSQL, schema: str) -> None:
    query = Query(writer(server, f"{schema}.t"))
    message = query.prepare(0, rows(1))
    server.process.kill()
    server.start()
    Query(writer(server, f"{schema}.t"), generation=1, logged=0, prepared=[(0, [message])])
    assert ids(server, f"{schema}.t") == [1]


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
    postgresql: PostgreSQL, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.sinks.postgres.epochs.SLEEPS_MS", 200)
    old = Query(writer(postgresql, f"{schema}.t"))
    message = old.prepare(0, rows(1))
    assert old.sink._epochs is not None
    with pytest.raises(SinkUnavailableError), old.sink._epochs.changing(old.context):  # noqa: PT012
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


def test_the_last_change_of_a_key_counts(postgresql: PostgreSQL, schema: str) -> None:
    table = f"{schema}.t"
    options = {"mode": "upsert", "keyColumns": "id", "deleteColumn": "gone"}
    query = Query(writer(postgresql, table, CHANGES, **options))
    query.commit(0, changes((1, "a", False), (2, "b", False), (1, "c", False)))
    assert read(postgresql, f"SELECT * FROM {table} ORDER BY id") == [(1, "c"), (2, "b")]
    query.commit(
        1,
        changes((1, None, True), (3, "d", False), (2, "x", True)),
        changes((2, "e", False), (4, "f", False), (4, None, True)),
    )
    assert read(postgresql, f"SELECT * FROM {table} ORDER BY id") == [(2, "e"), (3, "d")]
    message = query.prepare(2, changes((2, "g", False)))
    other = query.prepare(2, changes((2, "h", False)), task=1)
    query.sink.commit([message, other], 2)
    assert read(postgresql, f"SELECT * FROM {table} ORDER BY id") == [(2, "h"), (3, "d")]


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


# -- rewind, and what is not there -----------------------------------------------------------------


def test_rows_of_later_epochs_are_taken_back(postgresql: PostgreSQL, schema: str) -> None:
    table, options = f"{schema}.t", {"epochColumn": "epoch"}
    query = Query(writer(postgresql, table, **options))
    for epoch in range(3):
        query.commit(epoch, rows(epoch))
    late = query.prepare(3, rows(3))
    taken = reopen({**postgresql.options, "table": table, **options})
    assert taken is not None
    new = writer(postgresql, table, **options)
    taken.bind(Query(new, generation=1, logged=3).context)
    taken.checkRewind(0)
    assert ids(postgresql, table) == [0, 1, 2]
    again = writer(postgresql, table, **options)
    again.bind(type(query.context)(QUERY, "run", 2, 2))
    again.checkRewind(0)
    for _ in range(2):
        again.rewind(0)
        assert ids(postgresql, table) == [0]
    assert again.latestEpoch() == 0
    with pytest.raises(StaleRunError):
        query.sink.commit([late], 3)
    after = Query(writer(postgresql, table, **options), generation=3, timeline=2, logged=0)
    after.commit(1, rows(11))
    assert read(postgresql, f"SELECT id, epoch FROM {table} ORDER BY 1") == [(0, 0), (11, 1)]


def test_a_rewind_that_does_not_know_which_rows_is_refused(
    postgresql: PostgreSQL, schema: str
) -> None:
    query = Query(writer(postgresql, f"{schema}.t"))
    with pytest.raises(ConfigError, match="has no epochColumn"):
        query.sink.checkRewind(0)
    shared = Query(writer(postgresql, f"{schema}.u", epochColumn="e"))
    Query(writer(postgresql, f"{schema}.u", epochColumn="e"), query_id="other")
    with pytest.raises(ConfigError, match="1 other queries write"):
        shared.sink.checkRewind(0)


def test_what_was_upserted_stays_and_comes_again(postgresql: PostgreSQL, schema: str) -> None:
    table, options = f"{schema}.t", {"mode": "upsert", "keyColumns": "id"}
    query = Query(writer(postgresql, table, **options))
    for epoch in range(3):
        query.commit(epoch, rows(epoch))
    taken = reopen({**postgresql.options, **options, "table": table})
    assert taken is not None
    taken.bind(type(query.context)(QUERY, "run", 1, 1))
    taken.checkRewind(0)
    taken.rewind(0)
    assert ids(postgresql, table) == [0, 1, 2]
    after = Query(writer(postgresql, table, **options), generation=2, timeline=1, logged=0)
    assert after.latest == 0
    after.commit(1, rows(1))
    assert ids(postgresql, table) == [0, 1, 2]


def test_a_table_that_is_gone_is_not_made_anew(postgresql: PostgreSQL, schema: str) -> None:
    query = Query(writer(postgresql, f"{schema}.t"))
    query.commit(0, rows(1))
    read_nothing(postgresql, f"DROP TABLE {schema}.t")
    with pytest.raises(ConfigError, match="has no table"):
        Query(writer(postgresql, f"{schema}.t"), generation=1, logged=0)
    query.sink.bind(query.context)
    with pytest.raises(SinkUnavailableError, match="has no table"):
        query.sink.checkLogged(0)


def test_a_database_that_knows_nothing_of_the_query_is_refused(
    postgresql: PostgreSQL, schema: str
) -> None:
    query = Query(writer(postgresql, f"{schema}.t"))
    query.commit(0, rows(1))
    read_nothing(postgresql, f"DELETE FROM {schema}.continuous_epochs")
    with pytest.raises(ConfigError, match="has no note of the query"):
        Query(writer(postgresql, f"{schema}.t"), generation=1, logged=0)


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
        ({"mode": "merge"}, "one of append, upsert"),
        ({"mode": "upsert"}, "needs the option key"),
        ({"keyColumns": "id"}, "no effect in mode append"),
        ({"mode": "upsert", "keyColumns": "nope"}, "'nope', which is no column"),
        ({"mode": "upsert", "keyColumns": "id", "deleteColumn": "name"}, "must be BOOLEAN"),
        ({"mode": "upsert", "keyColumns": "id", "epochColumn": "e"}, "no effect in mode upsert"),
        ({"epochColumn": "id"}, "has a column 'id'"),
        ({"libpq.nonsense": "1"}, "nonsense"),
        ({"tabel": "x"}, "Did you mean table"),
        ({"table": " "}, "needs the option table"),
    ],
)
def test_options_that_are_wrong_are_refused(
    postgresql: PostgreSQL, options: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        writer(postgresql, options.pop("table", "t"), **options)


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
