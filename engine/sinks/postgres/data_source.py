"""``postgres``: rows in a table of PostgreSQL, each epoch exactly once, and as a whole.

==================  ============  ===============================================================
option              default
==================  ============  ===============================================================
url                               ``postgresql://host:5432/database``; how to log in, and libpq's
                                  parameters: :mod:`engine.clients.postgres`
table                             as SQL has it: ``orders``, ``shop.orders``, ``shop."Orders"``
mode                append        or ``upsert``: a row replaces that of the same key
keyColumns                        of mode upsert: columns with commas; the table has a unique index
                                  on them
deleteColumn                      of mode upsert: a BOOLEAN column of the query: true deletes the
                                  row of this key. It is no column of the table
epochColumn                       of mode append: a BIGINT column of the table gets the epoch, by
                                  which a rewind takes rows back
schemaEvolution     refuse        ``add-columns``: the table gets the columns that it lacks
stagingSchema       the table's   where stages are, and what is noted of epochs
==================  ============  ===============================================================

Each task copies its rows into a stage (:mod:`engine.sinks.postgres.statements`). When the epoch is
in the offset log, the driver moves them into the table, in one transaction with the number of the
epoch (:mod:`engine.sinks.postgres.epochs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.checkpoint.sink_context import SinkContext
from engine.clients.postgres import INSTALL, speaking_postgres
from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from engine.expressions.schemas import to_arrow
from engine.sinks.adapter import own_messages
from engine.sinks.contract import EXACTLY_ONCE, ContinuousWriter, TaskWriter
from engine.sinks.postgres.epochs import Epochs, Noted
from engine.sinks.postgres.options import SinkOptions, sink_options
from engine.sinks.postgres.rewind import PostgresRewind, epochs_of
from engine.sinks.postgres.statements import Statements, add_columns, create_table
from engine.sinks.postgres.tables import OWNER, Rows, TableFacts, look_up
from engine.sinks.postgres.task_writer import PostgresTaskWriter, StagedRows, Target

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class PostgresSink(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = sink_options(options)
        if find_spec("pgpq") is None:
            raise ConfigError(f"{OWNER} needs the package pgpq.", hint=INSTALL)

    @classmethod
    def name(cls) -> str:
        return "continuous_postgres"

    def streamWriter(self, schema: StructType, overwrite: bool) -> PostgresWriter:
        """:raises ConfigError: PostgreSQL cannot hold the schema."""
        options = self._options
        rows = Rows.of(
            to_arrow(schema, OWNER),
            key=options.key,
            deletes=options.deletes,
            epoch_column=options.epoch_column,
            adds_columns=options.adds_columns,
        )
        return PostgresWriter(options, rows)


class PostgresWriter(ContinuousWriter, DataSourceStreamArrowWriter):
    """The driver's side."""

    delivery = EXACTLY_ONCE
    mayDropPrepared = True
    messageTypes: ClassVar[Mapping[str, type]] = {"staged": StagedRows}

    def __init__(self, options: SinkOptions, rows: Rows) -> None:
        self._options, self._rows = options, rows
        self._target = Target(options.server)
        self._rewind = PostgresRewind(options)
        self._context: SinkContext | None = None
        self._epochs: Epochs | None = None
        self._noted: Noted | None = None
        self._table: TableFacts | None = None
        self._was_there = False
        self.tuningOptions = ("schemaEvolution", *options.server.tuning)

    def taskWriter(self) -> TaskWriter:
        return PostgresTaskWriter(self._target)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Spark's micro-batches do not tell a Python data source whose they are."""
        raise ConfigError(
            f"{OWNER} is for continuous queries: a micro-batch that is run again would be written "
            "again.",
            hint='Start it by write_stream(df), or use Spark\'s own format "jdbc".',
        )

    def validate(self) -> None:
        """:raises ConfigError: the table cannot be reached or made, or the rows do not fit it."""
        says = f"{OWNER}: PostgreSQL at {self._options.server.name} cannot be used"
        with speaking_postgres(ConfigError, ConfigError, says):
            epochs = epochs_of(self._options)
            may_create = (
                epochs.connected()
                .execute(
                    "SELECT has_schema_privilege(oid, 'CREATE') FROM pg_catalog.pg_namespace "
                    "WHERE nspname = %s",
                    [epochs.place],
                )
                .fetchone()
            )
            table = look_up(epochs.connected(), self._options.table)
            epochs.forget()
        if may_create != (True,):
            why = "does not exist" if may_create is None else "is closed to the user"
            raise ConfigError(
                f"{says}: the schema {epochs.place}, for stages, {why}.",
                hint="Let the user create tables in it, or name another one: stagingSchema.",
            )
        if table is not None:
            self._rows.check(table)

    def bind(self, context: SinkContext) -> None:
        """Look at the table, and give it the columns that it lacks.

        :raises StaleRunError: a later run has written to it.
        """
        self._context = context
        self._rewind.bind(context)
        if self._epochs is not None:
            self._epochs.forget()
        with self._speaking("cannot be asked"):
            self._epochs = epochs_of(self._options)
            self._noted = self._epochs.check_run(context)
            self._table = self._look()
            if self._table is not None and (missing := self._rows.check(self._table)):
                statement = add_columns(self._table, missing, self._rows)
                self._epochs.connected().execute(statement)
                self._table = self._look()
        self._was_there |= self._table is not None

    def checkLogged(self, epoch: int) -> None:
        """:raises ContinuousError: the table is gone, or what was noted of the query is."""
        if epoch < 0 or (self._table is not None and self._noted is not None):
            return
        kind = SinkUnavailableError if self._was_there and self._table is None else ConfigError
        what = f"table {self._options.table}" if self._table is None else "note of the query"
        raise kind(
            f"{OWNER}: PostgreSQL at {self._options.server.name} has no {what}, and the checkpoint "
            f"has epochs up to {epoch}.",
            hint="See that it is the right database, or restore it. If you want to begin anew, "
            "start the query with a checkpoint of its own.",
        )

    def fenceTasks(self) -> None:
        """Make the table if it was never there; shut out earlier runs, and drop their stages."""
        context, epochs = self._bound()
        with self._speaking("cannot be written to"):
            if self._table is None:
                epochs.connected().execute(create_table(*epochs.relation, self._rows))
                self._table = self._look()
                assert self._table is not None
                self._rows.check(self._table)  # another may have made it
            self._was_there = True
            epochs.begin(context)
            epochs.drop_stages(context)
            self._target.statements = Statements(self._table, self._rows, epochs.place)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Skips an epoch that is in the table already.

        :raises SinkError: the epoch was refused, or the table cannot be written.
        :raises StaleRunError: a later run has written to the table.
        """
        staged = own_messages(messages, StagedRows)
        if not staged:
            return
        context, epochs = self._bound()
        assert self._table is not None, "checkLogged() comes first"
        statements = Statements(self._table, self._rows, epochs.place)
        epochs.commit(context, batchId, staged, statements.take)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: the next start drops the stages."""

    def latestEpoch(self) -> int | None:
        """The newest committed epoch that has rows."""
        context, _ = self._bound()
        noted = self._noted
        if noted is None or noted.timeline != context.timeline or noted.epoch < 0:
            return None
        return noted.epoch

    def checkRewind(self, epoch: int) -> None:
        """:raises ConfigError: it is not known which rows came later."""
        self._rewind.checkRewind(epoch)

    def rewind(self, epoch: int) -> None:
        """Take back what later epochs have appended."""
        self._rewind.rewind(epoch)
        context, epochs = self._bound()
        with self._speaking("cannot be asked"):
            self._noted = epochs.look(context)

    def _look(self) -> TableFacts | None:
        assert self._epochs is not None
        return look_up(self._epochs.connected(), self._options.table)

    def _bound(self) -> tuple[SinkContext, Epochs]:
        assert self._context is not None, "bind() comes first"
        assert self._epochs is not None, "bind() comes first"
        return self._context, self._epochs

    def _speaking(self, what: str) -> AbstractContextManager[None]:
        return speaking_postgres(
            SinkUnavailableError,
            SinkCommitRejectedError,
            f"{OWNER}: PostgreSQL at {self._options.server.name} {what}",
        )
