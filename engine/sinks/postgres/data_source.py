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

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from engine.clients.postgres import INSTALL
from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.sinks.adapter import own_messages
from engine.sinks.contract import TaskWriter
from engine.sinks.databases.rows import Rows
from engine.sinks.databases.writer import TableWriter
from engine.sinks.postgres.epochs import PostgresEpochs
from engine.sinks.postgres.options import SinkOptions, sink_options
from engine.sinks.postgres.statements import Statements, add_columns, create_table
from engine.sinks.postgres.tables import OWNER, TableFacts, lacks, look_up, rows_of
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
        return PostgresWriter(self._options, rows_of(to_arrow(schema, OWNER), self._options.mode))


class PostgresWriter(TableWriter[PostgresEpochs, TableFacts], DataSourceStreamArrowWriter):
    """The driver's side."""

    mayDropPrepared = True
    messageTypes: ClassVar[Mapping[str, type]] = {"staged": StagedRows}

    def __init__(self, options: SinkOptions, rows: Rows) -> None:
        super().__init__(PostgresEpochs(options), rows)
        self._options, self._rows = options, rows
        self._target = Target(options.server)
        self.tuningOptions = ("schemaEvolution", *options.server.tuning)

    def taskWriter(self) -> TaskWriter:
        return PostgresTaskWriter(self._target)

    def validate(self) -> None:
        """:raises ConfigError: the table cannot be reached or made, or the rows do not fit it."""
        epochs = self._epochs
        with epochs.speaking("cannot be used", ConfigError, ConfigError):
            try:
                may_create = (
                    epochs.connected()
                    .execute(
                        "SELECT has_schema_privilege(oid, 'CREATE') FROM pg_catalog.pg_namespace "
                        "WHERE nspname = %s",
                        [epochs.schema],
                    )
                    .fetchone()
                )
                table = look_up(epochs.connected(), self._options.table)
            finally:
                epochs.forget()
        if may_create != (True,):
            why = "does not exist" if may_create is None else "is closed to the user"
            raise ConfigError(
                epochs.says(f"cannot be used: the schema {epochs.schema}, for stages, {why}."),
                hint="Let the user create tables in it, or name another one: stagingSchema.",
            )
        if table is not None:
            self._lacks(table)

    def _look(self) -> TableFacts | None:
        """Give the table the columns that it lacks, too."""
        connection = self._epochs.connected()
        table = look_up(connection, self._options.table)
        if table is not None and (missing := self._lacks(table)):
            connection.execute(add_columns(table, missing, self._rows))
            table = look_up(connection, self._options.table)
        return table

    def _create(self) -> None:
        relation = self._epochs.relation
        self._epochs.connected().execute(create_table(*relation, self._rows))

    def fenceTasks(self) -> None:
        """Make the table if it was never there; shut out earlier runs, and drop their stages."""
        super().fenceTasks()
        with self._epochs.speaking("cannot be written to"):
            self._epochs.drop_stages(self._bound)
        self._target.statements = self._statements()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Skips an epoch that is in the table already.

        :raises ConfigError: an earlier start has prepared it, with rows that do not fit.
        :raises SinkError: the epoch was refused, or the table cannot be written.
        :raises StaleRunError: a later run has written to the table.
        """
        staged = own_messages(messages, StagedRows)
        if not staged:
            return
        statements = self._statements()
        self._epochs.commit(
            self._bound,
            batchId,
            lambda: self._epochs.take(self._bound, staged, batchId, statements),
        )

    def _lacks(self, table: TableFacts) -> list[str]:
        return lacks(table, self._rows, adds_columns=self._options.adds_columns)

    def _statements(self) -> Statements:
        return Statements(self._found, self._rows, self._epochs.schema)
