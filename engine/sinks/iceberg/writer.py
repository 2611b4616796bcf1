"""The driver's side of sink ``iceberg``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from pyiceberg.table import TableProperties

from engine.base.connector_options import Options
from engine.errors import PreparedEpochLostError
from engine.sinks.contract import TaskWriter
from engine.sinks.files.epoch_files import check_files
from engine.sinks.files.file_formats import ParquetFormat
from engine.sinks.iceberg.catalogs import TableName, task_properties
from engine.sinks.iceberg.data_files import IcebergMessage, IcebergTaskWriter, Target
from engine.sinks.iceberg.durable_io import local_path_of
from engine.sinks.iceberg.names import OWNER
from engine.sinks.iceberg.rewind import IcebergRewind
from engine.sinks.iceberg.schemas import Rows, TableFacts
from engine.sinks.iceberg.table_log import IcebergLog
from engine.sinks.lakes.writer import FILE_BYTES, TableWriter

CODEC: Final = "zstd"
"""Iceberg's own."""


class IcebergWriter(TableWriter[TableFacts, IcebergMessage]):
    """
    :param compression: of data files; None: the table says.
    :param file_bytes_max: likewise.
    :param tuning: names of options that may change between two starts.
    """

    owner = OWNER
    kind = "Iceberg"
    spark_format = "iceberg"
    message_type = IcebergMessage
    messageTypes: ClassVar[Mapping[str, type]] = {"iceberg": IcebergMessage}
    mayDropPrepared = True

    def __init__(
        self,
        name: TableName,
        location: str | None,
        rows: Rows,
        compression: str | None,
        file_bytes_max: int | None,
        tuning: Sequence[str],
        commit_interval_ms: int = 0,
    ) -> None:
        self._iceberg = IcebergLog(name, location)
        self._compression, self._file_bytes = compression, file_bytes_max
        self._told = Target(str(name), rows.names, file_format(CODEC), FILE_BYTES, {})
        rewind = IcebergRewind(self._iceberg)
        super().__init__(self._told, rows, self._iceberg, rewind, commit_interval_ms)
        self.tuningOptions = tuple(tuning)

    def taskWriter(self) -> TaskWriter:
        return IcebergTaskWriter(self._told)

    def _found(self, table: TableFacts) -> None:
        super()._found(table)
        said = table.properties
        codec = self._compression or said.get(TableProperties.PARQUET_COMPRESSION, CODEC)
        size = said.get(TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, FILE_BYTES)
        self._told.file_format = file_format(codec)
        self._told.file_bytes_max = self._file_bytes or int(size)
        self._told.io_properties = task_properties(self._iceberg.look())

    def _check_absent(self) -> None:
        pass  # its catalog says where it will be

    def _check_layout(self, table: TableFacts, messages: Sequence[IcebergMessage]) -> None:
        specs = {each.spec_id for each in messages}
        columns = {tuple(sorted(each.columns.items())) for each in messages}
        written = dict(next(iter(columns)))
        if (
            specs == {table.spec.spec_id}
            and len(columns) == 1
            and table.ids(list(written)) == written
        ):
            return
        raise PreparedEpochLostError(
            f"{OWNER}: the table {self._log.where} has other partitions or columns than those "
            "that the epoch was written for.",
            hint="The epoch is written again, for the table as it is now.",
        )

    def _check_files(self, messages: Sequence[IcebergMessage]) -> None:
        for each in messages:
            local = ((local_path_of(file.path), file.size) for file in each.files)
            check_files(((path, size) for path, size in local if path is not None), each.host)


def file_format(codec: str) -> ParquetFormat:
    """:raises ConfigError: there is no such one."""
    return ParquetFormat(Options(f"table of {OWNER}", {"compression": codec}))
