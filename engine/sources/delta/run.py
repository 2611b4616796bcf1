"""Follows a table's log."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from engine.errors import OffsetOutOfRangeError, SourceChangedError
from engine.sinks.delta.table_log import has_vectors
from engine.sources.delta.options import DeltaOptions
from engine.sources.delta.units import DeltaUnit
from engine.sources.delta.versions import (
    OWNER,
    TableFile,
    Version,
    read_version,
    snapshot_file,
)
from engine.sources.lakes.position import TablePosition
from engine.sources.lakes.run import Found, Pace, TableRun

logger: Final = logging.getLogger(__name__)


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
