"""The driver's side of a table as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from engine.errors import ConfigError
from engine.sinks.delta.table_log import STORAGE
from engine.sources.contract import TUNING_OPTIONS, Offset
from engine.sources.delta.options import DeltaOptions
from engine.sources.delta.run import DeltaRun, check_table
from engine.sources.delta.units import DeltaUnits
from engine.sources.delta.versions import OWNER
from engine.sources.handed.partition_reader import OpenUnit
from engine.sources.handed.reader import HandedReader
from engine.sources.lakes.position import TablePosition

if TYPE_CHECKING:
    from deltalake import DeltaTable

TUNING: Final = (*TUNING_OPTIONS, "startingVersion", "maxFilesPerTrigger", "ignoreDeletes",
                 "ignoreChanges", "skipChangeCommits", "failOnDataLoss")  # fmt: skip
LATEST: Final = "latest"


class DeltaReader(HandedReader):
    """The driver's side.

    :param table_schema: the table's columns, by which a change of them is told.
    """

    def __init__(self, options: DeltaOptions, schema: pa.Schema, table_schema: str) -> None:
        super().__init__(options.partitions)
        self.tuningOptions = (*TUNING, *(f"{STORAGE}{name}" for name in options.storage_options))
        self._options, self._schema, self._table_schema = options, schema, table_schema

    def initialOffset(self) -> Offset:
        options, table = self._options, self._options.table()
        table_id, latest = str(table.metadata().id), table.version()
        if options.start_ms is not None:
            at = (_version_of_time(table, options.start_ms), 0)
        elif options.start == LATEST:
            at = (latest + 1, 0)
        elif options.start is not None:
            at = (int(options.start), 0)
        else:
            return TablePosition(table_id, (latest, 0), is_snapshot=True).offset()
        return TablePosition(table_id, at).offset()

    def handingOut(self, start: Offset, until: Offset | None = None) -> DeltaRun:
        """:raises SourceError: the table is another one by now, or cannot be read here."""
        table = self._options.table()
        position = TablePosition.of(start, OWNER)
        check_table(self._options, table, position.table, self._table_schema)
        end = None if until is None else TablePosition.of(until, OWNER)
        self._run = DeltaRun(self._options, position, end, table.version(), self._table_schema)
        return self._run

    def unit_reader(self) -> OpenUnit:
        return DeltaUnits(self._options.place, self._schema)

    def prune(self, columns: Sequence[str]) -> DeltaReader:
        schema = pa.schema([self._schema.field(name) for name in columns])
        return DeltaReader(self._options, schema, self._table_schema)

    def latestOffset(self, start: Offset) -> Offset:
        table = self._options.table()
        return TablePosition(str(table.metadata().id), (table.version() + 1, 0)).offset()

    def hasReached(self, committed: Offset, wanted: Offset) -> bool:
        one, other = TablePosition.of(committed, OWNER), TablePosition.of(wanted, OWNER)
        return one.table == other.table and one.at >= other.at


def _version_of_time(table: DeltaTable, start_ms: int) -> int:
    """The first version of this time or later; the next one if there is none.

    :raises ConfigError: it is not known.
    """
    history = table.history()
    if not history:
        raise ConfigError(
            f"{OWNER}: the option startingTimestamp needs the times of versions, and Delta's "
            f"client finds no history of the table {table.table_uri}.",
            hint="It finds none in a local folder whose path has # or ?. Set startingVersion.",
        )
    later = [
        int(each["version"]) for each in history if int(each.get("timestamp") or 0) >= start_ms
    ]
    return min(later, default=table.version() + 1)
