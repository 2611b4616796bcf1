"""``iceberg``: rows in a table of Apache Iceberg, each epoch exactly once.

==================  ===============  ============================================================
option              default
==================  ===============  ============================================================
table                                ``namespace.table``
catalog             default          the catalog's name
catalog.*                            its properties, for Iceberg's own client: ``catalog.uri``
partitionSpec                        ``days(ts), bucket(16, id)``: of a table that is made here;
                                     or ``partitionBy``
location            the catalog's    where a table that is made here has its files
schemaEvolution     refuse           ``add-columns``: the table gets the columns that it lacks
compression         the table's      zstd, snappy, none, gzip, lz4_raw, brotli
targetFileSize      the table's      in bytes: a file that has so many is followed by another one
==================  ===============  ============================================================

Tasks write Parquet files to the table's place, and make them durable. They are no part of the table
until the driver has committed them (:mod:`engine.sinks.iceberg.table_log`), one snapshot for an
epoch. The table is made at the start if it is not there.

This file loads without Iceberg's client. Source: Iceberg's spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from engine.base.connector_options import PARTITION_BY, Options
from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.sinks.files.file_formats import ParquetFormat
from engine.sinks.iceberg.names import OWNER
from engine.sinks.lakes.writer import EVOLUTIONS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from engine.sinks.iceberg.catalogs import TableName
    from engine.sinks.iceberg.maintenance import IcebergUpkeep
    from engine.sinks.iceberg.rewind import IcebergRewind
    from engine.sinks.iceberg.writer import IcebergWriter

INSTALL: Final = "pip install 'airflow-provider-continuous[iceberg]'"
CATALOG: Final = "catalog."
"""What the options that are properties of the catalog begin with."""
_IDENTITY: Final = ("catalog.type", "catalog.uri", "catalog.warehouse")
"""Those of them that tell which table it is: so a rewind finds it without the query."""


class IcebergDataSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options(
            OWNER, {key: value for key, value in options.items() if not is_property(key)}
        )
        name = taken.required("table", example="sales.orders")
        catalog = taken.text("catalog", "default") or "default"
        self._location = taken.text("location")
        ParquetFormat(taken)  # for what it says of a wrong one
        self._compression = taken.text("compression")
        self._file_bytes = taken.optional_integer("targetFileSize", minimum=1)
        evolution = taken.choice("schemaEvolution", "refuse", EVOLUTIONS)
        self._adds_columns = evolution == "add-columns"
        self._partition_by = taken.names(PARTITION_BY)
        self._partition_spec = taken.text("partitionSpec")
        taken.refuse_others()
        if self._partition_by and self._partition_spec is not None:
            raise ConfigError(
                f"{OWNER} takes partitionBy or the option partitionSpec, not both.",
                hint="partitionSpec may name columns as they are, too: days(ts), region.",
            )
        self._name = table_name(name, catalog, options, OWNER)
        self._tuning = [
            *("compression", "targetFileSize", "schemaEvolution", "location", "partitionSpec"),
            *changing_properties(options),
        ]

    @classmethod
    def name(cls) -> str:
        return "continuous_iceberg"

    def streamWriter(self, schema: StructType, overwrite: bool) -> IcebergWriter:
        """:raises ConfigError: Iceberg cannot hold the schema, or be partitioned so."""
        from engine.sinks.iceberg.schemas import Rows, partition_of
        from engine.sinks.iceberg.writer import IcebergWriter

        partition = [(name, "identity") for name in self._partition_by]
        if self._partition_spec is not None:
            partition = partition_of(self._partition_spec)
        rows = Rows.of(to_arrow(schema, OWNER), partition, adds_columns=self._adds_columns)
        return IcebergWriter(
            self._name, self._location, rows, self._compression, self._file_bytes, self._tuning
        )

    def upkeep(self) -> IcebergUpkeep:
        """For those who look after the table."""
        from engine.sinks.iceberg.maintenance import IcebergUpkeep
        from engine.sinks.iceberg.table_log import IcebergLog

        return IcebergUpkeep(IcebergLog(self._name), self._compression, self._file_bytes)


def reopen(options: Mapping[str, str]) -> IcebergRewind | None:
    """The sink of these options; None if they name no table.

    :raises ConfigError: Iceberg's client is not installed.
    """
    given = {key.lower(): value for key, value in options.items()}
    if "table" not in given:
        return None
    name = table_name(given["table"], given.get("catalog", "default"), options, OWNER)
    from engine.sinks.iceberg.rewind import IcebergRewind
    from engine.sinks.iceberg.table_log import IcebergLog

    return IcebergRewind(IcebergLog(name))


def table_name(name: str, catalog: str, options: Mapping[str, str], owner: str) -> TableName:
    """Which table it is.

    :param options: among them the catalog's properties.
    :param owner: of the connector, for errors.
    :raises ConfigError: the name is none, or Iceberg's client is not installed.
    """
    if not all(name.split(".")) or "." not in name:
        raise ConfigError(
            f"Option table of {owner} is {name!r}: it must be namespace.table.",
            hint='Set option("table", "sales.orders").',
        )
    try:
        from engine.sinks.iceberg.catalogs import TableName
    except ImportError as exc:
        raise ConfigError(
            f"{owner} needs Iceberg's client, which is not installed.", hint=INSTALL
        ) from exc
    properties = {
        key[len(CATALOG) :].lower(): str(value)
        for key, value in options.items()
        if is_property(key)
    }
    return TableName(catalog, name, properties)


def changing_properties(options: Mapping[str, str]) -> list[str]:
    """Options for the catalog that may be others with any start."""
    return [key for key in options if is_property(key) and key.lower() not in _IDENTITY]


def is_property(option: str) -> bool:
    """Whether an option is for the catalog."""
    return option.lower().startswith(CATALOG)
