"""The source of PostgreSQL: a table, then each change once, whoever dies."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("psycopg", reason="needs the extra postgres")

from engine.errors import (
    BadRecordError,
    ConfigError,
    OffsetOutOfRangeError,
    SourceError,
    SourceUnavailableError,
)
from engine.sources.postgres import partition_reader
from tests.connectors.postgres.changes import Changes, take
from tests.servers.postgresql import PostgreSQL
from tests.waiting import wait_until

UTC = datetime.timezone.utc


def test_a_table_and_then_its_changes(changes: Changes) -> None:
    changes.run("INSERT INTO @t VALUES (1, 10), (2, NULL)")
    reader = changes.open()
    assert reader.offset == {"lsn": 0}
    assert take(reader, 2) == [("snapshot", 1, 10), ("snapshot", 2, None)]
    changes.run("INSERT INTO @t VALUES (3, 30)", "UPDATE @t SET n = 31 WHERE id = 3")
    changes.run("UPDATE @t SET id = 4 WHERE id = 1", "DELETE FROM @t WHERE id = 2")
    changes.run("TRUNCATE @t")
    assert take(reader, 6) == [
        ("insert", 3, 30),
        ("update", 3, 31),
        ("delete", 1, None),
        ("insert", 4, 10),
        ("delete", 2, None),
        ("truncate", None, None),
    ]


def test_what_tells_of_a_change(changes: Changes) -> None:
    reader = changes.open(startingPosition="latest")
    before = datetime.datetime.now(UTC) - datetime.timedelta(minutes=1)
    changes.run("INSERT INTO @t VALUES (1, 1), (2, 2)")
    names = ("_op", "_lsn", "_xid", "_committed_at")
    (first, second) = take(reader, 2, *names)
    assert first == second
    assert first[1] < reader.offset["lsn"]
    assert first[2] == int(changes.ask(f"SELECT xmin::text FROM {changes.table} LIMIT 1"))
    assert before < first[3] < datetime.datetime.now(UTC) + datetime.timedelta(minutes=1)


def test_whoever_comes_next_goes_on_behind_the_last_transaction(changes: Changes) -> None:
    reader = changes.open(startingPosition="latest")
    begin = reader.offset
    changes.run("INSERT INTO @t VALUES (1, 1)")
    take(reader, 1)
    middle = reader.offset
    changes.run("INSERT INTO @t VALUES (2, 2)", "INSERT INTO @t VALUES (3, 3)")
    take(reader, 2)
    again = changes.open(begin)  # nothing was committed
    assert [row[1] for row in take(again, 3)] == [1, 2, 3]
    assert again.offset["lsn"] >= reader.offset["lsn"]
    last = changes.open(middle)
    assert [row[1] for row in take(last, 2)] == [2, 3]


def test_an_epoch_is_run_again_to_its_end(changes: Changes) -> None:
    reader = changes.open(startingPosition="latest")
    begin = reader.offset
    for number in range(3):
        changes.run(f"INSERT INTO @t VALUES ({number}, 0)")
        take(reader, 1)
        if number == 1:
            end = reader.offset
    again = changes.open(begin, until=end)
    assert [row[1] for row in take(again, 2)] == [0, 1]
    wait_until(lambda: again.read(0.01) is None and again.exhausted, "it is exhausted")
    assert again.offset == end
    nothing = changes.open(end, until=end)
    assert nothing.exhausted
    assert nothing.read(0.0) is None


def test_an_epoch_with_the_snapshot_is_run_again(changes: Changes) -> None:
    changes.run("INSERT INTO @t VALUES (1, 1)")
    reader = changes.open()
    take(reader, 1)
    changes.run("INSERT INTO @t VALUES (2, 2)")
    take(reader, 1)
    end = reader.offset
    reader.close()
    changes.opened.clear()
    changes.run("INSERT INTO @t VALUES (3, 3)")
    again = changes.open({"lsn": 0}, until=end)
    rows = take(again, 3)
    assert rows == [("snapshot", 1, 1), ("snapshot", 2, 2), ("snapshot", 3, 3)]
    assert again.exhausted
    assert again.offset == end


def test_the_slot_advances_with_what_is_committed(changes: Changes) -> None:
    def confirmed() -> bool:
        place = f"FROM pg_replication_slots WHERE slot_name = '{changes.slot}'"
        return bool(changes.ask(f"SELECT (confirmed_flush_lsn - '0/0')::bigint {place}") == wanted)

    reader = changes.open(startingPosition="latest")
    wanted = reader.offset["lsn"]
    changes.run("INSERT INTO @t VALUES (1, 1)")
    take(reader, 1)
    assert confirmed()
    wanted = reader.offset["lsn"]
    reader.committed(reader.offset)
    wait_until(confirmed, "the slot has advanced")


def test_a_transaction_and_a_snapshot_are_read_as_a_whole(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "BATCH_ROWS", 10)
    changes.run("INSERT INTO @t SELECT i, i FROM generate_series(1, 25) i")
    reader = changes.open()
    seen = []
    for _ in range(3):
        assert reader.read(1.0) is not None
        seen.append(reader.midway)
    assert seen == [True, True, False]
    changes.run("INSERT INTO @t SELECT i, i FROM generate_series(101, 125) i")
    sizes: list[int] = []
    while sum(sizes) < 25:  # the server may send them in more pieces than three
        assert reader.midway == bool(sizes)
        sizes.append(wait_until(lambda: reader.read(0.1), "rows come").num_rows)
    assert max(sizes) <= 10
    wait_until(lambda: reader.read(0.1) is None and not reader.midway, "its end comes")


def test_a_snapshot_that_was_not_finished_is_begun_anew(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "BATCH_ROWS", 10)
    changes.run("INSERT INTO @t SELECT i, i FROM generate_series(1, 25) i")
    reader = changes.open()
    assert reader.read(1.0) is not None
    changes.run("DELETE FROM @t WHERE id <= 5")
    again = changes.open({"lsn": 0})  # the first one still has the slot
    assert [row[1] for row in take(again, 20)] == list(range(6, 26))
    changes.run("INSERT INTO @t VALUES (99, 9)")
    assert take(again, 1) == [("insert", 99, 9)]


def test_offsets_advance_though_the_table_does_not_change(changes: Changes) -> None:
    reader = changes.open(startingPosition="latest")
    changes.run("CREATE TABLE IF NOT EXISTS public.other (x int)")
    with changes.server.connect() as connection:
        connection.execute("INSERT INTO public.other SELECT generate_series(1, 1000)")
    end = changes.reader().latestOffset(reader.offset)
    wait_until(
        lambda: reader.read(0.05) is None and reader.offset["lsn"] >= end["lsn"],
        "it has come to the end",
    )


def test_values_of_every_type(server: PostgreSQL, schema: str) -> None:
    columns = (
        "id int PRIMARY KEY, flag boolean, small smallint, big bigint, r real, d double precision, "
        "p numeric(10,2), q numeric, t text, v varchar(9), b bytea, day date, at timestamptz, "
        "local timestamp, u uuid, j jsonb, tags text[]"
    )
    made = Changes(server, schema, columns, unavailableValues="null")
    values = (
        "1, true, -32768, 9223372036854775807, 0.1, 'NaN', -0.01, 12345678901234567890.5, "
        r"E'a\tb\n\\', '', '\x00ff', '0001-01-01', '2024-02-29 23:59:59.999999+02', "
        "'9999-12-31 23:59:59', 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa', '{\"a\": 1}', '{a,NULL}'"
    )
    expected = [
        1, True, -32768, 2**63 - 1, pytest.approx(0.1), pytest.approx(float("nan"), nan_ok=True),
        decimal.Decimal("-0.01"), "12345678901234567890.5", "a\tb\n\\", "", b"\x00\xff",
        datetime.date(1, 1, 1), datetime.datetime(2024, 2, 29, 21, 59, 59, 999999, tzinfo=UTC),
        datetime.datetime(9999, 12, 31, 23, 59, 59), "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
        '{"a": 1}', "{a,NULL}",
    ]  # fmt: skip
    try:
        made.run(f"INSERT INTO @t VALUES ({values})", "INSERT INTO @t VALUES (2)")
        reader = made.open()
        names = reader._columns.names[5:]  # type: ignore[attr-defined]
        both = take(reader, 2, *names)
        made.run(
            f"INSERT INTO @t VALUES ({values.replace('1', '3', 1)})", "INSERT INTO @t VALUES (4)"
        )
        streamed = take(reader, 2, *names)
        assert list(both[0]) == expected
        assert list(streamed[0]) == [3, *expected[1:]]
        assert both[1][1:] == streamed[1][1:] == (None,) * 16
    finally:
        made.close()


def test_a_value_that_was_not_sent_is_never_a_silent_null(server: PostgreSQL, schema: str) -> None:
    made = Changes(server, schema, "id int PRIMARY KEY, n int, large text")
    large = "SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i"
    try:
        with pytest.raises(ConfigError, match=r"does not send large values of .*: of large"):
            made.open()
        made.run("INSERT INTO @t VALUES (1, 1, 'small')")
        reader = made.open(unavailableValues="null")
        take(reader, 1)
        made.run(f"INSERT INTO @t SELECT 2, 2, ({large})")
        made.run("UPDATE @t SET n = 3")
        names = ("id", "large", "_unchanged")
        rows = take(reader, 3, *names)
        assert rows[1:] == [(1, "small", []), (2, None, ["large"])]
        made.run("ALTER TABLE @t REPLICA IDENTITY FULL")
        made.run("UPDATE @t SET n = 4 WHERE id = 2")
        ((_, value, unchanged),) = take(reader, 1, *names)
        assert len(value) == 16_000
        assert unchanged == []
    finally:
        made.close()


def test_a_table_that_is_changed_while_it_is_read(changes: Changes) -> None:
    reader = changes.open(startingPosition="latest")
    begin = reader.offset
    changes.run("INSERT INTO @t VALUES (1, 1)")
    changes.run("ALTER TABLE @t ADD COLUMN more text", "INSERT INTO @t VALUES (2, 2, 'x')")
    assert take(reader, 2) == [("insert", 1, 1), ("insert", 2, 2)]
    again = changes.open(begin, unavailableValues="null")  # a new plan, which knows the column
    assert take(again, 2, "id", "more") == [(1, None), (2, "x")]
    changes.run("ALTER TABLE @t DROP COLUMN n", "INSERT INTO @t VALUES (3, 'y')")
    with pytest.raises(ConfigError, match="has no column n any more"):
        take(again, 1)


def test_another_type_of_a_column_is_told(changes: Changes) -> None:
    reader = changes.open(startingPosition="latest")
    changes.run("ALTER TABLE @t ALTER n TYPE bigint", "INSERT INTO @t VALUES (3, 4)")
    with pytest.raises(ConfigError, match="another type of column n"):
        take(reader, 1)


def test_a_record_that_has_no_place_in_its_type(server: PostgreSQL, schema: str) -> None:
    made = Changes(server, schema, "id int PRIMARY KEY, day date")
    try:
        reader = made.open(startingPosition="latest")
        made.run("INSERT INTO @t VALUES (1, '2024-01-01'), (2, 'infinity'), (3, NULL)")
        with pytest.raises(BadRecordError, match="infinity"):
            take(reader, 3, "id")
        bad: list[BadRecordError] = []
        tolerant = made.open(made_start(made))
        tolerant.on_bad_record = bad.append
        assert take(tolerant, 2, "id") == [(1,), (3,)]
        assert "infinity" in str(bad[0].record)
    finally:
        made.close()


def made_start(changes: Changes) -> Any:
    place = f"FROM pg_replication_slots WHERE slot_name = '{changes.slot}'"
    return {"lsn": int(changes.ask(f"SELECT (confirmed_flush_lsn - '0/0')::bigint {place}"))}


# -- what is refused -------------------------------------------------------------------------------


def test_a_slot_that_has_not_what_is_wanted_any_more(changes: Changes) -> None:
    reader = changes.open(startingPosition="latest")
    begin = reader.offset
    changes.run("INSERT INTO @t VALUES (1, 1)")
    take(reader, 1)
    reader.committed(reader.offset)
    wait_until(lambda: made_start(changes) == reader.offset, "the slot has advanced")
    with pytest.raises(OffsetOutOfRangeError, match="keeps what comes behind"):
        changes.open(begin)
    offset = reader.offset
    changes.close()
    with pytest.raises(OffsetOutOfRangeError, match=r"the slot .* is gone"):
        changes.open(offset)


def test_a_slot_that_was_invalidated(schema: str) -> None:
    from tests.servers.postgresql import running_postgresql

    settings = {"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}
    settings |= {"wal_keep_size": "0", "fsync": "off"}
    with running_postgresql(settings) as server:
        with server.connect() as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        changes = Changes(server, schema, "id bigint PRIMARY KEY, n integer")
        reader = changes.open(startingPosition="latest")
        offset = reader.offset
        reader.close()
        with server.connect() as connection:
            for _ in range(4):
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("CREATE TABLE x AS SELECT 1; DROP TABLE x")
            connection.execute("CHECKPOINT")
        with pytest.raises(
            OffsetOutOfRangeError, match=r"was invalidated .max_slot_wal_keep_size."
        ):
            changes.open(offset)


def test_a_log_that_ends_before_the_position_is_an_older_state(changes: Changes) -> None:
    """The server would leave out whatever is committed before its log comes there."""
    reader = changes.reader(startingPosition="latest")
    begin = reader.initialOffset()
    beyond = {"lsn": reader.latestOffset(begin)["lsn"] + 2**30}
    with pytest.raises(OffsetOutOfRangeError, match=r"log of .* ends at .* an older state"):
        reader.partitions(beyond)
    # An epoch is run again to an end that is not there any more.
    with pytest.raises(OffsetOutOfRangeError, match=r"log of .* ends at .* an older state"):
        changes.open(begin, until=beyond)


def test_the_end_of_the_log_is_no_older_state(changes: Changes) -> None:
    changes.open(startingPosition="latest").close()
    changes.opened.clear()
    for statement in ("INSERT INTO @t VALUES (1, 1)", "SELECT pg_switch_wal()", "CHECKPOINT"):
        with changes.server.connect() as connection:
            connection.execute(statement.replace("@t", changes.table))
        reader = changes.open(made_start(changes))
        end = changes.reader().latestOffset(reader.offset)
        wait_until(
            lambda: reader.read(0.01) is None and reader.offset["lsn"] >= end["lsn"],  # noqa: B023
            "all is seen",
        )
        offset = reader.offset
        reader.close()
        changes.opened.clear()
        changes.open(offset).close()
        changes.server.process.kill()
        changes.server.start()
        changes.open(offset).close()
        changes.opened.clear()


def test_a_slot_that_is_there_is_not_taken_for_a_snapshot(changes: Changes) -> None:
    changes.open(startingPosition="latest")
    with pytest.raises(ConfigError, match=r"has a slot .* already"):
        changes.open()


def test_a_table_without_identity_is_refused(server: PostgreSQL, schema: str) -> None:
    made = Changes(server, schema, "id bigint")
    with pytest.raises(ConfigError, match="no primary key, and no replica identity"):
        made.open()
    made.run("ALTER TABLE @t REPLICA IDENTITY FULL")
    made.run("INSERT INTO @t VALUES (1)")
    try:
        reader = made.open()
        assert take(reader, 1, "_op", "id") == [("snapshot", 1)]
        made.run("UPDATE @t SET id = 2", "DELETE FROM @t")
        assert take(reader, 2, "_op", "id") == [("update", 2), ("delete", 2)]
    finally:
        made.close()


def test_rows_that_a_policy_hides_are_no_snapshot(changes: Changes) -> None:
    role, table = f"r_{changes.slot}", changes.table
    with changes.server.connect() as connection:
        for statement in (
            f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'",
            f"GRANT USAGE ON SCHEMA {changes.slot} TO {role}",
            f"GRANT SELECT ON {table} TO {role}",
            f"CREATE PUBLICATION {changes.slot} FOR TABLE {table}",
            f"INSERT INTO {table} VALUES (1, 1), (2, 2)",
        ):
            connection.execute(statement)
    as_role = {"user": role, "password": "x"}
    reader = changes.reader(**as_role)
    start = reader.initialOffset()
    (partition,) = reader.partitions(start)
    changes.run("ALTER TABLE @t ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON @t USING (n = 1)")
    for refused in (reader.initialOffset, lambda: reader.partitions(start)):
        with pytest.raises(ConfigError, match=r"hides rows of .* row-level security"):
            refused()
    opened = reader.open(partition)  # its policy came in between
    changes.opened.append(opened)
    with pytest.raises(SourceError, match="row-level security"):
        opened.read(1.0)
    changes.open(startingPosition="latest", **as_role)


def test_an_index_that_includes_a_column_has_no_key_of_it(server: PostgreSQL, schema: str) -> None:
    made = Changes(server, schema, "id bigint, n integer, PRIMARY KEY (id) INCLUDE (n)")
    made.run("ALTER TABLE @t REPLICA IDENTITY FULL", "INSERT INTO @t VALUES (1, 1)")
    try:
        reader = made.open()
        take(reader, 1)
        made.run("UPDATE @t SET n = 2", "UPDATE @t SET id = 2")
        assert take(reader, 3) == [("update", 1, 2), ("delete", 1, 2), ("insert", 2, 2)]
    finally:
        made.close()


def test_nothing_is_made_if_that_is_not_wanted(changes: Changes) -> None:
    with pytest.raises(ConfigError, match="has no publication"):
        changes.open(createIfMissing="false")
    changes.run(f"CREATE PUBLICATION {changes.slot} FOR TABLE @t WITH (publish = 'insert')")
    with pytest.raises(ConfigError, match="leaves out some kinds"):
        changes.open()
    changes.run(
        f"ALTER PUBLICATION {changes.slot} SET (publish = 'insert, update, delete, truncate')"
    )
    for start in ("latest", "snapshot"):
        with pytest.raises(ConfigError, match="has no slot"):
            changes.open(startingPosition=start, createIfMissing="false")


def test_that_the_table_is_no_longer_published_is_told(changes: Changes) -> None:
    reader = changes.reader(startingPosition="latest")
    reader.partitions(reader.initialOffset())
    assert not reader.needsReconfiguration()
    assert reader.knownEnd() is not None
    changes.run(f"ALTER PUBLICATION {changes.slot} DROP TABLE @t")
    reader._next_look_s = 0.0
    with pytest.raises(ConfigError, match="does not publish"):
        reader.needsReconfiguration()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"slot": "Not allowed"}, "does not allow the slot name"),
        ({"slot": ""}, "needs the option slot"),
        ({"startingPosition": "earliest"}, "one of snapshot, latest"),
        ({"table": "nowhere"}, "has no table nowhere"),
        ({"slott": "x"}, "Did you mean slot"),
    ],
)
def test_options_that_are_wrong(changes: Changes, options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        changes.reader(**options)


def test_a_server_that_goes_away_is_an_outage(changes: Changes) -> None:
    reader = changes.open(startingPosition="latest")
    begin = reader.offset
    changes.run("INSERT INTO @t VALUES (1, 1)")
    take(reader, 1)
    driver = changes.reader()
    (partition,) = driver.partitions(begin)
    changes.server.process.kill()
    with pytest.raises(SourceUnavailableError):
        wait_until(lambda: reader.read(0.05), "the connection is lost")
    with pytest.raises(SourceUnavailableError):
        driver.partitions(begin)
    with pytest.raises(SourceUnavailableError):
        driver.open(partition)
    assert not driver.needsReconfiguration()
    changes.server.start()
    again = changes.open(begin)
    assert take(again, 1) == [("insert", 1, 1)]


def test_a_read_that_waits_can_be_interrupted(changes: Changes) -> None:
    reader = changes.open(startingPosition="latest")
    wait_until(lambda: reader.read(0.01) is None and reader.offset["lsn"] > 0, "it is idle")
    reader.interrupt()
    assert reader.read(60.0) is None


def test_only_wanted_columns_are_read(changes: Changes) -> None:
    changes.run("INSERT INTO @t VALUES (1, 10)")
    reader = changes.reader().prune(["n", "_op"])
    assert reader is not None
    (partition,) = reader.partitions(reader.initialOffset())
    opened = reader.open(partition)
    changes.opened.append(opened)
    batch = opened.read(1.0)
    assert batch is not None
    assert batch.schema == pa.schema([("n", pa.int32()), ("_op", pa.string())])
