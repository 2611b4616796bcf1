"""What the server tells of a table, its publication and its slot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.errors import ConfigError, OffsetOutOfRangeError
from engine.sources.postgres.options import SourceOptions
from engine.sources.postgres.replication import lsn_of, lsn_text
from engine.sources.postgres.rows import OWNER, TableColumn

if TYPE_CHECKING:
    from psycopg import Connection

_TABLE: Final = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relreplident::text,
       EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
       ARRAY(SELECT i.inhrelid::regclass::text FROM pg_catalog.pg_inherits i
             WHERE i.inhparent = c.oid AND c.relkind = 'r' ORDER BY 1),
       -- As pg_partition_tree has them, which would lock them all.
       ARRAY(WITH RECURSIVE part AS (
                 SELECT c.oid WHERE c.relkind = 'p'
                 UNION ALL
                 SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part ON i.inhparent = part.oid
             )
             SELECT oid::regclass::text FROM part JOIN pg_catalog.pg_class p USING (oid)
             WHERE p.relkind = 'f' OR p.relkind = 'r' AND p.relpersistence = 'u' ORDER BY 1)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s)
"""
_COLUMNS: Final = """
SELECT a.attname, a.atttypid, a.atttypmod, EXISTS (
           SELECT FROM pg_catalog.pg_index i
           WHERE i.indrelid = a.attrelid
             -- Behind these are the columns that it includes.
             AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
             AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END),
       a.attlen = -1 AND a.attstorage IN ('x', 'e')
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum
"""


