"""The data files that a task writes for an epoch, and what the table is to say of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField
from pyiceberg.table.locations import LocationProvider, load_location_provider
from pyiceberg.transforms import TimeTransform
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType
from pyspark.sql.datasource import WriterCommitMessage

from engine.errors import SinkCommitRejectedError, SinkUnavailableError
from engine.sinks.contract import TaskWriter, WriterContext
from engine.sinks.files.epoch_files import cannot_write
from engine.sinks.files.file_formats import ParquetFormat
from engine.sinks.files.partition_paths import grouped
from engine.sinks.files.row_files import EncodedFile, RowFiles
from engine.sinks.iceberg.names import OWNER
from engine.sinks.iceberg.schemas import TableFacts, required
from engine.sinks.lakes.nulls import check_nulls
from engine.sinks.lakes.origins import new_name


@dataclass(frozen=True)
class DataFile:
    """A file that is to become a part of the table; see Iceberg's spec, ``data_file``.

    :param path: its location, whole.
    :param partition: a value for each field of the partition, in Iceberg's serialization of single
        values.
    """

    path: str
    size: int
    rows: int
    partition: tuple[bytes | None, ...]
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int]

    def entry(self, table: TableFacts) -> ManifestFile:
        """As the client of Iceberg has it.

        :param table: partitioned as it was when the file was written.
        """
        values = zip(self.partition, _partition_types(table), strict=True)
        return ManifestFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=Record(
                *(None if value is None else from_bytes(kind, value) for value, kind in values)
            ),
            record_count=self.rows,
            file_size_in_bytes=self.size,
            column_sizes=self.column_sizes,
            value_counts=self.value_counts,
            null_value_counts=self.null_value_counts,
            nan_value_counts={},
            lower_bounds=self.lower_bounds,
            upper_bounds=self.upper_bounds,
            key_metadata=None,
            split_offsets=self.split_offsets,
            equality_ids=None,
            sort_order_id=None,
            spec_id=table.spec.spec_id,
        )


@dataclass(frozen=True)
class IcebergMessage(WriterCommitMessage):
    """What a task has written for an epoch.

    :param table_id: of the table that the task was started for.
    :param spec_id: how it was partitioned then.
    :param columns: those that were written, with the identifiers that they had.
    :param host: where the task ran.
    """

    table_id: str
    spec_id: int
    columns: dict[str, int]
    files: tuple[DataFile, ...]
    host: str


@dataclass
class Target:
    """What tasks have to know. Picklable.

    :param where: the table, for people.
    :param names: the columns that are written.
    :param file_bytes_max: a file of so many bytes is followed by another one.
    :param io_properties: how the table's storage is reached.
    :param table: known when the query is bound.
    """

    where: str
    names: tuple[str, ...]
    file_format: ParquetFormat
    file_bytes_max: int
    io_properties: Mapping[str, str]
    table: TableFacts | None = None


class IcebergTaskWriter(TaskWriter):
    """The executor's side."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def open(self, context: WriterContext) -> None:
        assert self._target.table is not None, "bind() comes first"
        self._table = self._target.table
        self._columns = self._table.ids(self._target.names)
        self._required = required(self._table)
        self._io = load_file_io(dict(self._target.io_properties), self._table.location)
        self._context = context

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> IcebergMessage | None:
        with _EpochFiles(self._target, self._table, self._io, self._context, epoch) as files:
            for batch in batches:
                check_nulls(batch, self._required, OWNER, self._target.where)
                files.add(batch)
            written = files.finish()
        if not written:
            return None
        return IcebergMessage(
            self._table.id,
            self._table.spec.spec_id,
            self._columns,
            written,
            socket.gethostname(),
        )


class _EpochFiles(RowFiles[DataFile]):
    def __init__(
        self, target: Target, table: TableFacts, io: FileIO, context: WriterContext, epoch: int
    ) -> None:
        super().__init__((), "UTC", file_bytes_max=target.file_bytes_max)
        self._target, self._table, self._io = target, table, io
        self._context, self._epoch = context, epoch
        self._schema = table.arrow(target.names)
        self._places = load_location_provider(table.location, dict(table.properties))

    def __enter__(self) -> _EpochFiles:
        return self

    def _parts(self, table: pa.Table) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
        columns = [table.column(each.name).cast(each.type) for each in self._schema]
        rows = pa.Table.from_arrays(columns, schema=self._schema)
        if not self._table.spec.fields:
            yield (), rows
            return
        values = [_stored(self._made(rows, number)) for number in range(len(self._table.partition))]
        for numbers in grouped(values):
            first = int(numbers[0])
            yield tuple(each[first].as_py() for each in values), rows.take(numbers)

    def _made(self, rows: pa.Table, number: int) -> pa.ChunkedArray:
        """The values of one field of the partition."""
        field = self._table.spec.fields[number]
        source = self._table.schema.find_field(field.source_id)
        column = rows.column(source.name)
        made = field.transform.pyarrow_transform(source.field_type)(column)
        if isinstance(field.transform, TimeTransform) and made.null_count > column.null_count:
            raise _beyond(self._target.where, field, "no year of a calendar")
        return made

    def _create(self, values: Sequence[Any], schema: pa.Schema) -> OpenFile:
        name = new_name(self._context, self._epoch, self._target.file_format.extension)
        path = location_of(self._places, self._table, self._target.where, values, name)
        return OpenFile(
            self._io, path, tuple(values), self._target.file_format, self._table, schema
        )

    def _settle(self) -> None:
        pass  # each file is there, durably, when it is closed

    def _remove(self, file: DataFile) -> None:
        self._io.delete(file.path)

    def _unavailable(self, error: OSError) -> SinkUnavailableError:
        return cannot_write(self._table.location, error)


