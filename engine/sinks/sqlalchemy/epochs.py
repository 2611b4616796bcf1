"""What a database has of a query: one row, changed by the transaction that takes an epoch's rows.

::

    continuous_epochs(query_id, target, generation, timeline, epoch, changed_at)

A transaction begins with a change of this row, which every database locks for it. So drivers wait
for each other, also for what a dead one has left to the server: only then does a driver see whether
an epoch is there. A generation that is lower than the row's has lost the query.

An epoch without rows leaves the row as it is. The sink ``postgres`` has the same table.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from engine.base.failpoints import reach
from engine.checkpoint.sink_context import SinkContext
from engine.errors import (
    ConfigError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkUnavailableError,
    StaleRunError,
)
from engine.sinks.sqlalchemy.database import OWNER, Database, speaking
from engine.sinks.sqlalchemy.tables import Place, Target

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

EPOCHS: Final = "continuous_epochs"


@dataclass(frozen=True)
class Noted:
    """The row of a query; ``epoch`` is -1 before the first one with rows."""

    generation: int
    timeline: int
    epoch: int


class Epochs:
    """:param place: the table that the query writes to; that of the epochs is beside it."""

    def __init__(self, database: Database, place: Place) -> None:
        self.database, self.place = database, place
        self._connection: Connection | None = None
        self._table = sa.Table(
            EPOCHS,
            sa.MetaData(),
            sa.Column("query_id", sa.String(64), primary_key=True),
            sa.Column("target", sa.String(512), nullable=False),
            sa.Column("generation", sa.BigInteger, nullable=False),
            sa.Column("timeline", sa.BigInteger, nullable=False),
            sa.Column("epoch", sa.BigInteger, nullable=False),
            sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
            schema=place.schema,
            mysql_engine="InnoDB",
        )

    def connected(self) -> Connection:
        """:raises sqlalchemy.exc.SQLAlchemyError: that fails."""
        if self._connection is None or self._connection.closed or self._connection.invalidated:
            self._connection = self.database.connect()
        return self._connection

    def forget(self) -> None:
        """Speak to the database anew."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            connection.invalidate()  # a transaction that is open ends with it
            connection.close()

    def __del__(self) -> None:
        self.forget()  # nobody tells the driver's side of a sink that the query has ended

    def look(self, context: SinkContext) -> Noted | None:
        """The row, None if there is none."""
        try:
            connection = self.connected()
            if not sa.inspect(connection).has_table(EPOCHS, self.place.schema):
                return None
            return self._row(context)
        finally:
            self._end_look()

    def begin(self, context: SinkContext) -> None:
        """Shut out earlier runs, and make the row if there is none.

        :raises ConfigError: the database has no transactions.
        :raises StaleRunError: the run has lost the query.
        """
        connection = self.connected()
        self._table.create(connection, checkfirst=True)
        connection.commit()
        if self.look(context) is None:
            self._insert(context)
            connection.rollback()
            if self.look(context) is not None:
                raise ConfigError(
                    f"{OWNER}: {self.database.name} has no transactions: it keeps what was rolled "
                    "back.",
                    hint="Write to it by foreachBatch, with rows that may come twice.",
                )
            try:
                self._insert(context)
                connection.commit()
            except sa.exc.IntegrityError:  # another run was faster
                connection.rollback()
        with self.changing(context) as noted:
            self._note(context, noted.epoch if noted.timeline == context.timeline else -1)

    def commit(
        self, context: SinkContext, epoch: int, tables: Sequence[pa.Table], target: Target
    ) -> None:
        """Make the rows of an epoch the table's; nothing changes if they are already.

        :raises StaleRunError: the run has lost the query.
        :raises SinkUnavailableError: the epoch is not committed.
        :raises SinkCommitUnknownError: it may be.
        """
        with self.changing(context, epoch) as noted:
            reach("sqlalchemy.locked")
            if noted.timeline == context.timeline and noted.epoch >= epoch:
                return
            target.write(self.connected(), tables, epoch)
            reach("sqlalchemy.written")
            self._note(context, epoch)
        reach("sqlalchemy.committed")

    @contextmanager
    def changing(self, context: SinkContext, epoch: int | None = None) -> Iterator[Noted]:
        """A transaction that has the row for itself.

        :raises ContinuousError: as :meth:`commit`.
        """
        is_at_end = False
        try:
            connection = self.connected()
            connection.execute(self._of(context).values(changed_at=_now()))
            noted = self._row(context)
            if noted is None:
                raise ConfigError(
                    self._says(f"has no row of query {context.query_id} in {EPOCHS}."),
                    hint="Restore the table from where it was, or start the query with a "
                    "checkpoint of its own.",
                )
            self._check_run(context, noted)
            yield noted
            is_at_end = True
            connection.commit()
        except SQLAlchemyError as exc:
            self.forget()
            is_refused = isinstance(exc, sa.exc.IntegrityError)
            unknown = is_at_end and not is_refused
            with speaking(
                SinkCommitUnknownError if unknown else SinkUnavailableError,
                SinkCommitUnknownError if unknown else SinkCommitRejectedError,
                self._says("cannot be written to"),
                hint="Mend it in the database: the epoch is prepared, and the next start of the "
                "query commits it.",
                epoch=epoch,
            ):
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
        try:
            connection = self.connected()
            if not sa.inspect(connection).has_table(EPOCHS, self.place.schema):
                return 0
            columns = self._table.c
            query = sa.select(sa.func.count()).select_from(self._table)
            found = connection.execute(
                query.where(
                    columns.target == self.place.shown, columns.query_id != context.query_id
                )
            )
            return int(found.scalar_one())
        finally:
            self._end_look()

    def note(self, context: SinkContext, epoch: int) -> None:
        """Inside of :meth:`changing`: the newest epoch that the table has."""
        self._note(context, epoch)

    def _end_look(self) -> None:
        # A transaction that stays open would see for ever what was there when it began.
        if self._connection is not None:
            try:
                self._connection.rollback()
            except DBAPIError:
                self.forget()

    def _of(self, context: SinkContext) -> Any:
        return sa.update(self._table).where(self._table.c.query_id == context.query_id)

    def _note(self, context: SinkContext, epoch: int) -> None:
        self.connected().execute(
            self._of(context).values(
                target=self.place.shown,
                generation=context.generation,
                timeline=context.timeline,
                epoch=epoch,
                changed_at=_now(),
            )
        )

    def _insert(self, context: SinkContext) -> None:
        self.connected().execute(
            sa.insert(self._table).values(
                query_id=context.query_id,
                target=self.place.shown,
                generation=context.generation,
                timeline=context.timeline,
                epoch=-1,
                changed_at=_now(),
            )
        )

    def _row(self, context: SinkContext) -> Noted | None:
        columns = self._table.c
        found = self.connected().execute(
            sa.select(columns.generation, columns.timeline, columns.epoch).where(
                columns.query_id == context.query_id
            )
        )
        row = found.one_or_none()
        return None if row is None else Noted(*row)

    def _check_run(self, context: SinkContext, noted: Noted) -> None:
        if noted.generation > context.generation:
            raise StaleRunError(
                f"This run of query {context.query_id} is generation {context.generation}, and "
                f"generation {noted.generation} has written to {self.place.shown}.",
                hint="The other run goes on from the last committed epoch. If there is none, the "
                "checkpoint is an older copy of itself: start the query with a new one.",
            )

    def _says(self, what: str) -> str:
        return f"{OWNER}: {self.database.name} {what}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
