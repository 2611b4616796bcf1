"""The row of a query in PostgreSQL, and what goes with it: stages that a commit looks at or drops.

The row is locked ``FOR UPDATE``. A driver that is suspended in a transaction is thrown out by the
server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from psycopg.sql import SQL, Identifier

from engine.checkpoint.sink_context import SinkContext
from engine.clients.postgres import ERRORS, is_passing, make_durable
from engine.errors import ConfigError, PreparedEpochLostError
from engine.sinks.databases.epochs import EPOCHS, Epochs, Noted
from engine.sinks.databases.rewind import TableRewind
from engine.sinks.postgres.options import SinkOptions, sink_options
from engine.sinks.postgres.statements import Statements, generation_of, query_part
from engine.sinks.postgres.tables import OWNER, look_up

if TYPE_CHECKING:
    from psycopg import Connection

    from engine.sinks.postgres.task_writer import StagedRows

SLEEPS_MS: Final = 10_000
"""A transaction whose driver says nothing for so long is ended."""
LOCK_MS: Final = 20_000
"""So long another driver's transaction is waited for."""
_DROP_LOCK_MS: Final = 200
_CREATE: Final = """
CREATE TABLE IF NOT EXISTS {} (
    query_id text PRIMARY KEY, target text NOT NULL, generation bigint NOT NULL,
    timeline bigint NOT NULL, epoch bigint NOT NULL, changed_at timestamptz NOT NULL)
"""
_NO_KEY: Final = 4_827_118_330_961
"""Of the advisory lock under which tables are made: two that make one at once would collide."""
_RELATION: Final = """
SELECT coalesce((parse_ident(%(t)s))[array_length(parse_ident(%(t)s), 1) - 1], current_schema()),
       (parse_ident(%(t)s))[array_length(parse_ident(%(t)s), 1)]
"""
_THERE: Final = """
SELECT n.nspname, c.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%(t)s)
"""
_TYPES: Final = """
SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped
"""


