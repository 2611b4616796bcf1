"""Both sides of a table as a stream: the driver follows its snapshots, tasks read their files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata

from engine.errors import (
    ConfigError,
    ContinuousError,
    OffsetOutOfRangeError,
    SourceChangedError,
    SourceUnavailableError,
)
from engine.sinks.iceberg.catalogs import TableName, Tables, task_properties
from engine.sources.contract import TUNING_OPTIONS, Offset
from engine.sources.handed.partition_reader import Content, OpenUnit
from engine.sources.handed.reader import HandedReader
from engine.sources.handed.work import HandedPartition
from engine.sources.iceberg.snapshots import (
    OWNER,
    LostError,
    all_files,
    due,
    lineage,
    next_snapshot,
    number_before,
    sequence,
)
from engine.sources.lakes.position import TablePosition
from engine.sources.lakes.run import Found, Pace, TableRun

logger: Final = logging.getLogger(__name__)
TUNING: Final = (*TUNING_OPTIONS, "startingSnapshotId", "startingTimestamp", "maxFilesPerTrigger",
                 "skipOverwriteSnapshots", "skipDeleteSnapshots", "failOnDataLoss")  # fmt: skip
LATEST: Final = "latest"
ROWS: Final = 16_384


@dataclass(frozen=True)
class IcebergOptions:
    """What the user has said.

    :param start: a snapshot's id, or ``latest``; None for the table as it is, and what comes then.
    :param start_ms: or so: the first snapshot of this time or later, since 1970.
    :param loses: what is not there any more is left out, and logged.
    :param tuning: options for the catalog that may be others with any start.
    """

    name: TableName
    pace: Pace
    start: int | str | None
    start_ms: int | None
    skips_overwrites: bool
    skips_deletes: bool
    loses: bool
    tuning: tuple[str, ...] = ()


class Catalog:
    """Where the table is found. Not safe to use from several threads."""

    def __init__(self, name: TableName) -> None:
        self._name, self._tables = name, Tables(name)

    def table(self) -> Table:
        """As it is now.

        :raises SourceUnavailableError: it cannot be read.
        :raises ConfigError: its snapshots have no order.
        """
        try:
            table = self._tables.find()
        except Exception as exc:
            self._tables.forget()
            reason = (str(exc).strip().splitlines() or [type(exc).__name__])[0]
            raise SourceUnavailableError(
                f"{OWNER}: the table {self._name} cannot be read: {reason}",
                hint="See that its catalog and its storage can be reached, and the options that "
                "begin with catalog.",
            ) from exc
        if table is None:
            raise SourceUnavailableError(
                f"{OWNER}: there is no table {self._name}.",
                hint="See that it is the right catalog, or make the table.",
            )
        if table.format_version != 2:
            raise ConfigError(
                f"{OWNER}: the table {self._name} has format version {table.format_version}: only "
                "version 2 is read here.",
                hint="Read it with Spark's own format iceberg.",
            )
        return table


@dataclass(frozen=True)
class IcebergUnits:
    """Reads files of a table. Picklable.

    :param metadata: without the table's snapshots.
    """

    where: str
    metadata: TableMetadata
    io_properties: Mapping[str, str]
    schema: pa.Schema

    def __call__(self, unit: FileScanTask) -> Iterator[Content]:
        path = unit.file.file_path
        try:
            io = load_file_io(dict(self.io_properties), self.metadata.location)
            columns = self.metadata.schema().select(*self.schema.names)
            scan = ArrowScan(self.metadata, io, columns, AlwaysTrue())
            for batch in scan.to_record_batches([unit]):
                arrays = [batch.column(each.name).cast(each.type) for each in self.schema]
                whole = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
                for start in range(0, whole.num_rows, ROWS):
                    yield whole.slice(start, ROWS)
        except FileNotFoundError:
            raise OffsetOutOfRangeError(
                f"{OWNER}: {path} of the table {self.where} is gone: it was removed before its "
                "rows were read.",
                hint="They are lost to this query. Start it with a checkpoint of its own, or keep "
                "snapshots for longer: history.expire.max-snapshot-age-ms.",
            ) from None
        except OSError as exc:
            raise SourceUnavailableError(
                f"{OWNER}: {path} of the table {self.where} cannot be read: {exc}"
            ) from exc


class IcebergReader(HandedReader):
    """The driver's side.

    :param schema: the columns to be read.
    """

    def __init__(self, options: IcebergOptions, schema: pa.Schema, table: Table) -> None:
        super().__init__(options.pace.partitions)
        self.tuningOptions = (*TUNING, *options.tuning)
        self._options, self._schema, self._columns = options, schema, table.schema()
        self._see(table)

    def _see(self, table: Table) -> None:
        """What tasks are told: credentials may be new ones."""
        emptied: dict[str, Any] = {
            name: [] for name in ("snapshots", "snapshot_log", "metadata_log")
        }
        metadata = table.metadata.model_copy(
            update={**emptied, "refs": {}, "current_snapshot_id": None}
        )
        self._units = IcebergUnits(
            str(self._options.name), metadata, task_properties(table), self._schema
        )

    def _look(self) -> Table:
        return Catalog(self._options.name).table()

    def initialOffset(self) -> Offset:
        """:raises ConfigError: the snapshot to begin with is not there."""
        options, table = self._options, self._look()
        table_id, history = str(table.metadata.table_uuid), lineage(table)
        behind = (sequence(history[-1]) if history else table.last_sequence_number) + 1
        if options.start_ms is not None:
            later = [each for each in history if each.timestamp_ms >= options.start_ms]
            at = number_before(history, later[0]) if later else behind
        elif options.start == LATEST:
            at = behind
        elif options.start is not None:
            found = next((each for each in history if each.snapshot_id == options.start), None)
            if found is None:
                raise ConfigError(
                    f"{OWNER}: the table {options.name} has no snapshot {options.start} in its "
                    "history.",
                    hint="It may have expired, or belong to another branch.",
                )
            at = number_before(history, found)
        elif history:
            return TablePosition(table_id, (sequence(history[-1]), 0), is_snapshot=True).offset()
        else:
            at = behind
        return TablePosition(table_id, (at, 0)).offset()

    def partitions(self, start: Offset) -> Sequence[HandedPartition]:
        self._see(self._look())
        return super().partitions(start)

    def handingOut(self, start: Offset, until: Offset | None = None) -> IcebergRun:
        """:raises SourceError: the table is another one by now."""
        position = TablePosition.of(start, OWNER)
        end = None if until is None else TablePosition.of(until, OWNER)
        run = IcebergRun(self._options, position, end, self._columns)
        run.look()
        self._run = run
        return run

    def unit_reader(self) -> OpenUnit:
        return self._units

    def prune(self, columns: Sequence[str]) -> IcebergReader:
        schema = pa.schema([self._schema.field(name) for name in columns])
        return IcebergReader(self._options, schema, self._look())

    def latestOffset(self, start: Offset) -> Offset:
        table = self._look()
        history = lineage(table)
        position = TablePosition.of(start, OWNER)
        newest = sequence(history[-1]) + 1 if history else position.at[0]
        return TablePosition(str(table.metadata.table_uuid), (newest, 0)).offset()

    def hasReached(self, committed: Offset, wanted: Offset) -> bool:
        one, other = TablePosition.of(committed, OWNER), TablePosition.of(wanted, OWNER)
        return one.table == other.table and one.at >= other.at


class IcebergRun(TableRun):
    """Follows the table's snapshots.

    :param columns: the table's, by which a change of them is told.
    """

    def __init__(
        self,
        options: IcebergOptions,
        start: TablePosition,
        until: TablePosition | None,
        columns: Schema,
    ) -> None:
        super().__init__(options.pace, start, until)
        self._options, self._columns = options, columns
        self._catalog = Catalog(options.name)

    def look(self) -> Table:
        """:raises SourceError: it is another table, or has other columns."""
        table = self._catalog.table()
        found, where = str(table.metadata.table_uuid), self._options.name
        if found != self._start.table:
            raise SourceChangedError(
                f"{OWNER}: {where} is another table than the one that the checkpoint is of: its id "
                f"is {found}, and was {self._start.table}.",
                hint="It was dropped and made again. Start the query with a checkpoint of its own.",
            )
        if table.schema().as_struct() != self._columns.as_struct():
            raise SourceChangedError(
                f"{OWNER}: the columns of the table {where} have changed.",
                hint="Start the query again: it then has the columns of now. Its checkpoint stays.",
            )
        return table

    def find_snapshot(self, version: int) -> Found:
        where, table = str(self._options.name), self.look()
        snapshot = next((each for each in lineage(table) if sequence(each) == version), None)
        if snapshot is None:
            raise OffsetOutOfRangeError(
                f"{OWNER}: the snapshot of the table {where} with sequence number {version}, which "
                "is read as a whole, has expired.",
                hint="Start the query with a checkpoint of its own.",
            )
        with _readable(where):
            return Found(version, all_files(table, where, snapshot))

    def find_version(self, number: int) -> Found | None:
        where, table, options = str(self._options.name), self.look(), self._options
        try:
            snapshot = next_snapshot(table, where, number)
        except LostError as exc:
            if not options.loses:
                raise
            logger.warning("%s failOnDataLoss is false: the query goes on without", exc.message)
            snapshot = next(each for each in lineage(table) if sequence(each) >= number)
        if snapshot is None:
            return None
        with _readable(where):
            units = due(
                table,
                where,
                snapshot,
                skips_overwrites=options.skips_overwrites,
                skips_deletes=options.skips_deletes,
            )
        return Found(sequence(snapshot), units)


class _readable:
    """Errors of Iceberg's client become the engine's."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, ContinuousError):
            raise SourceUnavailableError(
                f"{OWNER}: the manifests of the table {self._where} cannot be read: {error}",
                hint="See that its storage can be reached.",
            ) from error
