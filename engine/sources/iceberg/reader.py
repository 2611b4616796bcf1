"""The driver's side of a table as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyiceberg.table import Table

from engine.errors import ConfigError
from engine.sinks.iceberg.catalogs import task_properties
from engine.sources.contract import TUNING_OPTIONS, Offset
from engine.sources.handed.partition_reader import OpenUnit
from engine.sources.handed.reader import HandedReader
from engine.sources.handed.work import HandedPartition
from engine.sources.iceberg.options import Catalog, IcebergOptions
from engine.sources.iceberg.run import IcebergRun
from engine.sources.iceberg.snapshots import OWNER, first_place, lineage, place_before, sequence
from engine.sources.iceberg.units import IcebergUnits
from engine.sources.lakes.position import TablePosition

TUNING: Final = (*TUNING_OPTIONS, "startingSnapshotId", "startingTimestamp", "maxFilesPerTrigger",
                 "skipOverwriteSnapshots", "skipDeleteSnapshots", "failOnDataLoss")  # fmt: skip
LATEST: Final = "latest"


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
        behind: tuple[int, int | None] = (
            (sequence(history[-1]) + 1, None)
            if history
            else first_place(table.last_sequence_number + 1)
        )
        if options.start_ms is not None:
            later = [each for each in history if each.timestamp_ms >= options.start_ms]
            at = place_before(history, later[0]) if later else behind
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
            at = place_before(history, found)
        elif history:
            return TablePosition(table_id, (sequence(history[-1]), 0), is_snapshot=True).offset()
        else:
            at = behind
        number, after = at
        return TablePosition(table_id, (number, 0), after=after).offset()

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
