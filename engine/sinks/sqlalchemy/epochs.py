"""The row of a query in any database.

A transaction begins with a change of the row, which every database locks for it. The sink
``postgres`` has the same table.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError
from engine.sinks.databases.epochs import EPOCHS, Epochs, Noted
from engine.sinks.databases.rewind import TableRewind
from engine.sinks.databases.rows import Rows
from engine.sinks.sqlalchemy.database import ERRORS, OWNER
from engine.sinks.sqlalchemy.names import stored_name
from engine.sinks.sqlalchemy.options import SinkOptions, sink_options
from engine.sinks.sqlalchemy.tables import Place, look_up

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


class SqlAlchemyEpochs(Epochs):
    """See the module. The table of the epochs is beside the one that the query writes to."""

    owner, errors = OWNER, ERRORS

    def __init__(self, options: SinkOptions) -> None:
        super().__init__(options.database.name, options.place.shown)
        self._database, self._place = options.database, options.place
        self._table = sa.Table(
            EPOCHS,
            sa.MetaData(),
            sa.Column("query_id", sa.String(64), primary_key=True),
            sa.Column("target", sa.String(512), nullable=False),
            sa.Column("generation", sa.BigInteger, nullable=False),
            sa.Column("timeline", sa.BigInteger, nullable=False),
            sa.Column("epoch", sa.BigInteger, nullable=False),
            sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
            schema=options.place.schema,
            mysql_engine="InnoDB",
        )

    def find_target(self) -> str:
        connection = self.connected()
        return stored_name(connection, sa.inspect(connection), self._place).shown

    @property
    def place(self) -> str:
        return str(self._table.fullname)

    def connected(self) -> Connection:
        if self._connection is None or self._connection.closed or self._connection.invalidated:
            self._connection = self._database.connect()
        connection: Connection = self._connection
        return connection

    def forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            connection.invalidate()  # a transaction that is open ends with it
            connection.close()

    def look(self, context: SinkContext) -> Noted | None:
        with self._looking() as is_there:
            return self._row(context) if is_there else None

    def others(self, context: SinkContext) -> int:
        columns = self._table.c
        query = sa.select(columns.target).where(columns.query_id != context.query_id)
        with self._looking() as is_there:
            if not is_there:
                return 0
            connection = self.connected()
            targets, inspector = connection.execute(query).scalars().all(), sa.inspect(connection)

            def is_same(target: str) -> bool:
                if target == self.target:
                    return True
                return stored_name(connection, inspector, Place.of(target)).shown == self.target

            return sum(map(is_same, targets))

    def make(self, context: SinkContext) -> None:
        connection = self.connected()
        self._table.create(connection, checkfirst=True)
        connection.commit()
        if self.look(context) is None:
            self._insert(context)
            connection.rollback()
            if self.look(context) is not None:
                raise ConfigError(
                    self.says("has no transactions: it keeps what was rolled back."),
                    hint="Write to it by foreachBatch, with rows that may come twice.",
                )
            try:
                self._insert(context)
                connection.commit()
            except sa.exc.IntegrityError:  # another run was faster
                connection.rollback()

    @contextmanager
    def locked(self, context: SinkContext) -> Iterator[Noted | None]:
        connection = self.connected()
        connection.execute(self._of(context).values(changed_at=_now()))
        yield self._row(context)
        connection.commit()

    def note(self, context: SinkContext, epoch: int) -> None:
        self.connected().execute(self._of(context).values(self._values(context, epoch)))

    def delete_behind(self, epoch: int, column: str) -> None:
        connection, rows = self.connected(), Rows(epoch_column=column)
        target = look_up(connection, self._place, rows, is_whole=False)
        if target is not None:
            target.delete_behind(connection, epoch)

    def is_refusal(self, error: Any) -> bool:
        return isinstance(error, sa.exc.IntegrityError)

    @contextmanager
    def _looking(self) -> Iterator[bool]:
        """Whether there is a place for epochs."""
        try:
            yield sa.inspect(self.connected()).has_table(EPOCHS, self._place.schema)
        finally:
            # A transaction that stays open would see for ever what was there when it began.
            if self._connection is not None:
                try:
                    self._connection.rollback()
                except sa.exc.DBAPIError:
                    self.forget()

    def _row(self, context: SinkContext) -> Noted | None:
        columns = self._table.c
        found = self.connected().execute(
            sa.select(columns.generation, columns.timeline, columns.epoch).where(
                columns.query_id == context.query_id
            )
        )
        row = found.one_or_none()
        return None if row is None else Noted(*row)

    def _of(self, context: SinkContext) -> sa.Update:
        return sa.update(self._table).where(self._table.c.query_id == context.query_id)

    def _insert(self, context: SinkContext) -> None:
        values = {"query_id": context.query_id, **self._values(context, -1)}
        self.connected().execute(sa.insert(self._table).values(values))

    def _values(self, context: SinkContext, epoch: int) -> dict[str, Any]:
        return {
            "target": self.target,
            "generation": context.generation,
            "timeline": context.timeline,
            "epoch": epoch,
            "changed_at": _now(),
        }


def reopen(options: Mapping[str, str]) -> TableRewind[SqlAlchemyEpochs] | None:
    """Takes back epochs of the table of these options; None if they name none.

    :param options: without a ``url``, whose password no checkpoint has, the ``path`` in its place:
        enough for SQLite, and where the client finds user and password by itself.
    :raises ConfigError: they are wrong, or no driver is installed.
    """
    given = {name.lower(): value for name, value in options.items()}
    given.setdefault("url", given.get("path", ""))
    if not given["url"] or "table" not in given:
        return None
    found = sink_options(given)
    return TableRewind(SqlAlchemyEpochs(found), found.mode)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
