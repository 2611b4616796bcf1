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
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, WriterCommitMessage

from engine.checkpoint.sink_context import SinkContext
from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from engine.expressions.schemas import to_arrow
from engine.sinks.contract import EXACTLY_ONCE, ContinuousWriter
from engine.sinks.shipped import ShippedRows, ShippingWriter, unpack
from engine.sinks.sqlalchemy.database import OWNER, speaking
from engine.sinks.sqlalchemy.epochs import Epochs, Noted
from engine.sinks.sqlalchemy.options import SinkOptions, sink_options
from engine.sinks.sqlalchemy.rewind import TableRewind
from engine.sinks.sqlalchemy.tables import Rows, Target, check_new, create, look_up
from engine.sinks.sqlalchemy.values import CheckingShipper

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        options, columns = self._options, to_arrow(schema, OWNER)
        rows = Rows.of(columns, options.key, options.deletes, options.epoch_column)
        return SqlAlchemyWriter(options, columns, rows)


class SqlAlchemyWriter(ContinuousWriter, ShippingWriter):
    """The driver's side.

    :ivar path: the database, as the checkpoint may know it.
    """

    delivery = EXACTLY_ONCE
    secretOptions = ("url",)

    def __init__(self, options: SinkOptions, columns: pa.Schema, rows: Rows) -> None:
        self._tasks = CheckingShipper("sqlalchemy", options.bytes_max)
        super().__init__(self._tasks)
        self.path = options.database.name
        self._options, self._columns, self._rows = options, columns, rows
        self._rewind = TableRewind(options)
        self._context: SinkContext | None = None
        self._epochs = Epochs(options.database, options.place)
        self._noted: Noted | None = None
        self._target: Target | None = None
        self._was_there = False

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ShippedRows:
        """Spark's micro-batches do not tell a Python data source whose they are."""
        raise ConfigError(
            f"{OWNER} is for continuous queries: a micro-batch that is run again would be written "
            "again.",
            hint='Start it by write_stream(df), or use Spark\'s own format "jdbc".',
        )

    def validate(self) -> None:
        """:raises ConfigError: the database cannot be reached, or the rows do not fit the table."""
        with self._speaking("cannot be used", ConfigError, ConfigError):
            try:
                if self._look() is None:
                    check_new(self._rows, self._epochs.connected().dialect.name)
            finally:
                self._epochs.forget()

    def bind(self, context: SinkContext) -> None:
        """Look at the table.

        :raises StaleRunError: a later run has written to it.
        """
        self._context = context
        self._rewind.bind(context)
        self._epochs.forget()
        with self._speaking("cannot be asked"):
            self._noted = self._epochs.check_run(context)
            self._target = self._look()
        self._was_there |= self._target is not None

    def checkLogged(self, epoch: int) -> None:
        """:raises ContinuousError: the table is gone, or what was noted of the query is."""
        if epoch < 0 or (self._target is not None and self._noted is not None):
            return
        kind = SinkUnavailableError if self._was_there and self._target is None else ConfigError
        table = self._options.place.shown
        what = f"table {table}" if self._target is None else "note of the query"
        raise kind(
            f"{OWNER}: {self.path} has no {what}, and the checkpoint has epochs up to {epoch}.",
            hint="See that it is the right database, or restore it. If you want to begin anew, "
            "start the query with a checkpoint of its own.",
        )

    def fenceTasks(self) -> None:
        """Make the table if it was never there; shut out earlier runs."""
        assert self._context is not None, "bind() comes first"
        with self._speaking("cannot be written to"):
            if self._target is None:
                create(self._epochs.connected(), self._options.place, self._rows)
                self._target = self._look()  # another may have made it
                assert self._target is not None
            self._was_there = True
            self._epochs.begin(self._context)
        self._tasks.limits = self._target.limits()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Skips an epoch that is in the table already.

        :raises SinkError: the epoch was refused, or the table cannot be written.
        :raises StaleRunError: a later run has written to the table.
        """
        tables = unpack(messages, self._columns)
        if not tables:
            return
        assert self._context is not None, "bind() comes first"
        assert self._target is not None, "checkLogged() comes first"
        self._epochs.commit(self._context, batchId, tables, self._target)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: nothing is there."""

    def latestEpoch(self) -> int | None:
        """The newest committed epoch that has rows."""
        assert self._context is not None, "bind() comes first"
        noted = self._noted
        if noted is None or noted.timeline != self._context.timeline or noted.epoch < 0:
            return None
        return noted.epoch

    def checkRewind(self, epoch: int) -> None:
        """:raises ConfigError: it is not known which rows came later."""
        self._rewind.checkRewind(epoch)

    def rewind(self, epoch: int) -> None:
        """Take back what later epochs have appended."""
        assert self._context is not None, "bind() comes first"
        self._rewind.rewind(epoch)
        with self._speaking("cannot be asked"):
            self._noted = self._epochs.look(self._context)

    def _look(self) -> Target | None:
        connection = self._epochs.connected()
        try:
            return look_up(connection, self._options.place, self._rows)
        finally:
            connection.rollback()

    def _speaking(
        self,
        what: str,
        unavailable: type[ConfigError | SinkUnavailableError] = SinkUnavailableError,
        final: type[ConfigError | SinkCommitRejectedError] = SinkCommitRejectedError,
    ) -> AbstractContextManager[None]:
        return speaking(unavailable, final, f"{OWNER}: {self.path} {what}")
