"""The driver's side of the PostgreSQL source: publication and slot, and whether the slot still has
what is to be read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from engine.clients.postgres import speaking_postgres
from engine.errors import ConfigError, SourceError, SourceUnavailableError
from engine.sources.contract import (
    TUNING_OPTIONS,
    DataSourceContinuousReader,
    Offset,
    PartitionReader,
)
from engine.sources.postgres.catalog import Catalog, Table
from engine.sources.postgres.options import SourceOptions
from engine.sources.postgres.partition_reader import POSITION, TablePartition, TableReader
from engine.sources.postgres.rows import OWNER, Columns

T = TypeVar("T")
LOOK_S: Final = 3.0
"""The server is asked so often whether slot and publication are there, and where its log ends."""


class PostgresReader(DataSourceContinuousReader):
    """See :mod:`engine.sources.postgres.data_source`."""

    recordColumns = ("_lsn",)
    keepsCommitted = False

    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        self._options, self._columns = options, columns
        self.tuningOptions = (
            *TUNING_OPTIONS, *("startingPosition", "createIfMissing", "unavailableValues"),
            *options.server.tuning,
        )  # fmt: skip
        self._table: Table | None = None
        self._end: Offset | None = None
        self._next_look_s = 0.0

    def __reduce__(self) -> Any:
        return type(self), (self._options, self._columns)  # what was seen is the driver's

    def initialOffset(self) -> Offset:
        return self._ask(self._initial)

    def _initial(self, catalog: Catalog) -> Offset:
        options, table = self._options, catalog.table()
        catalog.check(table)
        if options.begins_with_snapshot:
            catalog.check_rows(table)
        slot = catalog.slot()
        if slot is not None and options.begins_with_snapshot:
            raise ConfigError(
                f"{OWNER}: PostgreSQL at {options.server.name} has a slot {options.slot} already, "
                "and a snapshot begins with a new one.",
                hint="Choose another name, or drop it if nobody needs it any more: SELECT "
                f"pg_drop_replication_slot('{options.slot}'). To begin where it stands, set "
                'option("startingPosition", "latest").',
            )
        catalog.publish(table)
        catalog.check_published(table, self._columns.names)
        if slot is None and not options.creates:
            raise ConfigError(
                f"{OWNER}: PostgreSQL at {options.server.name} has no slot {options.slot}.",
                hint=f"SELECT pg_create_logical_replication_slot('{options.slot}', 'pgoutput'), "
                'and set option("startingPosition", "latest").',
            )
        if options.begins_with_snapshot:
            return {POSITION: 0}
        return {POSITION: catalog.create_slot() if slot is None else slot.confirmed}

    def partitions(self, start: Offset) -> Sequence[TablePartition]:
        position = _position(start)
        return self._ask(lambda catalog: self._partitions(catalog, position))

    def _partitions(self, catalog: Catalog, position: int) -> Sequence[TablePartition]:
        table = catalog.table()
        catalog.check(table)
        catalog.check_published(table, self._columns.names)
        if position:
            catalog.check_slot(position)
        else:
            catalog.check_rows(table)
        types = {each.name: each.type for each in table.columns}
        for column in self._columns.table:
            if column.name in types and types[column.name] != column.type:
                raise ConfigError(
                    f"{OWNER}: column {column.name} of {table.shown} has another type than when "
                    "the query was made.",
                    hint="Make the query anew.",
                )
        self._table = table
        return [TablePartition(table, position)]

    def needsReconfiguration(self) -> bool:
        """Never; but that the slot is lost, or the table no longer published, is told here.

        :raises ContinuousError: that is so.
        """
        if time.monotonic() < self._next_look_s:
            return False
        self._next_look_s = time.monotonic() + LOOK_S
        try:
            self._ask(self._look)
        except SourceUnavailableError:  # the task meets it as well
            self._next_look_s = time.monotonic() + LOOK_S
        return False

    def _look(self, catalog: Catalog) -> None:
        table = catalog.table()
        if self._table is not None and table.oid != self._table.oid:
            raise ConfigError(
                f"{OWNER}: the table {table.shown} was dropped and made again.",
                hint="Start a query with a checkpoint of its own.",
            )
        catalog.check_published(table, self._columns.names)
        slot = catalog.slot()
        if slot is not None and slot.is_lost:
            catalog.check_slot(slot.confirmed)
        self._end = {POSITION: catalog.end()}

    def open(self, partition: TablePartition, until: Offset | None = None) -> PartitionReader:
        return TableReader(
            self._options,
            partition,
            self._columns,
            None if until is None else _position(until),
            self._has_column,
        )

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        (offset,) = offsets
        return offset

    def latestOffset(self, start: Offset) -> Offset:
        self._end = {POSITION: self._ask(lambda catalog: catalog.end())}
        return self._end

    def knownEnd(self) -> Offset | None:
        return self._end

    def prune(self, columns: Sequence[str]) -> PostgresReader | None:
        return PostgresReader(self._options, Columns(tuple(columns), self._columns.table))

    def _has_column(self, name: str) -> bool:
        def ask(catalog: Catalog) -> bool:
            table = catalog.table()
            catalog.check_published(table, self._columns.names)
            return name in {each.name for each in table.columns}

        return self._ask(ask)

    def _ask(self, question: Callable[[Catalog], T]) -> T:
        """Of any thread: each asks over a connection of its own."""
        with self._speaking(), self._options.server.connect() as connection:
            return question(Catalog(connection, self._options))

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        what = f"{OWNER}: PostgreSQL at {self._options.server.name} cannot be asked"
        with speaking_postgres(SourceUnavailableError, SourceError, what):
            yield


def _position(offset: Offset) -> int:
    if isinstance(offset, dict) and offset.keys() == {POSITION}:
        position = offset[POSITION]
        if isinstance(position, int) and not isinstance(position, bool) and position >= 0:
            return position
    raise SourceError(
        f"The offset {offset!r} is not one of {OWNER}.", hint='It looks like {"lsn":23934792}.'
    )
