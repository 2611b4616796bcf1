"""Reads a table and then its changes, on an executor.

A transaction is read as a whole, and so is the snapshot: an epoch ends behind it, or before it. The
slot keeps everything behind the last committed epoch, so whoever comes next begins there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from engine.base.failpoints import reach
from engine.clients.postgres import speaking_postgres
from engine.errors import (
    BadRecordError,
    ConfigError,
    SourceError,
    SourceUnavailableError,
)
from engine.sources.contract import Offset, PartitionReader
from engine.sources.postgres.catalog import Table, check_end
from engine.sources.postgres.options import SourceOptions
from engine.sources.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Change,
    Commit,
    Relation,
    Truncate,
    Values,
    decode,
)
from engine.sources.postgres.replication import Replication, free_slot, lsn_of, lsn_text
from engine.sources.postgres.rows import OWNER, Columns, Row, arrow_type

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 64 << 20
"""Of a batch's values, more or less: a value may be as large as a gigabyte."""
ASK_S: Final = 0.2
"""An idle slot is asked so often how far it has looked."""
POSITION: Final = "lsn"


@dataclass(frozen=True)
class TablePartition:
    """The table, and where to read from.

    :param start: 0: from a snapshot on.
    """

    table: Table
    start: int

    @property
    def name(self) -> str:
        return self.table.shown


