"""The source of PostgreSQL: what a publication leaves out, and how much is read at once."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg", reason="needs the extra postgres")

from engine.errors import ConfigError
from engine.sources.postgres import partition_reader
from tests.connectors.postgres.changes import Changes, take
from tests.servers.postgresql import PostgreSQL
from tests.waiting import wait_until


def test_a_batch_has_so_many_bytes(changes: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_reader, "BATCH_BYTES", 10_000)
    changes.run("ALTER TABLE @t ADD COLUMN large text", "ALTER TABLE @t REPLICA IDENTITY FULL")
    grow = "INSERT INTO @t SELECT i, 0, repeat('x', 4000) FROM generate_series(%d, %d) i"
    changes.run(grow % (1, 20))
    reader = changes.open()
    sizes: list[int] = []

    def came(rows: int) -> bool:
        batch = reader.read(0.05)
        if batch is not None:
            sizes.append(batch.num_rows)
        return sum(sizes) == rows and not reader.midway

    wait_until(lambda: came(20), "the snapshot")
    changes.run(grow % (21, 40))
    wait_until(lambda: came(40), "the changes")
    assert max(sizes) == 3


def test_a_publication_that_leaves_out_columns_is_refused(changes: Changes) -> None:
    changes.run(f"CREATE PUBLICATION {changes.slot} FOR TABLE @t (id)")
    with pytest.raises(ConfigError, match=r"does not publish n of .*list of columns"):
        changes.open()
    source = changes.reader().prune(["_op", "id"])
    assert source is not None
    assert source.initialOffset() == {"lsn": 0}


def test_columns_that_are_left_out_later_are_never_null(changes: Changes) -> None:
    reader = changes.open()
    reader.read(0.05)
    only_id = f"ALTER PUBLICATION {changes.slot} SET TABLE @t (id)"
    changes.run(only_id, "INSERT INTO @t VALUES (1, 1)")
    with pytest.raises(ConfigError, match="does not publish n of"):
        take(reader, 1)


def test_a_snapshot_has_no_condition(changes: Changes) -> None:
    changes.run(f"CREATE PUBLICATION {changes.slot} FOR TABLE @t WHERE (id < 5)")
    with pytest.raises(ConfigError, match=r"only the rows of .* with \(id < 5\)"):
        changes.open()
    reader = changes.open(startingPosition="latest")
    changes.run("INSERT INTO @t VALUES (9, 9), (1, 1)")
    assert take(reader, 1) == [("insert", 1, 1)]


def test_a_table_that_others_inherit_from_is_refused(changes: Changes) -> None:
    """Their rows are in its snapshot, and their changes are none of its own."""
    reader = changes.reader()
    reader.partitions(reader.initialOffset())
    changes.run(f"CREATE TABLE {changes.slot}.child () INHERITS ({changes.table})")
    reader._next_look_s = 0.0
    for refused in (
        reader.needsReconfiguration,
        lambda: reader.partitions({"lsn": 0}),
        changes.reader,
    ):
        with pytest.raises(ConfigError, match=r"inherit from .*\.t: .*\.child"):
            refused()


def test_a_partitioned_table_counts_as_one(server: PostgreSQL, schema: str) -> None:
    made = Changes(server, schema, "id bigint PRIMARY KEY, n integer) PARTITION BY HASH (id")
    for at in range(2):
        made.run(
            f"CREATE TABLE {schema}.p{at} PARTITION OF @t FOR VALUES WITH (MODULUS 2, "
            f"REMAINDER {at})"
        )
    try:
        made.run("INSERT INTO @t SELECT i, i FROM generate_series(1, 5) i")
        reader = made.open()
        assert len(take(reader, 5)) == 5
        made.run("INSERT INTO @t SELECT i, i FROM generate_series(6, 9) i")
        assert {row[1] for row in take(reader, 4)} == {6, 7, 8, 9}
        made.run(f"DROP TABLE {schema}.p1")
        made.run(
            f"CREATE UNLOGGED TABLE {schema}.p2 PARTITION OF @t FOR VALUES WITH (MODULUS 2, "
            "REMAINDER 1)"
        )
        with pytest.raises(ConfigError, match=r"no changes of parts of .*\.t: .*\.p2"):
            made.reader()
    finally:
        made.close()


def test_kinds_of_changes_that_are_left_out_later_are_told(changes: Changes) -> None:
    reader = changes.reader(startingPosition="latest")
    start = reader.initialOffset()
    reader.partitions(start)
    changes.run(f"ALTER PUBLICATION {changes.slot} SET (publish = 'insert, update, truncate')")
    reader._next_look_s = 0.0
    for refused in (reader.needsReconfiguration, lambda: reader.partitions(start)):
        with pytest.raises(ConfigError, match=r"leaves out .*delete"):
            refused()
