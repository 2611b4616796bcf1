"""Follows a table's snapshots."""

from __future__ import annotations

import logging
from typing import Any, Final

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from engine.errors import (
    ContinuousError,
    OffsetOutOfRangeError,
    SourceChangedError,
    SourceUnavailableError,
)
from engine.sources.iceberg.options import Catalog, IcebergOptions
from engine.sources.iceberg.snapshots import (
    OWNER,
    LostError,
    all_files,
    due,
    lineage,
    next_snapshot,
    sequence,
)
from engine.sources.lakes.position import TablePosition
from engine.sources.lakes.run import Found, TableRun

logger: Final = logging.getLogger(__name__)


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
        start = self._start if number == self._start.at[0] else None
        after = None if start is None else start.after
        is_begun = start is not None and start.is_begun
        try:
            snapshot = next_snapshot(table, where, number, after=after, is_begun=is_begun)
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