class TableReader(PartitionReader):
    """See the module.

    :param until: where to end, exclusive.
    :param is_there: whether the table has a column by now.
    """

    interruptible: ClassVar[bool] = True

    def __init__(
        self,
        options: SourceOptions,
        partition: TablePartition,
        columns: Columns,
        until: int | None,
        is_there: Callable[[str], bool],
    ) -> None:
        self._options, self._table, self._columns = options, partition.table, columns
        self._until, self._is_there = until, is_there
        self._position = self._committed = partition.start
        self._places: list[int | None] = []
        """Of each of the table's columns in the rows that come now."""
        self._transaction: Begin | None = None
        self._rows: list[Row] = []
        self._is_midway = False
        self._asked_s = 0.0
        self._key = [place for place, each in enumerate(columns.table) if each.in_key]
        with self._speaking("cannot be read"):
            self._replication = Replication(options.server)
        self._snapshot: Iterator[Row] | None = None
        if partition.start == 0:
            self._snapshot = self._table_rows()
        elif not self.exhausted:
            try:
                with self._speaking("cannot be read"):
                    self._begin()
            except BaseException:
                self.close()  # nobody else has it yet
                raise

    # -- what the task calls ----------------------------------------------------------------------

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        with self._speaking("cannot be read"):
            if self._snapshot is not None:
                self._is_midway = self._take_rows(self._snapshot)
                if not self._is_midway:
                    self._snapshot = None
            elif not self.exhausted:
                self._receive(timeout_s)
        rows, self._rows = self._rows, []
        return self._batch(rows) if rows else None

    @property
    def offset(self) -> Offset:
        return {POSITION: self._position}

    @property
    def exhausted(self) -> bool:
        return self._until is not None and self._position >= self._until

    @property
    def midway(self) -> bool:
        return self._is_midway

    def committed(self, end: Offset) -> None:
        self._committed = max(self._committed, end[POSITION])
        if self._snapshot is None and not self.exhausted:
            with self._speaking("cannot be told what is committed"):
                self._tell(ask=False)

    def interrupt(self) -> None:
        self._replication.interrupt()

    def close(self) -> None:
        self._replication.close()

    # -- the snapshot -----------------------------------------------------------------------------

    def _take_rows(self, snapshot: Iterator[Row]) -> bool:
        """Those of a batch; whether there may be more."""
        octets = 0
        for row in snapshot:
            self._rows.append(row)
            octets += sum(len(each) for each in row.values if each is not None)
            if len(self._rows) >= BATCH_ROWS or octets >= BATCH_BYTES:
                return True
        return False

    def _table_rows(self) -> Iterator[Row]:
        """All rows; then the position is that of the snapshot."""
        from psycopg.sql import SQL, Identifier

        connection = self._replication.connection
        if self._until is None:
            self._drop_slot()
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        behind = self._until if self._until is not None else self._create_slot()
        assert behind is not None
        names = SQL(", ").join(Identifier(each.name) for each in self._columns.table)
        statement = SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(
            names, Identifier(self._table.schema, self._table.name)
        )
        with connection.cursor().copy(statement) as copy:
            for values in copy.rows():
                texts = [None if each is None else each.encode() for each in values]
                yield Row("snapshot", behind, None, None, texts)
        connection.execute("COMMIT")
        reach("postgres.snapshot")
        self._position = behind
        if not self.exhausted:
            self._begin()

    def _drop_slot(self) -> None:
        """What an attempt has left that has not come to the end of its snapshot: the name is ours,
        for it was not there when the query began."""
        free_slot(self._options.server, self._options.slot)
        with self._options.server.connect() as connection:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) "
                "FROM pg_catalog.pg_replication_slots WHERE slot_name = %s",
                [self._options.slot],
            )

    def _create_slot(self) -> int:
        found = self._replication.connection.execute(
            f'CREATE_REPLICATION_SLOT "{self._options.slot}" LOGICAL pgoutput USE_SNAPSHOT'
        ).fetchone()
        assert found is not None
        return lsn_of(found[1])

    # -- changes ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        # Here, too: another server may have taken the place of the one that the driver has asked,
        # and only this one has to come to the end of an epoch that is run again.
        check_end(self._options, self._replication.end(), max(self._position, self._until or 0))
        self._replication.start(self._options.slot, self._options.publication, self._position)
        self._tell(ask=True)

    def _receive(self, timeout_s: float) -> None:
        """Take what is there, or what comes first."""
        if time.monotonic() - self._asked_s >= ASK_S:
            self._tell(ask=True)
        octets = 0
        while len(self._rows) < BATCH_ROWS and octets < BATCH_BYTES and not self.exhausted:
            found = self._replication.receive(0.0 if self._rows else timeout_s)
            if isinstance(found, bool):
                break
            position, payload = found
            if payload:
                octets += len(payload)
                self._take(payload)
            elif self._transaction is None:
                # Nothing that was committed before it is still to come.
                self._reach(position)
        self._is_midway = self._transaction is not None and bool(self._rows or self._is_midway)

    def _tell(self, *, ask: bool) -> None:
        self._asked_s = time.monotonic()
        self._replication.tell(self._position, self._committed, ask=ask)

    def _reach(self, position: int) -> None:
        if self._until is not None:
            position = min(position, self._until)
        self._position = max(self._position, position)

    def _take(self, payload: bytes) -> None:
        message = decode(payload)
        if isinstance(message, Change):
            if message.oid == self._table.oid:
                self._rows.extend(self._changed(message))
        elif isinstance(message, Begin):
            if self._until is not None and message.commit_lsn >= self._until:
                self._reach(self._until)
            else:
                self._transaction = message
        elif isinstance(message, Commit):
            self._transaction, self._is_midway = None, False
            self._reach(message.end_lsn)
        elif isinstance(message, Relation):
            if message.oid == self._table.oid:
                self._places = self._fitting(message)
        elif isinstance(message, Truncate) and self._table.oid in message.oids:
            self._rows.append(self._row("truncate", [None] * len(self._columns.table)))

    def _changed(self, change: Change) -> Iterator[Row]:
        old = None if change.old is None else self._arranged(change.old)
        if change.new is None:
            assert old is not None
            yield self._row("delete", old)
            return
        new = self._arranged(change.new)
        unchanged = [place for place, value in enumerate(new) if value is UNCHANGED]
        if unchanged and old is not None and change.old_is_whole:
            for place in unchanged:
                new[place] = old[place]
            unchanged = []
        moved = old is not None and any(old[place] != new[place] for place in self._key)
        if old is not None and moved:  # the row of the old key is gone, whoever finds rows by key
            yield self._row("delete", old)
        yield self._row("insert" if moved else change.op, self._without(new, unchanged), unchanged)

    def _arranged(self, values: Values) -> list[Any]:
        """In the order of the table as the query knows it."""
        return [None if place is None else values[place] for place in self._places]

    def _without(self, values: list[Any], unchanged: Sequence[int]) -> list[Any]:
        if unchanged and not self._options.takes_unavailable:
            names = ", ".join(self._columns.table[place].name for place in unchanged)
            raise ConfigError(
                self._says(
                    f"has not sent the values of {names} that an update has left as they were."
                ),
                hint=f"ALTER TABLE {self._table.shown} REPLICA IDENTITY FULL, for what comes from "
                'then on; and set option("unavailableValues", "null") for what came before.',
            )
        return [None if value is UNCHANGED else value for value in values]

    def _row(self, op: str, values: Sequence[Any], unchanged: Sequence[int] = ()) -> Row:
        begin = self._transaction
        if begin is None:
            raise SourceError(self._says("has sent a change outside of a transaction."))
        names = [self._columns.table[place].name for place in unchanged]
        return Row(op, begin.commit_lsn, begin.xid, begin.at_us, values, names)

    def _fitting(self, relation: Relation) -> list[int | None]:
        """Where the query's columns are in the rows from here on.

        :raises ConfigError: one is gone, or is of another type.
        """
        there = {each.name: (place, each) for place, each in enumerate(relation.columns)}
        places: list[int | None] = []
        for column in self._columns.table:
            place, found = there.get(column.name, (None, None))
            if found is None and not self._is_there(column.name):
                raise self._changed_table(f"has no column {column.name} any more")
            if found is not None and arrow_type(found.type_oid, found.type_modifier) != column.type:
                raise self._changed_table(f"has another type of column {column.name}")
            places.append(place)
        return places

    def _changed_table(self, how: str) -> ConfigError:
        return ConfigError(
            self._says(f"behind {lsn_text(self._position)} the table {self._table.shown} {how}."),
            hint="Start the query again from the same checkpoint: it reads the table's columns "
            "anew. Rows of before that have others then cannot be read: drain the query before "
            "you change the table.",
        )

    # -- batches ----------------------------------------------------------------------------------

    def _batch(self, rows: Sequence[Row]) -> pa.RecordBatch | None:
        try:
            return self._columns.batch(rows)
        except (pa.ArrowException, ValueError):
            good = [row for row in rows if self._is_good(row)]
        return self._columns.batch(good) if good else None

    def _is_good(self, row: Row) -> bool:
        try:
            self._columns.batch([row])
        except (pa.ArrowException, ValueError) as exc:
            error = BadRecordError(
                self._says(f"a row of {self._table.shown} has a value without a place: {exc}."),
                record=repr([each and each.decode() for each in row.values]),
                offset=self.offset,
            )
            if self.on_bad_record is None:
                raise error from exc
            self.on_bad_record(error)
            return False
        return True

    @contextmanager
    def _speaking(self, what: str) -> Iterator[None]:
        with speaking_postgres(SourceUnavailableError, SourceError, self._says(what)):
            yield

    def _says(self, what: str) -> str:
        return f"{OWNER}: PostgreSQL at {self._options.server.name}: {what}"
