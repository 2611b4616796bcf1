"""What a database has of a query: one row, changed by the transaction that takes an epoch's rows.

::

    continuous_epochs(query_id, target, generation, timeline, epoch, changed_at)

Its lock makes drivers wait for each other, also for what a dead one has left to the server: only
then does a driver see whether an epoch is there. A generation that is lower than the row's has lost
the query. A driver that is suspended in a transaction is thrown out by the server.

An epoch without rows leaves the row as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg.sql import SQL, Composed, Identifier

from engine.base.failpoints import reach
from engine.checkpoint.sink_context import SinkContext
from engine.clients.postgres import Server, make_durable, speaking_postgres
from engine.errors import (
    ConfigError,
    ContinuousError,
    PreparedEpochLostError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    StaleRunError,
)
from engine.sinks.postgres.statements import EPOCHS, generation_of, query_part
from engine.sinks.postgres.tables import OWNER

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


@dataclass(frozen=True)
class Noted:
    """The row of a query; ``epoch`` is -1 before the first one with rows."""

    generation: int
    timeline: int
    epoch: int


class Epochs:
    """
    :param place: the schema.
    :param relation: schema and name of the table that the query writes to.
    """

    def __init__(self, server: Server, place: str, relation: tuple[str, str]) -> None:
        self.server, self.place, self.relation = server, place, relation
        self.target = ".".join(relation)
        self._connection: Connection[Any] | None = None
        self._table = Identifier(place, EPOCHS)

    def connected(self) -> Connection[Any]:
        """:raises psycopg.Error: that fails."""
        if self._connection is None or self._connection.closed:
            self._connection = self.server.connect()
            self._connection.execute(f"SET idle_in_transaction_session_timeout = {SLEEPS_MS}")
            make_durable(self._connection)
        return self._connection

    def forget(self) -> None:
        """Speak to the server anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        self.forget()  # nobody tells the driver's side of a sink that the query has ended

    def noted(self) -> bool:
        """Whether there is a place for epochs."""
        query = "SELECT to_regclass(%s) IS NOT NULL"
        found = self.connected().execute(query, [self._table.as_string(None)]).fetchone()
        return found is not None and bool(found[0])

    def look(self, context: SinkContext) -> Noted | None:
        """The row, None if there is none."""
        if not self.noted():
            return None
        return self._row(context, "")

    def begin(self, context: SinkContext) -> None:
        """Shut out earlier runs, and make the row if there is none.

        :raises StaleRunError: the run has lost the query.
        """
        connection = self.connected()
        if not self.noted():
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [_NO_KEY])
                connection.execute(SQL(_CREATE).format(self._table))
        connection.execute(
            SQL("INSERT INTO {} VALUES (%s, %s, %s, %s, -1, now()) ON CONFLICT DO NOTHING").format(
                self._table
            ),
            [context.query_id, self.target, context.generation, context.timeline],
        )
        with self.changing(context) as noted:
            self._note(context, noted.epoch if noted.timeline == context.timeline else -1)

    def drop_stages(self, context: SinkContext) -> None:
        """Those of earlier runs. What a suspended task still holds is left to the next start."""
        import psycopg

        connection = self.connected()
        pattern = f"continuous\\_{query_part(context.query_id)}\\_%"
        found = connection.execute(
            "SELECT c.relname FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname LIKE %s",
            [self.place, pattern],
        ).fetchall()
        connection.execute(f"SET lock_timeout = {_DROP_LOCK_MS}")
        for (name,) in found:
            if generation_of(name) < context.generation:
                try:
                    place = Identifier(self.place, name)
                    connection.execute(SQL("DROP TABLE IF EXISTS {}").format(place))
                except psycopg.errors.LockNotAvailable:
                    continue
        connection.execute("SET lock_timeout = 0")

    def commit(
        self,
        context: SinkContext,
        epoch: int,
        staged: Sequence[StagedRows],
        statements: Callable[[Sequence[str], int], Iterator[Composed]],
    ) -> None:
        """Make the rows of an epoch the table's; nothing changes if they are already.

        :raises StaleRunError: the run has lost the query.
        :raises PreparedEpochLostError: the server does not have them any more.
        :raises SinkUnavailableError: the epoch is not committed.
        :raises SinkCommitUnknownError: it may be.
        """
        with self.changing(context, epoch) as noted:
            reach("postgres.locked")
            if noted.timeline == context.timeline and noted.epoch >= epoch:
                return
            self._check_stages(staged, epoch)
            for statement in statements([each.stage for each in staged], epoch):
                self.connected().execute(statement)
            reach("postgres.taken")
            self._note(context, epoch)
        reach("postgres.committed")

    @contextmanager
    def changing(self, context: SinkContext, epoch: int | None = None) -> Iterator[Noted]:
        """A transaction that has the row for itself.

        :raises ContinuousError: as :meth:`commit`.
        """
        import psycopg

        is_at_end = False
        try:
            connection = self.connected()
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
                noted = self._row(context, "FOR UPDATE")
                connection.execute("SET LOCAL lock_timeout = 0")
                if noted is None:
                    raise self._is_not_there(context)
                self._check_run(context, noted)
                yield noted
                is_at_end = True
        except psycopg.Error as exc:
            self.forget()
            unavailable = SinkCommitUnknownError if is_at_end else SinkUnavailableError
            with speaking_postgres(
                unavailable, SinkCommitRejectedError, self._says("cannot be written to"),
                hint="Mend it in the database: the epoch is prepared, and the next start of the "
                "query commits it.",
                epoch=epoch,
            ):  # fmt: skip
                raise exc
        except BaseException:
            self.forget()
            raise

    def check_run(self, context: SinkContext) -> Noted | None:
        """:raises StaleRunError: a later run has written."""
        noted = self.look(context)
        if noted is not None:
            self._check_run(context, noted)
        return noted

    def others(self, context: SinkContext) -> int:
        """How many other queries write to the table."""
        if not self.noted():
            return 0
        found = self.connected().execute(
            SQL("SELECT count(*) FROM {} WHERE target = %s AND query_id <> %s").format(self._table),
            [self.target, context.query_id],
        )
        return int(found.fetchone()[0])  # type: ignore[index]

    def note(self, context: SinkContext, epoch: int) -> None:
        """Inside of :meth:`changing`: the newest epoch that the table has."""
        self._note(context, epoch)

    def _note(self, context: SinkContext, epoch: int) -> None:
        self.connected().execute(
            SQL(
                "UPDATE {} SET target = %s, generation = %s, timeline = %s, epoch = %s, "
                "changed_at = now() WHERE query_id = %s"
            ).format(self._table),
            [self.target, context.generation, context.timeline, epoch, context.query_id],
        )

    def _row(self, context: SinkContext, lock: str) -> Noted | None:
        found = self.connected().execute(
            SQL("SELECT generation, timeline, epoch FROM {} WHERE query_id = %s {}").format(
                self._table, SQL(lock)
            ),
            [context.query_id],
        )
        row = found.fetchone()
        return None if row is None else Noted(*row)

    def _check_stages(self, staged: Sequence[StagedRows], epoch: int) -> None:
        connection = self.connected()
        for each in staged:
            stage = Identifier(self.place, each.stage)
            there = connection.execute("SELECT to_regclass(%s)", [stage.as_string(None)]).fetchone()
            rows = 0
            if there is not None and there[0] is not None:
                found = connection.execute(SQL("SELECT count(*) FROM {}").format(stage)).fetchone()
                rows = 0 if found is None else int(found[0])
            if rows != each.rows:
                raise PreparedEpochLostError(
                    self._says(
                        f"has {rows} of {each.rows} rows that were staged for epoch {epoch}: a "
                        "standby without them has taken over, or the stage was changed."
                    ),
                    epoch=epoch,
                    hint="The epoch is run again.",
                )

    def _check_run(self, context: SinkContext, noted: Noted) -> None:
        if noted.generation > context.generation:
            raise StaleRunError(
                f"This run of query {context.query_id} is generation {context.generation}, and "
                f"generation {noted.generation} has written to {self.target}.",
                hint="The other run goes on from the last committed epoch. If there is none, the "
                "checkpoint is an older copy of itself: start the query with a new one.",
            )

    def _is_not_there(self, context: SinkContext) -> ContinuousError:
        return ConfigError(
            self._says(f"has no row of query {context.query_id} in {self.place}.{EPOCHS}."),
            hint="Restore the table from where it was, or start the query with a checkpoint of its "
            "own.",
        )

    def _says(self, what: str) -> str:
        return f"{OWNER}: PostgreSQL at {self.server.name} {what}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}
