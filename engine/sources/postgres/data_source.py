"""``postgres``: a table of PostgreSQL, and its changes as they are committed.

==================  ============  ===============================================================
option              default
==================  ============  ===============================================================
url                               ``postgresql://host:5432/database``; how to log in, and libpq's
                                  parameters: :mod:`engine.clients.postgres`
table                             as SQL has it: ``orders``, ``shop."Orders"``
slot                              the name of the replication slot; one for each query
publication         the slot's    its name
startingPosition    snapshot      or ``latest``: only changes; of a slot that is there already
                                  those from where it stands
createIfMissing     true          publication and slot are made
unavailableValues   error         or ``null``: of large values that an update has left as they
                                  were, and that are not sent
==================  ============  ===============================================================

Rows: :mod:`engine.sources.postgres.rows`. Offsets are ``{"lsn":23934792}``: all that is committed
before is read; 0 stands for a snapshot that is still to be read.

Changes come over PostgreSQL's streaming replication: of a slot that is asked by SQL
(``pg_logical_slot_peek_changes``) each look decodes everything since the last commit anew. The slot
is advanced when an epoch is committed, and not before.

Source: PostgreSQL's documentation, "Logical Decoding", "Logical Streaming Replication Protocol".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource

from engine.clients.postgres import speaking_postgres
from engine.errors import ConfigError
from engine.expressions.types import schema_to_spark
from engine.sources.postgres.catalog import Catalog
from engine.sources.postgres.options import source_options
from engine.sources.postgres.reader import PostgresReader
from engine.sources.postgres.rows import CHANGE_COLUMNS, OWNER, UNCHANGED_COLUMN, Columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class PostgresDataSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = source_options(options)

    @classmethod
    def name(cls) -> str:
        return "postgres"

    def schema(self) -> StructType:
        """:raises ConfigError: the table cannot be asked for its columns."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(schema_to_spark(self._columns().schema))

    def continuousReader(self, schema: StructType) -> PostgresReader:
        """:raises ConfigError: the table has other columns than the plan."""
        columns = self._columns()
        return PostgresReader(self._options, Columns(tuple(schema.names), columns.table))

    def streamReader(self, schema: StructType) -> NoReturn:
        """Spark's micro-batches have no place for a transaction."""
        raise ConfigError(
            f"{OWNER} is for continuous queries.",
            hint='Start it by write_stream(df).trigger(continuous="1 second").',
        )

    def _columns(self) -> Columns:
        what = f"{OWNER}: PostgreSQL at {self._options.server.name} cannot be asked"
        with (
            speaking_postgres(ConfigError, ConfigError, what),
            self._options.server.connect() as connection,
        ):
            table = Catalog(connection, self._options).table()
        names = [*CHANGE_COLUMNS, *([UNCHANGED_COLUMN] if self._options.takes_unavailable else [])]
        for column in table.columns:
            if column.name in names:
                raise ConfigError(
                    f"{OWNER}: the column {column.name} of {table.shown} has the name of one that "
                    "tells of the change.",
                    hint="Rename it.",
                )
        return Columns((*names, *(each.name for each in table.columns)), table.columns)