@dataclass(frozen=True)
class Table:
    """
    :param identity: the letter of its replica identity; ``n`` also for one that has none in fact.
    :param large: columns whose values an update may leave out.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[TableColumn, ...]
    identity: str
    large: tuple[str, ...]

    @property
    def shown(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Slot:
    """
    :param confirmed: what comes before it is not kept.
    :param is_lost: the server has removed what the slot would need.
    """

    confirmed: int
    is_lost: bool


class Catalog:
    """
    :param connection: of the database.
    """

    def __init__(self, connection: Connection[Any], options: SourceOptions) -> None:
        self._connection, self._options = connection, options

    def table(self) -> Table:
        """:raises ConfigError: it is none that has changes, or others inherit from it."""
        name = self._options.table
        found = self._connection.execute(_TABLE, [name]).fetchone()
        if found is None:
            raise self._wrong(f"has no table {name}.", "Correct the option table.")
        oid, schema, relation, kind, identity, has_key, heirs, silent = found
        if kind not in ("r", "p"):
            raise self._wrong(f"{name} is no table.", "Views have no changes of their own.")
        if heirs:  # a query of it has their rows, and the publication tells of theirs as theirs
            raise self._wrong(
                f"has tables that inherit from {schema}.{relation}: {', '.join(heirs)}. "
                "A snapshot would have their rows, and no change of these would be told.",
                f"ALTER TABLE {heirs[0]} NO INHERIT {schema}.{relation}, and read it by a query of "
                "its own; or make the table a partitioned one, which counts as one. Changes of "
                "such tables that were made meanwhile are not told.",
            )
        if silent:
            raise self._wrong(
                f"tells no changes of parts of {schema}.{relation}: {', '.join(silent)}. They are "
                "unlogged, or another server's.",
                f"ALTER TABLE {silent[0]} SET LOGGED, or detach it. Its changes that were made "
                "meanwhile are not told.",
            )
        rows = self._connection.execute(_COLUMNS, [oid]).fetchall()
        if identity == "d" and not has_key:
            identity = "n"
        return Table(
            oid, schema, relation, tuple(TableColumn(*row[:4]) for row in rows), identity,
            tuple(row[0] for row in rows if row[4]),
        )  # fmt: skip

    def check(self, table: Table) -> None:
        """See that all of its changes can be told.

        :raises ConfigError: they cannot.
        """
        (level,) = self._connection.execute("SHOW wal_level").fetchone() or ("",)
        if level != "logical":
            raise self._wrong(
                f"has wal_level {level}: it tells no changes.",
                "ALTER SYSTEM SET wal_level = logical, and restart the server.",
            )
        if table.identity == "n":
            raise self._wrong(
                f"cannot tell which row of {table.shown} an update or a delete is of: the table "
                "has no primary key, and no replica identity.",
                f"ALTER TABLE {table.shown} ADD PRIMARY KEY ..., or REPLICA IDENTITY FULL.",
            )
        if table.large and table.identity != "f" and not self._options.takes_unavailable:
            raise self._wrong(
                f"does not send large values of {table.shown} that an update leaves as they were: "
                f"of {', '.join(table.large)}.",
                f"ALTER TABLE {table.shown} REPLICA IDENTITY FULL. Or set "
                'option("unavailableValues", "null"): such values are null then, and the column '
                "_unchanged names them.",
            )

    def check_rows(self, table: Table) -> None:
        """See that a snapshot would have all rows: changes come whatever the policies are.

        :raises ConfigError: some may be hidden.
        """
        (is_active,) = self._connection.execute(
            "SELECT row_security_active(%s::oid)", [table.oid]
        ).fetchone() or (False,)
        if is_active:
            raise self._wrong(
                f"hides rows of {table.shown} from this user: the table has row-level security, so "
                "a snapshot would lack them, and the stream has changes of all.",
                "ALTER ROLE ... BYPASSRLS for the user, or let it own the table; or begin with "
                'option("startingPosition", "latest").',
            )

    def publish(self, table: Table) -> None:
        """Make the publication if it is not there.

        :raises ConfigError: it may not be made.
        """
        from psycopg.sql import SQL, Identifier

        name = self._options.publication
        there = self._connection.execute(
            "SELECT FROM pg_catalog.pg_publication WHERE pubname = %s", [name]
        ).fetchone()
        if there is None:
            if not self._options.creates:
                raise self._wrong(
                    f"has no publication {name}.", f"CREATE PUBLICATION {name} FOR TABLE ..."
                )
            self._connection.execute(
                SQL(
                    "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
                ).format(Identifier(name), Identifier(table.schema, table.name))
            )

    def check_published(self, table: Table, columns: Collection[str]) -> None:
        """
        :param columns: that are read.
        :raises ConfigError: the publication does not have them all, or not all kinds of changes,
            or not any more.
        """
        # Servers before 15 have neither lists of columns nor conditions.
        found = self._connection.execute(
            "SELECT to_jsonb(p) -> 'attnames', to_jsonb(p) ->> 'rowfilter', "
            "array_remove(ARRAY["
            "CASE WHEN NOT k.pubinsert THEN 'insert' END, "
            "CASE WHEN NOT k.pubupdate THEN 'update' END, "
            "CASE WHEN NOT k.pubdelete THEN 'delete' END, "
            "CASE WHEN NOT k.pubtruncate THEN 'truncate' END], NULL) "
            "FROM pg_catalog.pg_publication_tables p JOIN pg_catalog.pg_publication k "
            "USING (pubname) WHERE pubname = %s AND schemaname = %s AND tablename = %s",
            [self._options.publication, table.schema, table.name],
        ).fetchone()
        name = self._options.publication
        if found is None:
            raise self._wrong(
                f"does not publish {table.shown}: the publication {name} is of other tables.",
                f"ALTER PUBLICATION {name} ADD TABLE {table.shown}. Changes that were made "
                "meanwhile are not told.",
            )
        published, condition, kinds = found
        if kinds:
            raise self._wrong(
                f"has a publication {name} that leaves out some kinds of changes: "
                f"{', '.join(kinds)}.",
                f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate'). "
                "Changes of these kinds that were made meanwhile are not told.",
            )
        left_out = [
            each.name
            for each in table.columns
            if published is not None and each.name in columns and each.name not in published
        ]
        if left_out:
            raise self._wrong(
                f"does not publish {', '.join(left_out)} of {table.shown}: the publication {name} "
                "has a list of columns.",
                f"ALTER PUBLICATION {name} SET TABLE {table.shown}, or select other columns. "
                "Changes that were made meanwhile lack them.",
            )
        if condition is not None and self._options.begins_with_snapshot:
            raise self._wrong(
                f"publishes only the rows of {table.shown} with {condition}, and a snapshot has "
                "all.",
                'Make the publication without a condition, or set option("startingPosition", '
                '"latest").',
            )

    def slot(self) -> Slot | None:
        """None if it is not there.

        :raises ConfigError: it is of another kind, or of another database.
        """
        found = self._connection.execute(
            "SELECT plugin, database = current_database(), confirmed_flush_lsn::text, "
            "coalesce(wal_status = 'lost', false) "
            "FROM pg_catalog.pg_replication_slots WHERE slot_name = %s",
            [self._options.slot],
        ).fetchone()
        if found is None:
            return None
        plugin, is_ours, confirmed, is_lost = found
        if plugin != "pgoutput" or not is_ours:
            raise self._wrong(
                f"has a slot {self._options.slot} of another "
                f"{'database' if plugin == 'pgoutput' else 'plugin'}.",
                "Choose another name: option slot.",
            )
        return Slot(0 if confirmed is None else lsn_of(confirmed), is_lost)

    def create_slot(self) -> int:
        """Where it begins."""
        found = self._connection.execute(
            "SELECT lsn::text FROM pg_catalog.pg_create_logical_replication_slot(%s, 'pgoutput')",
            [self._options.slot],
        ).fetchone()
        assert found is not None
        return lsn_of(found[0])

    def check_slot(self, start: int) -> None:
        """See that all changes from ``start`` on are kept.

        :raises OffsetOutOfRangeError: they are not.
        """
        slot, name = self.slot(), self._options.slot
        if slot is not None and not slot.is_lost and slot.confirmed <= start:
            check_end(self._options, self.end(), start)
            return
        if slot is None:
            why = f"the slot {name} is gone"
        elif slot.is_lost:
            why = f"the slot {name} was invalidated (max_slot_wal_keep_size)"
        else:
            why = f"the slot {name} keeps what comes behind {lsn_text(slot.confirmed)}"
        raise OffsetOutOfRangeError(
            f"{self._where} cannot tell the changes of {self._options.table} behind "
            f"{lsn_text(start)} any more: {why}.",
            hint=f"Drop what is left of it (SELECT pg_drop_replication_slot('{name}')), and start "
            "a new query with a checkpoint of its own: it begins with a snapshot.",
        )

    def end(self) -> int:
        """Where the write-ahead log ends."""
        found = self._connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert found is not None
        return lsn_of(found[0])

    @property
    def _where(self) -> str:
        return f"{OWNER}: PostgreSQL at {self._options.server.name}"

    def _wrong(self, what: str, hint: str) -> ConfigError:
        return ConfigError(f"{self._where} {what}", hint=hint)


def check_end(options: SourceOptions, end: int, position: int) -> None:
    """See that the server's log has come to where the query has read it. Of a transaction that is
    committed before that the server would say nothing.

    :param end: what is flushed, which is all that a slot tells of: on the same server it never
        comes before a position that was told.
    :raises OffsetOutOfRangeError: it has not.
    """
    if position <= end:
        return
    raise OffsetOutOfRangeError(
        f"{OWNER}: the log of PostgreSQL at {options.server.name} ends at {lsn_text(end)}, and the "
        f"query has read it to {lsn_text(position)}: an older state of the server is in its place.",
        hint="It was restored, or a standby took over that did not have all. What the query has "
        f"read beyond may be gone from {options.table}, and what comes now would be left out. Drop "
        f"the slot (SELECT pg_drop_replication_slot('{options.slot}')), and start a new query with "
        "a checkpoint of its own: it begins with a snapshot.",
    )


def names_of(columns: Sequence[TableColumn]) -> tuple[str, ...]:
    return tuple(each.name for each in columns)
