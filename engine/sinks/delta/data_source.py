"""``delta``: rows in a table of Delta Lake, each epoch exactly once.

==================  ============  ===============================================================
option              default
==================  ============  ===============================================================
path                              a local or mounted folder, or a URL: ``s3://bucket/table``
schemaEvolution     refuse        ``add-columns``: the table gets the columns that it lacks
compression         snappy        snappy, none, gzip, zstd, lz4_raw, brotli
targetFileSize      128 MiB       in bytes: a file that has so many is followed by another one
commitInterval      0 seconds     the epochs of so long come into the table by one commit
storage.*                         settings of Delta's own client, such as
                                  ``storage.AWS_ENDPOINT_URL``
==================  ============  ===============================================================

Tasks write Parquet files into the table's folder, and make them durable. They are no part of the
table until the driver has put them into its log (:mod:`engine.sinks.delta.table_log`), one commit
for an epoch, or for several with ``commitInterval``. The table is made at the start if it is not
there, partitioned by ``partitionBy``.

Source: Delta's PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource

from engine.base.connector_options import PARTITION_BY, Options
from engine.errors import ConfigError
from engine.expressions.schemas import to_arrow
from engine.expressions.types import schema_to_spark
from engine.sinks.contract import TaskWriter
from engine.sinks.delta.data_files import DeltaMessage, DeltaTaskWriter, Target
from engine.sinks.delta.maintenance import DeltaUpkeep
from engine.sinks.delta.places import DiskPlace, place_of
from engine.sinks.delta.rewind import DeltaRewind
from engine.sinks.delta.schemas import OWNER, Rows, TableFacts
from engine.sinks.delta.table_log import (
    STORAGE,
    DeltaLog,
    import_client,
    is_storage,
    storage_options,
)
from engine.sinks.files.epoch_files import check_files
from engine.sinks.files.file_formats import ParquetFormat
from engine.sinks.lakes.writer import (
    COMMIT_INTERVAL,
    EVOLUTIONS,
    FILE_BYTES,
    TableWriter,
    commit_interval_ms,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class DeltaDataSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options(
            OWNER, {key: value for key, value in options.items() if not is_storage(key)}
        )
        location = taken.required("path", example="/data/orders")
        self._storage_options = storage_options(options)
        self._place = place_of(location, self._storage_options)
        self._format = ParquetFormat(taken)
        evolution = taken.choice("schemaEvolution", "refuse", EVOLUTIONS)
        self._adds_columns = evolution == "add-columns"
        self._file_bytes = taken.optional_integer("targetFileSize", minimum=1)
        self._commit_interval_ms = commit_interval_ms(taken, OWNER)
        self._partition_by = taken.names(PARTITION_BY)
        taken.refuse_others()
        import_client()

    @classmethod
    def name(cls) -> str:
        return "continuous_delta"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DeltaWriter:
        """:raises ConfigError: Delta cannot hold the schema, or partitionBy names what is not
        there."""
        rows = Rows.of(
            schema_to_spark(to_arrow(schema, OWNER)),
            self._partition_by,
            adds_columns=self._adds_columns,
        )
        target = Target(self._place, self._format, self._file_bytes or FILE_BYTES)
        return DeltaWriter(target, rows, self._storage_options, self._commit_interval_ms)

    def upkeep(self) -> DeltaUpkeep:
        """For those who look after the table."""
        log = DeltaLog(self._place, self._storage_options)
        return DeltaUpkeep(log, self._format, self._file_bytes)


class DeltaWriter(TableWriter[TableFacts, DeltaMessage]):
    """The driver's side."""

    owner = OWNER
    kind = "Delta"
    spark_format = "delta"
    message_type = DeltaMessage
    messageTypes: ClassVar[Mapping[str, type]] = {"delta": DeltaMessage}

    def __init__(
        self,
        target: Target,
        rows: Rows,
        storage_options: dict[str, str],
        commit_interval_ms: int = 0,
    ) -> None:
        log = DeltaLog(target.place, storage_options)
        super().__init__(target, rows, log, DeltaRewind(log), commit_interval_ms)
        self._place = target.place
        self._task_writer = DeltaTaskWriter(target)
        self.tuningOptions = (
            *("compression", "targetFileSize", "schemaEvolution", COMMIT_INTERVAL),
            *(f"{STORAGE}{name}" for name in storage_options),
        )

    @property
    def path(self) -> str:
        """The table, absolute."""
        return self._place.url

    def taskWriter(self) -> TaskWriter:
        return self._task_writer

    def _check_absent(self) -> None:
        if not self._place.is_empty():
            raise ConfigError(
                f"{OWNER}: {self.path} is no Delta table, and it is not empty.",
                hint="Choose another folder, or convert what is there to Delta.",
            )

    def _check_layout(self, table: TableFacts, messages: Sequence[DeltaMessage]) -> None:
        if {tuple(file.partition_values) for each in messages for file in each.files} != {
            table.partition_by
        }:
            raise self._replaced(f"it is partitioned by ({', '.join(table.partition_by)}) now")

    def _check_files(self, messages: Sequence[DeltaMessage]) -> None:
        place = self._place
        if isinstance(place, DiskPlace):
            for each in messages:
                check_files(((place.root / f.path, f.size) for f in each.files), each.host)
