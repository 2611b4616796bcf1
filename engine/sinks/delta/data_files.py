"""The data files that a task writes for an epoch, and what the table's log is to say of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from engine.errors import SinkUnavailableError
from engine.sinks.contract import TaskWriter, WriterContext
from engine.sinks.delta.places import Place
from engine.sinks.delta.schemas import OWNER, TableFacts, required
from engine.sinks.delta.statistics import Statistics
from engine.sinks.files.epoch_files import cannot_write
from engine.sinks.files.file_formats import ParquetFormat
from engine.sinks.files.partition_paths import folder_of
from engine.sinks.files.row_files import EncodedFile, RowFiles
from engine.sinks.lakes.nulls import check_nulls
from engine.sinks.lakes.origins import new_name

if TYPE_CHECKING:
    from deltalake.transaction import AddAction


@dataclass(frozen=True)
class DataFile:
    """A file that is to become a part of the table.

    :param path: below the table's folder, with slashes, not encoded.
    :param modified_ms: since 1970.
    :param statistics: JSON, see :mod:`engine.sinks.delta.statistics`.
    """

    path: str
    size: int
    modified_ms: int
    partition_values: dict[str, str | None]
    statistics: str

    def action(self, *, is_news: bool) -> AddAction:
        """As the table's log has it.

        :param is_news: its rows were in no other file before.
        """
        from deltalake.transaction import AddAction

        return AddAction(
            path=self.path,
            size=self.size,
            partition_values=self.partition_values,
            modification_time=self.modified_ms,
            data_change=is_news,
            stats=self.statistics,
        )


@dataclass(frozen=True)
class DeltaMessage(WriterCommitMessage):
    """What a task has written for an epoch.

    :param table_id: of the table that the task was started for.
    :param host: where the task ran.
    """

    table_id: str
    files: tuple[DataFile, ...]
    host: str


@dataclass
class Target:
    """What tasks have to know. Picklable.

    :param file_bytes_max: a file of so many bytes is followed by another one.
    :param table: known when the query is bound.
    """

    place: Place
    file_format: ParquetFormat
    file_bytes_max: int
    table: TableFacts | None = None


class DeltaTaskWriter(TaskWriter):
    """The executor's side."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def open(self, context: WriterContext) -> None:
        assert self._target.table is not None, "bind() comes first"
        self._table = self._target.table
        self._required = required(self._table)
        self._context = context

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> DeltaMessage | None:
        with _EpochFiles(self._target, self._table, self._context, epoch) as files:
            for batch in batches:
                check_nulls(batch, self._required, OWNER, self._target.place.url)
                files.add(batch)
            written = files.finish()
        if not written:
            return None
        return DeltaMessage(self._table.id, written, socket.gethostname())


class _EpochFiles(RowFiles[DataFile]):
    def __init__(
        self, target: Target, table: TableFacts, context: WriterContext, epoch: int
    ) -> None:
        # In UTC, for instants make no partition here.
        super().__init__(table.partition_by, "UTC", file_bytes_max=target.file_bytes_max)
        self._target, self._place, self._epoch = target, target.place, epoch
        self._context = context
        self._folders: set[str] = set()

    def __enter__(self) -> _EpochFiles:
        self._place.check(self._epoch)
        return self

    def _create(self, values: Sequence[str | None], schema: pa.Schema) -> OpenFile:
        folder = folder_of(self._partition_by, values)
        self._folders.add(folder)
        name = new_name(self._context, self._epoch, self._target.file_format.extension)
        return OpenFile(
            self._place,
            f"{folder}/{name}" if folder else name,
            dict(zip(self._partition_by, values, strict=True)),
            self._target.file_format,
            schema,
        )

    def _settle(self) -> None:
        self._place.settle(self._folders)

    def _remove(self, file: DataFile) -> None:
        self._place.remove(file.path)

    def _unavailable(self, error: OSError) -> SinkUnavailableError:
        return cannot_write(self._place.url, error)


class OpenFile(EncodedFile[DataFile]):
    """A data file that is being written; it is no part of the table yet.

    :param path: see :class:`DataFile`.
    :param schema: without the columns of the partition.
    """

    def __init__(
        self,
        place: Place,
        path: str,
        partition_values: dict[str, str | None],
        file_format: ParquetFormat,
        schema: pa.Schema,
    ) -> None:
        self._place, self._path = place, path
        self._partition_values = partition_values
        self._statistics = Statistics(schema)
        file = place.create(path)
        super().__init__(file, file_format.encoder(file, schema))

    def write(self, table: pa.Table) -> None:
        super().write(table)
        self._statistics.add(table)

    def finish(self) -> DataFile:
        size = self._file.tell()
        modified_ms = self._place.close(self._file)
        return DataFile(
            path=self._path,
            size=size,
            modified_ms=modified_ms,
            partition_values=self._partition_values,
            statistics=self._statistics.to_json(),
        )

    def _remove(self) -> None:
        self._place.remove(self._path)