def location_of(
    places: LocationProvider, table: TableFacts, where: str, values: Sequence[Any], name: str
) -> str:
    """Where a data file with these partition values is.

    :param where: the table, for people.
    :raises SinkCommitRejectedError: Iceberg's client has no such partition, and commits none.
    """
    kinds = _partition_types(table) if values else ()
    for field, kind, value in zip(table.spec.fields, kinds, values, strict=True):
        try:
            field.transform.to_human_string(kind, value)
        except OverflowError as exc:
            raise _beyond(where, field, str(value)) from exc
    folder = table.spec.partition_to_path(Record(*values), table.schema) if values else ""
    return places.new_data_location(f"{folder}/{name}" if folder else name)


def _beyond(where: str, field: PartitionField, value: str) -> SinkCommitRejectedError:
    return SinkCommitRejectedError(
        f"{OWNER}: a row cannot be written to the table {where}: its {field.name} "
        f"({field.transform} of the partition) is {value}, before the year 1 or behind 9999, and "
        "Iceberg's client has no name for that.",
        hint="Leave such rows out or mend them in the query, or partition the table by years.",
    )


class OpenFile(EncodedFile[DataFile]):
    """A data file that is being written; it is no part of the table yet.

    :param values: of the partition.
    :param schema: as :meth:`TableFacts.arrow` has it.
    """

    def __init__(
        self,
        io: FileIO,
        path: str,
        values: tuple[Any, ...],
        file_format: ParquetFormat,
        table: TableFacts,
        schema: pa.Schema,
    ) -> None:
        self._io, self._path, self._values, self._table = io, path, values, table
        file: Any = io.new_output(path).create()
        self._writer = file_format.plain(file, schema)
        super().__init__(file, self._writer)

    def finish(self) -> DataFile:
        size = self._file.tell()
        self._file.close()
        kinds = _partition_types(self._table)
        return DataFile(
            path=self._path,
            size=size,
            partition=tuple(
                None if value is None else to_bytes(kind, value)
                for value, kind in zip(self._values, kinds, strict=True)
            ),
            **_statistics(self._writer.writer.metadata, self._table),
        )

    def _remove(self) -> None:
        self._io.delete(self._path)


def _statistics(footer: pq.FileMetaData, table: TableFacts) -> dict[str, Any]:
    """What a data file's footer tells of its rows."""
    plan = compute_statistics_plan(table.schema, dict(table.properties))
    ids = parquet_path_to_id_mapping(table.schema)
    for number in range(footer.num_columns):
        for group in range(footer.num_row_groups):
            column = footer.row_group(group).column(number)
            told = ids[column.path_in_schema]
            if not column.is_stats_set:
                plan[told] = replace(plan[told], mode=MetricsMode(MetricModeTypes.NONE))
            elif column.statistics.has_min_max and not _is_readable(column):
                plan[told] = replace(plan[told], mode=MetricsMode(MetricModeTypes.COUNTS))
    found = data_file_statistics_from_parquet_metadata(footer, plan, ids).to_serialized_dict()
    return {
        "rows": found["record_count"],
        **{
            name: found[name]
            for name in (
                *("column_sizes", "value_counts", "null_value_counts"),
                *("lower_bounds", "upper_bounds", "split_offsets"),
            )
        },
    }


def _is_readable(column: pq.ColumnChunkMetaData) -> bool:
    """Whether the bounds are within the limits of Python's dates, and texts."""
    with suppress(OverflowError, ValueError):
        return (column.statistics.min, column.statistics.max) is not None
    return False


def _partition_types(table: TableFacts) -> list[PrimitiveType]:
    kinds = [field.field_type for field in table.spec.partition_type(table.schema).fields]
    assert all(isinstance(kind, PrimitiveType) for kind in kinds)
    return kinds  # type: ignore[return-value]


def _stored(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """As Iceberg keeps values of a partition: dates are days, instants microseconds."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values
