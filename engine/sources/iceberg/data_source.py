"""``continuous_iceberg``: what is added to a table of Apache Iceberg.

======================  =========  ==============================================================
option                  default
======================  =========  ==============================================================
table                              ``namespace.table``
catalog                 default    the catalog's name
catalog.*                          its properties, for Iceberg's own client: ``catalog.uri``
startingSnapshotId                 a snapshot, inclusive, or ``latest``: only what comes later.
                                   Without it a new query reads the table as it is, and then what
                                   comes
startingTimestamp                  or so: the first snapshot of this time or later,
                                   ``2026-11-22T10:00:00Z``; without a zone in UTC
skipOverwriteSnapshots  false      snapshots that change rows are left out, not an error
skipDeleteSnapshots     false      snapshots that only delete rows are left out, not an error
failOnDataLoss          true       snapshots that have expired before they were read are an error;
                                   else they are left out, and logged
maxFilesPerTrigger                 an epoch has so many files at most
numPartitions           4          so many tasks read side by side; each file is read by one
pollIntervalMs          1000       the catalog is asked so often
======================  =========  ==============================================================

This file loads without Iceberg's client. Source: Iceberg's "Structured streaming", its spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from engine.base.connector_options import DEFAULT_PARALLELISM, SESSION_TIMEZONE, Options
from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.expressions.types import schema_to_spark
from engine.sinks.iceberg.data_source import changing_properties, is_property, table_name
from engine.sources.handed.reader import PARTITIONS
from engine.sources.lakes.run import Pace
from engine.sources.lakes.starts import start_ms

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from engine.sources.iceberg.reader import IcebergReader

OWNER = "source iceberg"
LATEST = "latest"


class IcebergSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options(
            OWNER, {key: value for key, value in options.items() if not is_property(key)}
        )
        for name in (DEFAULT_PARALLELISM, SESSION_TIMEZONE):
            taken.text(name)
        table = taken.required("table", example="sales.orders")
        catalog = taken.text("catalog", "default") or "default"
        start, since_ms = _start(taken), start_ms(taken)
        if start is not None and since_ms is not None:
            raise ConfigError(
                f"{OWNER} has both startingSnapshotId and startingTimestamp.",
                hint="Leave one of them out.",
            )
        pace = Pace(
            taken.integer("numPartitions", PARTITIONS, minimum=1, maximum=10_000),
            taken.integer("pollIntervalMs", 1000, minimum=1) / 1000,
            taken.optional_integer("maxFilesPerTrigger", minimum=1),
        )
        skips_overwrites = taken.boolean("skipOverwriteSnapshots", False)
        skips_deletes = taken.boolean("skipDeleteSnapshots", False)
        loses = not taken.boolean("failOnDataLoss", True)
        taken.refuse_others()
        where = table_name(table, catalog, options, OWNER)
        from engine.sources.iceberg.reader import IcebergOptions

        self._options = IcebergOptions(
            where,
            pace,
            start,
            since_ms,
            skips_overwrites,
            skips_deletes,
            loses,
            tuple(changing_properties(options)),
        )

    @classmethod
    def name(cls) -> str:
        return "continuous_iceberg"

    def schema(self) -> StructType:
        """The table's, as it is now.

        :raises SourceUnavailableError: it cannot be read.
        """
        from pyspark.sql.types import StructType

        from engine.sources.iceberg.reader import Catalog
        from engine.sources.iceberg.types import arrow_of

        table = Catalog(self._options.name).table()
        return StructType.fromJson(schema_to_spark(arrow_of(table.schema())))

    def continuousReader(self, schema: StructType) -> IcebergReader:
        """:raises SourceUnavailableError: the table cannot be read."""
        from engine.sources.iceberg.reader import Catalog, IcebergReader

        table = Catalog(self._options.name).table()
        return IcebergReader(self._options, to_arrow(schema, OWNER), table)


def _start(taken: Options) -> int | str | None:
    text = taken.text("startingSnapshotId")
    if text is None or text.strip().lower() == LATEST:
        return None if text is None else LATEST
    return taken.integer("startingSnapshotId", 0, minimum=0)
