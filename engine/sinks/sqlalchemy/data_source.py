"""``sqlalchemy``: rows in a table of any database that SQLAlchemy speaks to, each epoch exactly
once, and as a whole.

=======================  ============  ==========================================================
option                   default
=======================  ============  ==========================================================
url                                    SQLAlchemy's: ``mysql+pymysql://user:password@host/shop``
table                                  ``orders``, or ``schema.orders``; without quotes
mode                     append        or ``upsert``: a row replaces that of the same key
keyColumns                             of mode upsert: columns with commas
deleteColumn                           of mode upsert: a BOOLEAN column of the query: true deletes
                                       the row of this key. It is no column of the table
epochColumn                            of mode append: a column of the table for 64 bits gets the
                                       epoch, by which a rewind takes rows back
maxShippedBytesPerEpoch  256 MiB       see :mod:`engine.sinks.shipped`
=======================  ============  ==========================================================

The rows travel to the driver (:mod:`engine.sinks.shipped`), which writes them when the epoch is in
the offset log, in one transaction with the number of the epoch
(:mod:`engine.sinks.sqlalchemy.epochs`). Nothing is staged: that would be tables, and not every
database makes them within a transaction, or for every user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, WriterCommitMessage

from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.sinks.builtin_sinks import SINKS
from engine.sinks.databases.rows import Rows
from engine.sinks.databases.writer import TableWriter
from engine.sinks.shipped import ShippingWriter, unpack
from engine.sinks.sqlalchemy.database import OWNER
from engine.sinks.sqlalchemy.epochs import SqlAlchemyEpochs
from engine.sinks.sqlalchemy.options import SinkOptions, sink_options
from engine.sinks.sqlalchemy.tables import Target, check_new, create, look_up, rows_of
from engine.sinks.sqlalchemy.values import CheckingShipper

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class SqlAlchemySink(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = sink_options(options)

    @classmethod
    def name(cls) -> str:
        return "sqlalchemy"

    def streamWriter(self, schema: StructType, overwrite: bool) -> SqlAlchemyWriter:
        """:raises ConfigError: not every database can hold the schema."""
        columns = to_arrow(schema, OWNER)
        return SqlAlchemyWriter(self._options, columns, rows_of(columns, self._options.mode))


class SqlAlchemyWriter(TableWriter[SqlAlchemyEpochs, Target], ShippingWriter):
    """The driver's side.

    :ivar path: the database, as the checkpoint may know it.
    """

    secretOptions = SINKS["sqlalchemy"].secret_options

    def __init__(self, options: SinkOptions, columns: pa.Schema, rows: Rows) -> None:
        TableWriter.__init__(self, SqlAlchemyEpochs(options), rows)
        self._tasks = CheckingShipper("sqlalchemy", options.bytes_max)
        ShippingWriter.__init__(self, self._tasks)
        self.path = options.database.name
        self._options, self._columns, self._rows = options, columns, rows

    def validate(self) -> None:
        """:raises ConfigError: the database cannot be reached, or the rows do not fit the table."""
        with self._epochs.speaking("cannot be used", ConfigError, ConfigError):
            try:
                if self._look() is None:
                    check_new(self._rows, self._epochs.connected().dialect.name)
            finally:
                self._epochs.forget()

    def _look(self) -> Target | None:
        connection = self._epochs.connected()
        try:
            return look_up(connection, self._options.place, self._rows)
        finally:
            connection.rollback()

    def _create(self) -> None:
        create(self._epochs.connected(), self._options.place, self._rows)

    def fenceTasks(self) -> None:
        """Make the table if it was never there; shut out earlier runs."""
        super().fenceTasks()
        self._tasks.limits = self._found.limits()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Skips an epoch that is in the table already.

        :raises ConfigError: an earlier start has prepared it, with rows that do not fit.
        :raises SinkError: the epoch was refused, or the table cannot be written.
        :raises StaleRunError: a later run has written to the table.
        """
        target = self._found
        tables = unpack(messages, self._columns, target.needed)
        if not tables:
            return
        known = self.latestEpoch()
        # What is there already is not prepared. Where a replica without it has taken over since,
        # it is prepared late: if that lasts too long, the next start knows that it is not there.
        prepared = None if known is not None and known >= batchId else target.prepare(tables)
        self._epochs.commit(
            self._bound,
            batchId,
            lambda: target.write(
                self._epochs.connected(), prepared or target.prepare(tables), batchId
            ),
        )
