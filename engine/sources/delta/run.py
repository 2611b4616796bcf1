"""Follows a table's log."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from engine.errors import OffsetOutOfRangeError, SourceChangedError, SourceUnavailableError
from engine.sinks.delta.table_log import has_vectors
from engine.sources.delta.losses import first_kept, is_version_lost, newest_version
from engine.sources.delta.options import DeltaOptions
from engine.sources.delta.units import DeltaUnit
from engine.sources.delta.versions import (
    OWNER,
    TableFile,
    Version,
    check_readable,
    read_version,
    snapshot_file,
)
from engine.sources.lakes.position import TablePosition
from engine.sources.lakes.run import Found, Pace, TableRun

if TYPE_CHECKING:
    from deltalake import DeltaTable

logger: Final = logging.getLogger(__name__)
ASK_S: Final = 60.0
"""So often, while the next version is not there, the log is asked how far it has come: it may have
been cleaned up behind that."""


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
        self._options, self._table_schema = options, table_schema
        self._seen = self._newest = latest
        """What the table was when the run began; and its newest version, as far as it is known."""
        self._next_ask_s = monotonic() + ASK_S

    def find_snapshot(self, version: int) -> Found:
        table = self._table_of(version)
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

    def _table_of(self, version: int) -> DeltaTable:
        place = self._options.place
        try:
            return self._options.table(version)
        except SourceUnavailableError as exc:
            if not is_version_lost(place, version):
                raise
            raise OffsetOutOfRangeError(
                f"{OWNER}: version {version} of the table {place.url}, which is read as a whole, "
                "is no longer in its log.",
                hint="Start the query with a checkpoint of its own. To keep versions for longer, "
                "set delta.logRetentionDuration.",
            ) from exc

    def find_version(self, number: int) -> Found | None:
        version = read_version(self._options.place, number)
        if version is None:
            return self._lost(number) if self._has_passed(number) else None
        if version.metadata is not None:
            self._check_metadata(version)
        self._newest = max(self._newest, number)
        return _found(number, version.time_ms, self._due(version))

    def _has_passed(self, number: int) -> bool:
        """Whether the table has gone on from a version that its log does not have.

        :raises SourceUnavailableError: the table is not there.
        :raises SourceChangedError: it is another one.
        """
        if number > self._newest and monotonic() >= self._next_ask_s:
            self._next_ask_s = monotonic() + ASK_S
            newest = newest_version(self._options.place, self._newest)
            if newest < self._newest:
                self._check_same(self._options.table())
            self._newest = max(self._newest, newest)
        return number <= self._newest

    def _check_same(self, table: DeltaTable) -> None:
        options, newest = self._options, table.version()
        check_id(options, table, self._start.table)
        if newest < self._newest:
            raise SourceChangedError(
                f"{OWNER}: the log of the table {options.place.url} ends at version {newest}, and "
                f"had version {self._newest} before: an older state was put in its place.",
                hint="Start the query with a checkpoint of its own.",
            )

    def _lost(self, number: int) -> Found | None:
        """A version that was there and is not any more; None if it is there all the same."""
        options = self._options
        if not is_version_lost(options.place, number):
            return None
        table = options.table()
        self._check_same(table)
        there = first_kept(options.place, number)
        what = (
            f"the versions {number} to {there - 1} are no longer in the log of the table "
            f"{options.place.url}: what they have changed is not known any more"
        )
        if not options.loses:
            raise OffsetOutOfRangeError(
                f"{OWNER}: {what}.",
                hint="Start the query with a checkpoint of its own, or, to go on without them, set "
                "option failOnDataLoss to false. To keep them for longer, set "
                "delta.logRetentionDuration.",
            )
        # They may have changed the table itself.
        check_table(options, table, self._start.table, self._table_schema)
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
        if version.number > self._seen and not same:
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


def check_id(options: DeltaOptions, table: DeltaTable, table_id: str) -> None:
    """:raises SourceChangedError: it is another table than the one of the checkpoint."""
    found = str(table.metadata().id)
    if found != table_id:
        raise SourceChangedError(
            f"{OWNER}: {options.place.url} is another table than the one that the checkpoint is "
            f"of: its id is {found}, and was {table_id}.",
            hint="It was dropped and made again. Start the query with a checkpoint of its own.",
        )


def check_table(options: DeltaOptions, table: DeltaTable, table_id: str, table_schema: str) -> None:
    """:raises SourceChangedError: the table is another one by now, or cannot be read here."""
    check_id(options, table, table_id)
    if table.schema().to_json() != table_schema:
        raise SourceChangedError(
            f"{OWNER}: the columns of the table {options.place.url} have changed.",
            hint="Start the query again: it then has the columns of now. Its checkpoint stays.",
        )
    features = getattr(table.protocol(), "reader_features", None) or ()
    check_readable(options.place, table.metadata().configuration, features)
