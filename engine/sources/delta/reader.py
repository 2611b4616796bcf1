"""Both sides of a table as a stream: the driver follows its log, tasks read its files."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.errors import (
    OffsetOutOfRangeError,
    SourceChangedError,
    SourceUnavailableError,
)
from engine.sinks.delta.places import Place
from engine.sinks.delta.table_log import STORAGE, has_vectors
from engine.sources.contract import TUNING_OPTIONS, Offset
from engine.sources.delta.versions import (
    OWNER,
    TableFile,
    Version,
    check_readable,
    read_version,
    snapshot_file,
)
from engine.sources.files.file_formats import Content, ParquetFiles
from engine.sources.files.partition_values import constants, with_constants
from engine.sources.handed.partition_reader import OpenUnit
from engine.sources.handed.reader import HandedReader
from engine.sources.lakes.position import TablePosition
from engine.sources.lakes.run import Found, Pace, TableRun

if TYPE_CHECKING:
    from deltalake import DeltaTable

logger: Final = logging.getLogger(__name__)
CHANGE, CHANGE_VERSION, CHANGE_TIME = "_change_type", "_commit_version", "_commit_timestamp"
TUNING: Final = (*TUNING_OPTIONS, "startingVersion", "maxFilesPerTrigger", "ignoreDeletes",
                 "ignoreChanges", "skipChangeCommits", "failOnDataLoss")  # fmt: skip
LATEST: Final = "latest"


@dataclass(frozen=True)
class DeltaOptions:
    """What the user has said.

    :param start: a version, or ``latest``; None for the table as it is, and what comes then.
    :param start_ms: or so: the first version of this time or later, since 1970.
    :param is_feed: the changes of rows are read, and not what was added.
    :param skips: versions that delete or change rows are left out, as a whole.
    :param repeats: of versions that change rows, the files that were written again are read.
    :param drops: versions that only delete rows are left out.
    :param files_max: of an epoch; None: no limit.
    :param loses: what is not there any more is left out, and logged.
    """

    place: Place
    storage_options: Mapping[str, str]
    partitions: int
    poll_s: float
    start: int | str | None
    start_ms: int | None
    is_feed: bool
    skips: bool
    repeats: bool
    drops: bool
    files_max: int | None
    loses: bool

    def table(self, version: int | None = None) -> DeltaTable:
        """The table, as it is or as of a version.

        :raises SourceUnavailableError: it cannot be read.
        """
        from deltalake import DeltaTable

        try:
            return DeltaTable(
                self.place.url, version=version, storage_options=dict(self.storage_options)
            )
        except Exception as exc:
            told = "" if version is None else f" as of version {version}"
            reason = str(exc).strip().splitlines()[0]
            raise SourceUnavailableError(
                f"{OWNER}: the table {self.place.url}{told} cannot be read: {reason}",
                hint="See that its storage can be reached, and the option path and those that "
                "begin with storage.",
            ) from exc


@dataclass(frozen=True)
class DeltaUnit:
    """A file to be read, and the columns that it does not hold."""

    file: TableFile
    version: int
    time_ms: int


class _TableParquet(ParquetFiles):
    def __init__(self, place: Place) -> None:
        self._place = place

    def open(self, path: str) -> Any:
        return self._place.open(path)


@dataclass(frozen=True)
class DeltaUnits:
    """Reads files of a table. Picklable."""

    place: Place
    schema: pa.Schema

    def __call__(self, unit: DeltaUnit) -> Iterator[Content]:
        file, path = unit.file, unit.file.path
        values = {name.lower(): value or None for name, value in file.partition_values}
        told = constants(values, self.schema, path, "UTC")
        for name, value in (
            (CHANGE_VERSION, unit.version),
            (CHANGE_TIME, unit.time_ms * 1000),
            *([(CHANGE, file.change)] if file.change is not None else []),
        ):
            if name in self.schema.names:
                told[name] = pa.scalar(value, self.schema.field(name).type)
        inside = pa.schema([field for field in self.schema if field.name not in told])
        try:
            for content in _TableParquet(self.place).batches(path, inside, told):
                if isinstance(content, pa.RecordBatch):
                    content = with_constants(content, told, self.schema)
                yield content
        except FileNotFoundError:
            raise OffsetOutOfRangeError(
                f"{OWNER}: {path} of version {unit.version} of the table {self.place.url} is gone: "
                "the table was vacuumed before its rows were read.",
                hint="They are lost to this query. Start it with a checkpoint of its own, or keep "
                "files for longer: delta.deletedFileRetentionDuration.",
            ) from None
        except OSError as exc:
            raise SourceUnavailableError(
                f"{OWNER}: {path} of the table {self.place.url} cannot be read: {exc}"
            ) from exc


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
        found = str(table.metadata().id)
        if found != position.table:
            raise SourceChangedError(
                f"{OWNER}: {self._options.place.url} is another table than the one that the "
                f"checkpoint is of: its id is {found}, and was {position.table}.",
                hint="It was dropped and made again. Start the query with a checkpoint of its own.",
            )
        if table.schema().to_json() != self._table_schema:
            raise SourceChangedError(
                f"{OWNER}: the columns of the table {self._options.place.url} have changed.",
                hint="Start the query again: it then has the columns of now. Its checkpoint stays.",
            )
        features = getattr(table.protocol(), "reader_features", None) or ()
        check_readable(self._options.place, table.metadata().configuration, features)
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


class DeltaRun(TableRun):
    """Follows the table's log.

    :param latest: the table's version when the run began.
    """

    def __init__(
        self,
        options: DeltaOptions,
        start: TablePosition,
        until: TablePosition | None,
        latest: int,
        table_schema: str,
    ) -> None:
        super().__init__(Pace(options.partitions, options.poll_s, options.files_max), start, until)
        self._options, self._latest, self._table_schema = options, latest, table_schema

    def find_snapshot(self, version: int) -> Found:
        table = self._options.table(version)
        if has_vectors(table):
            raise SourceChangedError(
                f"{OWNER}: the table {self._options.place.url} has deletion vectors, which are not "
                "read here.",
                hint="Set delta.enableDeletionVectors to false and purge them with REORG TABLE "
                "... APPLY (PURGE), or read the table with Spark's own format delta.",
            )
        files = [snapshot_file(each) for each in pa.table(table.get_add_actions()).to_pylist()]
        info = next(iter(table.history(1)), {})
        time_ms = int(info.get("timestamp") or 0)
        return _found(version, time_ms, sorted(files, key=lambda file: file.path))

    def find_version(self, number: int) -> Found | None:
        place = self._options.place
        version = read_version(place, number)
        if version is None:
            if number > self._latest:
                return None
            return self._lost(number)
        if version.metadata is not None:
            self._check_metadata(version)
        self._latest = max(self._latest, number)
        return _found(number, version.time_ms, self._due(version))

    def _lost(self, number: int) -> Found:
        """A version that was there and is not any more."""
        there = number
        while there <= self._latest and read_version(self._options.place, there) is None:
            there += 1
        what = (
            f"the versions {number} to {there - 1} are no longer in the log of the table "
            f"{self._options.place.url}: what they have changed is not known any more"
        )
        if not self._options.loses:
            raise OffsetOutOfRangeError(
                f"{OWNER}: {what}.",
                hint="Start the query with a checkpoint of its own, or, to go on without them, set "
                "option failOnDataLoss to false. To keep them for longer, set "
                "delta.logRetentionDuration.",
            )
        logger.warning("%s; failOnDataLoss is false: the query goes on without", what)
        return Found(there - 1, ())

    def _check_metadata(self, version: Version) -> None:
        assert version.metadata is not None
        found, table = version.metadata.get("id"), self._start.table
        if found != table:
            raise SourceChangedError(
                f"{OWNER}: version {version.number} makes {self._options.place.url} another table.",
                hint="Start the query with a checkpoint of its own.",
            )
        # What the table is as of now was seen when the query started.
        same = json.loads(version.metadata["schemaString"]) == json.loads(self._table_schema)
        if version.number > self._latest and not same:
            raise SourceChangedError(
                f"{OWNER}: version {version.number} changes the columns of the table "
                f"{self._options.place.url}.",
                hint="Start the query again: it then has the columns of now. Its checkpoint stays.",
            )

    def _due(self, version: Version) -> Sequence[TableFile]:
        options = self._options
        if options.is_feed:
            return version.feed
        if not version.removed:
            return version.added
        if options.skips:
            return ()
        if options.repeats:
            return version.added
        if options.drops and not version.added:
            return ()
        what = "changes" if version.added else "deletes"
        raise SourceChangedError(
            f"{OWNER}: version {version.number} {what} rows of the table {options.place.url}, and "
            "a stream of what is added cannot tell that.",
            hint="Set option skipChangeCommits to true to leave such versions out, "
            + ("ignoreChanges to get changed files again as a whole, " if version.added else
               "ignoreDeletes to leave deletions out, ")
            + "or readChangeFeed to read changes.",
        )  # fmt: skip


def _found(version: int, time_ms: int, files: Sequence[TableFile]) -> Found:
    return Found(version, [DeltaUnit(file, version, time_ms) for file in files])


def _version_of_time(table: DeltaTable, start_ms: int) -> int:
    """The first version of this time or later; the next one if there is none."""
    later = [
        int(each["version"])
        for each in table.history()
        if int(each.get("timestamp") or 0) >= start_ms
    ]
    return min(later, default=table.version() + 1)