class PostgresEpochs(Epochs):
    """See the module."""

    owner, errors = OWNER, ERRORS

    def __init__(self, options: SinkOptions) -> None:
        super().__init__(f"PostgreSQL at {options.server.name}", options.table)
        self._options = options

    # -- where -------------------------------------------------------------------------------------

    @cached_property
    def relation(self) -> tuple[str, str]:
        """Schema and name of the table that the query writes to.

        :raises psycopg.Error: the server cannot be asked.
        :raises ConfigError: there is no schema.
        """
        found = self.connected().execute(_RELATION, {"t": self.table}).fetchone()
        assert found is not None
        schema, name = found
        if schema is None:
            raise ConfigError(
                self.says(f"has no schema for {name}."),
                hint='Name it: option("table", "shop.orders").',
            )
        return schema, name

    def find_target(self) -> str:
        found = self.connected().execute(_THERE, {"t": self.table}).fetchone()
        return ".".join(found or self.relation)

    @property
    def schema(self) -> str:
        """Where stages and epochs are."""
        own, _ = self.relation
        return self._options.place or own

    @property
    def place(self) -> str:
        return f"{self.schema}.{EPOCHS}"

    @property
    def _table(self) -> Identifier:
        return Identifier(self.schema, EPOCHS)

    # -- the row -----------------------------------------------------------------------------------

    def connected(self) -> Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = self._options.server.connect()
            self._connection.execute(f"SET idle_in_transaction_session_timeout = {SLEEPS_MS}")
            make_durable(self._connection)
        connection: Connection[Any] = self._connection
        return connection

    def forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def look(self, context: SinkContext) -> Noted | None:
        return self._row(context, "") if self._has(self._table) else None

    def others(self, context: SinkContext) -> int:
        if not self._has(self._table):
            return 0
        _, name = self.relation
        spelled = [self.target, ".".join(self.relation), name]
        found = self.connected().execute(
            SQL("SELECT count(*) FROM {} WHERE target = ANY (%s) AND query_id <> %s").format(
                self._table
            ),
            [spelled, context.query_id],
        )
        return int(found.fetchone()[0])  # type: ignore[index]

    def make(self, context: SinkContext) -> None:
        connection = self.connected()
        if not self._has(self._table):
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_NO_KEY])
                connection.execute(SQL(_CREATE).format(self._table))
        connection.execute(
            SQL("INSERT INTO {} VALUES (%s, %s, %s, %s, -1, now()) ON CONFLICT DO NOTHING").format(
                self._table
            ),
            [context.query_id, self.target, context.generation, context.timeline],
        )

    @contextmanager
    def locked(self, context: SinkContext) -> Iterator[Noted | None]:
        connection = self.connected()
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
            noted = self._row(context, "FOR UPDATE")
            connection.execute("SET LOCAL lock_timeout = 0")
            yield noted

    def note(self, context: SinkContext, epoch: int) -> None:
        self.connected().execute(
            SQL(
                "UPDATE {} SET target = %s, generation = %s, timeline = %s, epoch = %s, "
                "changed_at = now() WHERE query_id = %s"
            ).format(self._table),
            [self.target, context.generation, context.timeline, epoch, context.query_id],
        )

    def delete_behind(self, epoch: int, column: str) -> None:
        table = look_up(self.connected(), self.table)
        if table is not None and column in table.columns:
            self.connected().execute(
                SQL("DELETE FROM {} WHERE {} > %s").format(
                    Identifier(table.schema, table.name), Identifier(column)
                ),
                [epoch],
            )

    def is_refusal(self, error: Any) -> bool:
        return not is_passing(error)

    def _row(self, context: SinkContext, lock: str) -> Noted | None:
        found = self.connected().execute(
            SQL("SELECT generation, timeline, epoch FROM {} WHERE query_id = %s {}").format(
                self._table, SQL(lock)
            ),
            [context.query_id],
        )
        row = found.fetchone()
        return None if row is None else Noted(*row)

    def _has(self, table: Identifier) -> bool:
        query = "SELECT to_regclass(%s) IS NOT NULL"
        found = self.connected().execute(query, [table.as_string(None)]).fetchone()
        return found is not None and bool(found[0])

    # -- stages ------------------------------------------------------------------------------------

    def take(
        self, context: SinkContext, staged: Sequence[StagedRows], epoch: int, statements: Statements
    ) -> None:
        """Inside of :meth:`changing`: make the rows of these stages the table's.

        :raises PreparedEpochLostError: the server does not have them any more.
        :raises ConfigError: an earlier start has made them, and the table cannot have them now.
        """
        self._check_stages(staged, epoch)
        stages = [each.stage for each in staged]
        is_earlier = generation_of(stages[0]) < context.generation
        types = self._types_of(stages[0]) if is_earlier else None
        for statement in statements.take(stages, epoch, types):
            self.connected().execute(statement)

    def _types_of(self, stage: str) -> dict[str, str]:
        """The columns of a stage; those of an epoch have the same."""
        found = self.connected().execute(_TYPES, [self.schema, stage]).fetchall()
        return dict(found)

    def drop_stages(self, context: SinkContext) -> None:
        """Those of earlier runs. What a suspended task still holds is left to the next start."""
        import psycopg

        connection = self.connected()
        pattern = f"continuous\\_{query_part(context.query_id)}\\_%"
        found = connection.execute(
            "SELECT c.relname FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname LIKE %s",
            [self.schema, pattern],
        ).fetchall()
        connection.execute(f"SET lock_timeout = {_DROP_LOCK_MS}")
        for (name,) in found:
            if generation_of(name) < context.generation:
                try:
                    place = Identifier(self.schema, name)
                    connection.execute(SQL("DROP TABLE IF EXISTS {}").format(place))
                except psycopg.errors.LockNotAvailable:
                    continue
        connection.execute("SET lock_timeout = 0")

    def _check_stages(self, staged: Sequence[StagedRows], epoch: int) -> None:
        for each in staged:
            stage, rows = Identifier(self.schema, each.stage), 0
            if self._has(stage):
                count = SQL("SELECT count(*) FROM {}").format(stage)
                found = self.connected().execute(count).fetchone()
                rows = 0 if found is None else int(found[0])
            if rows != each.rows:
                raise PreparedEpochLostError(
                    self.says(
                        f"has {rows} of {each.rows} rows that were staged for epoch {epoch}: a "
                        "standby without them has taken over, or the stage was changed."
                    ),
                    epoch=epoch,
                    hint="The epoch is run again.",
                )


def reopen(options: Mapping[str, str]) -> TableRewind[PostgresEpochs] | None:
    """Takes back epochs of the table of these options; None if they name none.

    :raises ConfigError: they are wrong, or PostgreSQL's client is not installed.
    """
    given = {name.lower(): value for name, value in options.items()}
    if not {"url", "table"} <= given.keys():
        return None
    found = sink_options(given)
    return TableRewind(PostgresEpochs(found), found.mode)
