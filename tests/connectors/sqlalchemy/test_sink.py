"""The sink of any database: what is committed, once, whoever dies or comes too late."""

from __future__ import annotations

import datetime
import decimal
import math
import threading
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra sqlalchemy")

import sqlalchemy as sa

from engine.errors import (
    ConfigError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
)
from engine.sinks.sqlalchemy import database as databases
from engine.sinks.sqlalchemy import prepared
from tests.connectors.databases.queries import CHANGES, KEYED, Query, changes, rows
from tests.connectors.databases.tables import DATABASES, Database
from tests.servers.postgresql import PASSWORD

UTC = datetime.timezone.utc


def test_the_table_is_made_and_gets_the_rows_of_each_epoch(database: Database) -> None:
    query = Query(database.writer())
    assert query.latest is None
    message, other = query.prepare(0, rows(1, 2), rows(3)), query.prepare(0, rows(4), task=1)
    assert database.ids() == []
    query.sink.commit([message, other], 0)
    assert database.ids() == [1, 2, 3, 4]
    query.commit(1)
    query.commit(2, rows(*range(10, 2_510)))
    again = Query(database.writer(), generation=1, logged=2)
    assert again.latest == 2
    assert len(database.ids()) == 2_504


def test_rows_and_the_number_of_their_epoch_are_one_transaction(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(database.writer())
    message = query.prepare(0, rows(1))

    def dies(*_: Any) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(query.sink._epochs, "note", dies)
        with pytest.raises(OSError, match="killed"):
            query.sink.commit([message], 0)
    assert database.ids() == []
    query.sink.commit([message], 0)
    assert database.ids() == [1]


def test_a_transaction_that_another_driver_has_open_is_waited_for_and_not_seen(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {
        "postgresql": ["SET lock_timeout = 100"],
        "mariadb": ["SET innodb_lock_wait_timeout = 1"],
        "mysql": ["SET innodb_lock_wait_timeout = 1"],
    }
    monkeypatch.setattr(databases, "_FIRST", first)
    options = {"url": f"{database.url}?timeout=0.1"} if database.dialect == "sqlite" else {}
    query = Query(database.writer(**options))
    message = query.prepare(0, rows(1))
    with database.engine.begin() as other:
        other.execute(sa.text("UPDATE continuous_epochs SET epoch = epoch"))
        with pytest.raises(SinkUnavailableError):
            query.sink.commit([message], 0)
    query.sink.commit([message], 0)
    assert database.ids() == [1]


SLEEPS = {
    "postgresql": ("SET idle_in_transaction_session_timeout = ", "1000"),
    "mariadb": ("SET idle_transaction_timeout = ", "1"),
}
"""By dialect: what sets how long a driver may say nothing in a transaction, and a second."""


def dialect_of(database: Database) -> str:
    with database.engine.connect() as connection:
        return databases.dialect_of(connection)


def test_a_driver_that_sleeps_in_its_transaction_is_thrown_out(database: Database) -> None:
    sets = SLEEPS.get(dialect_of(database))
    if sets is None:
        return  # it cannot do that
    told = [each for first in databases._FIRST.values() for each in first]
    assert [each for each in told if each.startswith(sets[0])]
    old = Query(database.writer())
    message = old.prepare(0, rows(1))
    with pytest.raises(SinkUnavailableError), old.sink._epochs.changing(old.context):  # noqa: PT012
        old.sink._epochs.connected().exec_driver_sql("".join(sets))  # it sleeps from now on
        Query(database.writer(), generation=1, logged=0, prepared=[(0, [message])])
        old.sink._epochs.note(old.context, 7)
    assert database.ids() == [1]


def test_an_epoch_whose_rows_take_long_to_prepare_is_committed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are prepared before the transaction, in which the database waits for nobody so long."""
    dialect = dialect_of(database)
    if dialect in SLEEPS:
        first = [*databases._FIRST[dialect], "".join(SLEEPS[dialect])]
        monkeypatch.setattr(databases, "_FIRST", {dialect: first})
    right, is_open = prepared.last_of_each_key, []

    def takes_long(*given: Any) -> pa.Table:
        connection = query.sink._epochs.connected()
        is_open.append(connection.in_transaction())
        threading.Event().wait(1.5 if dialect in SLEEPS else 0)
        return right(*given)

    monkeypatch.setattr(prepared, "last_of_each_key", takes_long)
    query = Query(database.writer(CHANGES, **KEYED))
    query.commit(0, changes((1, "a", False), (2, "b", False), (1, "c", False)))
    message = query.prepare(1, changes((2, "b", True)))
    query.sink.commit([message], 1)
    assert database.read(f"SELECT id, name FROM {database.table}") == [(1, "c")]
    assert is_open == [False, False]
    again = [(1, [message])]
    query = Query(database.writer(CHANGES, **KEYED), generation=1, logged=1, prepared=again)
    assert is_open == [False, False]  # it is there already
    database.run(
        "UPDATE continuous_epochs SET epoch = 0", f"INSERT INTO {database.table} VALUES (2, 'b')"
    )
    monkeypatch.undo()
    query.sink.commit([message], 1)  # a replica that has lost it has taken over
    assert database.ids() == [1]


def test_a_commit_whose_answer_was_lost_is_looked_for(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(database.writer())
    message = query.prepare(0, rows(1))
    right = sa.engine.Connection.commit

    def loses_the_answer(self: Any) -> None:
        right(self)
        raise sa.exc.OperationalError("COMMIT", {}, OSError("connection reset"))

    with monkeypatch.context() as patched:
        patched.setattr(sa.engine.Connection, "commit", loses_the_answer)
        with pytest.raises(SinkCommitUnknownError):
            query.sink.commit([message], 0)
    query.sink.commit([message], 0)
    assert database.ids() == [1]


def test_a_database_without_transactions_is_refused(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = databases.Database.connect
    monkeypatch.setattr(
        databases.Database,
        "connect",
        lambda self: right(self).execution_options(isolation_level="AUTOCOMMIT"),
    )
    with pytest.raises(ConfigError, match="has no transactions"):
        Query(sqlite.writer())


def test_a_table_has_one_name_in_capitals_too(sqlite: Database) -> None:
    query = Query(sqlite.writer(epochColumn="e"))
    Query(sqlite.writer(epochColumn="e", table="main.ORDERS"), query_id="other")
    assert sqlite.read("SELECT DISTINCT target FROM continuous_epochs") == [("main.orders",)]
    sqlite.run("UPDATE continuous_epochs SET target = 'Orders' WHERE query_id = 'other'")
    with pytest.raises(ConfigError, match="1 other query writes"):
        query.sink.checkRewind(0)


# -- by key ----------------------------------------------------------------------------------------


def test_a_row_that_is_replaced_keeps_its_other_columns_and_what_refers_to_it(
    sqlite: Database,
) -> None:
    sqlite.run(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT, seen TEXT)",
        "INSERT INTO orders VALUES (1, 'a', 'yes')",
        "CREATE TABLE lines (id BIGINT REFERENCES orders (id) ON DELETE CASCADE)",
        "INSERT INTO lines VALUES (1)",
    )
    query = Query(sqlite.writer(CHANGES, **KEYED))
    query.sink._epochs.connected().exec_driver_sql("PRAGMA foreign_keys = ON")
    query.commit(0, changes((1, "b", False)))
    assert sqlite.read("SELECT * FROM orders") == [(1, "b", "yes")]
    assert sqlite.read("SELECT * FROM lines") == [(1,)]


def test_columns_may_have_any_names(sqlite: Database) -> None:
    sqlite.run(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT, key_id TEXT, value_name TEXT)",
        "INSERT INTO orders VALUES (1, 'a', 'k', 'v')",
    )
    query = Query(sqlite.writer(CHANGES, **KEYED))
    query.commit(0, changes((1, "b", False), (2, "c", False)))
    query.commit(1, changes((2, "c", True)))
    assert sqlite.read("SELECT * FROM orders") == [(1, "b", "k", "v")]


def test_a_key_may_be_several_columns_and_all_columns(database: Database) -> None:
    only = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("name", pa.string())])
    row = {"id": 1, "day": datetime.date(2024, 2, 29), "name": "a"}
    query = Query(database.writer(only, mode="upsert", keyColumns="id, day,name"))
    for epoch in range(2):
        other = {**row, "name": f"b{epoch}"}
        query.commit(epoch, pa.RecordBatch.from_pylist([row, row, other], only))
    assert len(database.ids()) == 3


def test_a_key_that_is_null_fails_the_task(database: Database) -> None:
    query = Query(database.writer(CHANGES, **KEYED))
    with pytest.raises(SinkCommitRejectedError, match="has no id"):
        query.prepare(0, changes((None, "a", True)))  # type: ignore[arg-type]


# -- columns ---------------------------------------------------------------------------------------

MANY = pa.schema(
    [
        ("flag", pa.bool_()), ("tiny", pa.int8()), ("small", pa.int16()), ("int_", pa.int32()),
        ("big", pa.int64()), ("single", pa.float32()), ("twice", pa.float64()),
        ("price", pa.decimal128(10, 2)), ("texts", pa.string()), ("bytes_", pa.binary()),
        ("day_", pa.date32()), ("at_", pa.timestamp("us", "UTC")), ("local_", pa.timestamp("us")),
    ]
)  # fmt: skip


def test_values_of_every_type_arrive_as_they_are(database: Database) -> None:
    at = datetime.datetime(2024, 2, 29, 23, 59, 59, 999999)
    given: list[tuple[Any, ...]] = [
        (
            True, -128, -32768, -(2**31), -(2**63), 1.5, 1e300, decimal.Decimal("-0.01"),
            "ü\n\"'\\ \t%s :x", b"\x00\xff", datetime.date(1000, 1, 1), at.replace(tzinfo=UTC), at,
        ),
        (
            False, 127, 32767, 2**31 - 1, 2**63 - 1, 0.5, 1e-300, decimal.Decimal("99999999.99"),
            "", b"", datetime.date(9999, 12, 31), datetime.datetime(1000, 1, 1, tzinfo=UTC),
            datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
        ),
        (None,) * 13,
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(
        [dict(zip(MANY.names, each, strict=True)) for each in given], MANY
    )
    query = Query(database.writer(MANY))
    query.commit(0, batch.slice(0, 1), batch.slice(1))
    # The same rows by key: the statements are others.
    keyed = Database(database.url, f"{database.table}k")
    try:
        Query(keyed.writer(MANY, mode="upsert", keyColumns="big"), query_id="k").commit(
            0, batch.slice(0, 2)
        )
        for each, expected in ((database, given), (keyed, given[:2])):
            assert _all_rows(each) == expected
    finally:
        keyed.run(f"DROP TABLE {keyed.table}")
        keyed.engine.dispose()


def _all_rows(database: Database) -> list[tuple[Any, ...]]:
    with database.engine.connect() as connection:
        table = sa.Table(database.table, sa.MetaData(), autoload_with=connection)
        table.c.price.type = sa.Numeric(10, 2, asdecimal=database.dialect != "sqlite")
        table.c.twice.type = sa.Double()  # as numbers, and not as MySQL's dialect reads them
        found = [row._asdict() for row in connection.execute(sa.select(table))]
    for row in found:
        if row["flag"] is not None:
            row["flag"] = bool(row["flag"])
            row["price"] = decimal.Decimal(str(row["price"])).quantize(decimal.Decimal("0.01"))
            row["at_"] = row["at_"].replace(tzinfo=UTC) if not row["at_"].tzinfo else row["at_"]
    order = {True: 0, False: 1, None: 2}
    return [tuple(row.values()) for row in sorted(found, key=lambda row: order[row["flag"]])]


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pa.string(), ["abcd"]), (pa.string(), [None]), (pa.string(), ["a\0"]),
        (pa.date32(), [2_932_897]), (pa.timestamp("us"), [2**62]), (pa.float64(), [math.nan]),
    ],
)  # fmt: skip
def test_what_the_table_would_refuse_or_change_fails_the_task(
    sqlite: Database, dtype: pa.DataType, values: list[Any]
) -> None:
    kinds = {
        pa.string(): "VARCHAR(3) NOT NULL", pa.date32(): "DATE", pa.timestamp("us"): "DATETIME",
        pa.float64(): "DOUBLE",
    }  # fmt: skip
    sqlite.run(f"CREATE TABLE orders (x {kinds[dtype]})")
    schema = pa.schema([("x", dtype)])
    query = Query(sqlite.writer(schema))
    bad = pa.record_batch([pa.array(values, dtype)], schema)
    with pytest.raises(SinkCommitRejectedError, match="x"):
        query.prepare(0, bad)


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("id VARCHAR(9), name VARCHAR(9)", "column id with the type VARCHAR"),
        ("id INTEGER, name VARCHAR(9)", "column id with the type INTEGER"),
        ("id BIGINT", "no column name"),
        ("id BIGINT, name VARCHAR(9), other INTEGER NOT NULL", "other, which must not be left out"),
        ("id BIGINT, \"NAME\" VARCHAR(9)", "column NAME, which the query calls name"),
    ],
)  # fmt: skip
def test_a_table_that_the_rows_do_not_fit_is_refused(
    database: Database, ddl: str, says: str
) -> None:
    if database.dialect == "sqlite":
        ddl = ddl.replace("id INTEGER", "id NUMERIC(5)")  # an integer has 64 bits there
        says = says.replace("INTEGER", "NUMERIC")
    if database.dialect in ("mysql", "mariadb"):
        ddl = ddl.replace('"', "`")
    database.run(f"CREATE TABLE {database.table} ({ddl})")
    with pytest.raises(ConfigError, match=says):
        database.writer().validate()


@pytest.mark.parametrize(
    "database", [each for each in DATABASES if each.startswith("postgresql")], indirect=True
)
@pytest.mark.parametrize("ddl", ["at TIMESTAMP(3), name TEXT", "at TIMESTAMP, name CHAR(5)"])
def test_what_would_round_or_pad_is_refused(database: Database, ddl: str) -> None:
    database.run(f"CREATE TABLE {database.table} ({ddl})")
    schema = pa.schema([("at", pa.timestamp("us")), ("name", pa.string())])
    column = "at" if "(3)" in ddl else "name"
    with pytest.raises(ConfigError, match=f"column {column} with the type"):
        database.writer(schema).validate()


def test_a_decimal_that_the_database_would_round_is_refused(sqlite: Database) -> None:
    schema = pa.schema([("x", pa.decimal128(18, 2))])
    with pytest.raises(ConfigError, match=r"sqlite does not keep each value"):
        sqlite.writer(schema).validate()
    sqlite.run("CREATE TABLE orders (x NUMERIC(18, 2))")
    with pytest.raises(ConfigError, match=r"does not keep each value of DECIMAL\(18,2\)"):
        sqlite.writer(schema).validate()


def test_a_column_that_fills_itself_may_be_left_out(sqlite: Database) -> None:
    sqlite.run(
        "CREATE TABLE orders (n INTEGER PRIMARY KEY NOT NULL, id BIGINT, name TEXT, "
        "at TEXT NOT NULL DEFAULT 'now')"
    )
    Query(sqlite.writer()).commit(0, rows(7, 8))
    assert sqlite.read("SELECT * FROM orders") == [(1, 7, "n7", "now"), (2, 8, "n8", "now")]


def test_what_breaks_a_unique_index_is_told(database: Database) -> None:
    database.run(f"CREATE TABLE {database.table} (id BIGINT PRIMARY KEY, name VARCHAR(9))")
    query = Query(database.writer())
    query.commit(0, rows(1))
    message = query.prepare(1, rows(1, 2))
    with pytest.raises(SinkCommitRejectedError, match=r"(?i)unique|duplicate") as error:
        query.sink.commit([message], 1)
    assert "Mend it in the database" in str(error.value)
    assert "INSERT" not in str(error.value)
    database.run(f"DELETE FROM {database.table}")
    Query(database.writer(), generation=1, logged=1, prepared=[(1, [message])])
    assert database.ids() == [1, 2]


# -- what is refused -------------------------------------------------------------------------------


def test_a_server_that_goes_and_comes_is_an_outage(
    postgresql: Any, request: pytest.FixtureRequest
) -> None:
    url = f"postgresql+psycopg://me:{PASSWORD}@127.0.0.1:{postgresql.port}/postgres"
    database = Database(url, "outage")
    request.addfinalizer(lambda: postgresql.process.is_alive or postgresql.start())
    query = Query(database.writer())
    message = query.prepare(0, rows(1))
    postgresql.process.kill()
    for _ in range(2):
        with pytest.raises(SinkUnavailableError):
            query.sink.commit([message], 0)
    postgresql.start()
    query.sink.commit([message], 0)
    assert database.ids() == [1]
    query.sink._epochs.forget()
    database.run("DROP TABLE outage")


def test_no_secret_is_seen(postgresql: Any) -> None:
    def at(password: str) -> Database:
        url = f"postgresql+psycopg://me:{password}@127.0.0.1:{postgresql.port}/postgres"
        return Database(url, "secret")

    sink = at(PASSWORD).writer()
    assert PASSWORD not in repr(vars(sink))
    assert sink.path == f"postgresql://127.0.0.1:{postgresql.port}/postgres"
    assert sink.secretOptions == ("url",)
    with pytest.raises(ConfigError, match="password authentication failed") as error:
        at("wr0ng-h0rse").writer().validate()
    assert "wr0ng" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "nonsense s3cret"}, "no URL of SQLAlchemy"),
        ({"url": "nosuch://h/d"}, "no driver for nosuch"),
        ({"url": "sqlite://"}, "gone with its connection"),
        ({"table": 'a."B"'}, "names no table"),
    ],
)
def test_options_that_are_wrong_are_refused(
    sqlite: Database, options: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        sqlite.writer(**options)
    assert "s3cret" not in str(error.value)


def test_a_type_that_not_every_database_holds_is_refused(sqlite: Database) -> None:
    with pytest.raises(ConfigError, match="to_json"):
        sqlite.writer(pa.schema([("tags", pa.list_(pa.string()))]))


def test_an_epoch_is_committed_by_a_start_with_other_columns(database: Database) -> None:
    database.run(f"CREATE TABLE {database.table} (id BIGINT, name VARCHAR(9), price BIGINT)")
    message = Query(database.writer()).prepare(0, rows(1))
    wider = pa.schema([("price", pa.int64()), ("name", pa.string()), ("id", pa.int64())])
    again = database.writer(wider)
    Query(again, generation=1, logged=0, prepared=[(0, [message])])
    with database.engine.connect() as connection:
        found = connection.execute(sa.text(f"SELECT id, name, price FROM {database.table}"))
        assert found.all() == [(1, "n1", None)]


def test_an_epoch_without_what_the_table_wants_now_tells_how_to_get_rid_of_it(
    sqlite: Database,
) -> None:
    message = Query(sqlite.writer()).prepare(0, rows(1))
    sqlite.run("DROP TABLE orders")
    sqlite.run("CREATE TABLE orders (id BIGINT, name TEXT, price BIGINT NOT NULL)")
    wider = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.int64())])
    with pytest.raises(ConfigError, match="no column price") as refused:
        Query(sqlite.writer(wider), generation=1, logged=0, prepared=[(0, [message])])
    assert "once more as it was" in str(refused.value.hint)
