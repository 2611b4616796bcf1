"""What keeps state in a task, and what of it a checkpoint holds.

A stage of a pipeline that remembers something from one record to the next is a
:class:`StatefulStage`: a stream of batches as any other stage, for one epoch at a time, and beside
that the owner of *tables*. A table is rows with a key; it is what a snapshot writes, what a restart
loads, what is split among another number of tasks, and what a person reads. How the stage holds it
in memory is its own affair.

Each batch of a table has two columns in front of those of its schema:

=========  ======  ==================================================================
``#group``  uint16  the key group of the row's key, see :mod:`engine.exchange.key_groups`
``#gone``   bool    the key has no row any more; the columns behind the key are null
=========  ======  ==================================================================

Of several rows with the same key and group the last one counts. A row whose
:attr:`StateTable.expires` is not behind the watermark is gone without being told so: a window that
has closed costs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

GROUP: Final = pa.field("#group", pa.uint16(), False)
GONE: Final = pa.field("#gone", pa.bool_(), False)
KIND: Final = b"kind"
"""In the metadata of a column, where its name and its type do not tell what its values mean."""


@dataclass(frozen=True)
class StateTable:
    """One table of a stage.

    :param name: unique in its stage, and the same after a restart.
    :param schema: the key's columns, then the others.
    :param keys: how many columns the key has; 0: there is one row at most.
    :param expires: the position of a BIGINT column; the row is gone as soon as the watermark, in
        microseconds, is at it or behind it. Null: never. None: no row goes by itself.
    """

    name: str
    schema: pa.Schema
    keys: int
    expires: int | None = None

    @property
    def stored(self) -> pa.Schema:
        """Of the batches that snapshots hold."""
        return pa.schema([GROUP, GONE, *self.schema])


class LateRows(NamedTuple):
    """Rows that a stage has left out.

    :param watermark_ms: the one that they are behind.
    """

    stage: str
    watermark_ms: int
    rows: pa.RecordBatch


@dataclass
class EventClock:
    """What a task knows of time; one object for all of its stages.

    :ivar watermark_ms: that of the present epoch: a record behind it is late. 0 before the first.
    :ivar next_watermark_ms: that of the next epoch. Known when the batches of the present one have
        ended, and not before: what it closes belongs to this epoch, as its last records.
    :ivar opened_ms: when the present epoch began, by the driver's clock: the processing time of all
        of its records, and the same if the epoch has to be run again.
    :ivar next_opened_ms: the same of the next epoch; known when ``next_watermark_ms`` is.
    :ivar is_final: whether the task ends behind the present epoch; known then, too.
    :ivar is_filled: whether any task of the stage got rows in the present epoch; known then, too.
    :ivar due_ms: the earliest processing time at which a stage wants an epoch to have been opened,
        even though nothing comes: it has a timer then. None: there is none.
    :ivar late: how many records of the present epoch were late, by the name of the stage.
    :ivar keeps_late: whether :attr:`late_rows` gets these records.
    :ivar lag_ms: so far behind the query's watermark is the task's own, of which all above is told;
        see :attr:`engine.pipeline.pipeline.Pipeline.watermark_lag_ms`.
    :ivar query_next_watermark_ms: the query's, of the next epoch: what other tasks are told.
    """

    watermark_ms: int = 0
    next_watermark_ms: int = 0
    opened_ms: int = 0
    next_opened_ms: int = 0
    is_final: bool = False
    is_filled: bool = False
    due_ms: int | None = None
    late: dict[str, int] = field(default_factory=dict)
    keeps_late: bool = False
    late_rows: list[LateRows] = field(default_factory=list)
    lag_ms: int = 0
    query_next_watermark_ms: int = 0

    @classmethod
    def starting(
        cls, watermark_ms: int, *, opened_ms: int = 0, lag_ms: int = 0, keeps_late: bool = False
    ) -> EventClock:
        """That of the first epoch.

        :param watermark_ms: the query's.
        """
        own_ms = watermark_ms - lag_ms
        return cls(own_ms, opened_ms=opened_ms, lag_ms=lag_ms, keeps_late=keeps_late)

    def end(
        self, *, next_watermark_ms: int, next_opened_ms: int, final: bool, filled: bool = False
    ) -> None:
        """The batches of the present epoch have ended.

        :param next_watermark_ms: the query's.
        """
        self.query_next_watermark_ms = next_watermark_ms
        self.next_watermark_ms = next_watermark_ms - self.lag_ms
        self.next_opened_ms = next_opened_ms
        self.is_final, self.is_filled = final, filled

    def go_on(self) -> None:
        """The next epoch begins."""
        self.watermark_ms, self.opened_ms = self.next_watermark_ms, self.next_opened_ms
        self.late, self.late_rows, self.due_ms = {}, [], None

    def wake(self, at_ms: int | None) -> None:
        """A stage tells, at the end of each epoch, when its next timer is due."""
        if at_ms is not None:
            self.due_ms = at_ms if self.due_ms is None else min(at_ms, self.due_ms)

    def leave_out(self, stage: str, count: int, rows: Callable[[], pa.RecordBatch]) -> None:
        """So many more records were late.

        :param rows: makes them; they are made if they are kept.
        """
        self.late[stage] = self.late.get(stage, 0) + count
        if self.keeps_late:
            self.late_rows.append(LateRows(stage, self.watermark_ms, rows()))


class StatefulStage(ABC):
    """See the module. Used by one thread.

    :ivar name: unique in the task, and the same after a restart: names its part of a snapshot.
    :ivar dropped: tables that a snapshot of an earlier run may have and nobody wants any more: they
        are not restored.
    """

    name: str
    dropped: frozenset[str] = frozenset()

    @property
    @abstractmethod
    def tables(self) -> tuple[StateTable, ...]:
        """What a snapshot holds."""

    @property
    @abstractmethod
    def row_count(self) -> int:
        """How many rows its tables have now; asked behind each epoch."""

    @abstractmethod
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One epoch. When the batches have ended, what the clock's ``next_watermark_ms`` closes is
        returned, and forgotten. :data:`~engine.pipeline.pipeline.IDLE` may stand among them,
        and is passed on."""

    @abstractmethod
    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        """Called before the first epoch, once for each piece of the state: the rows of each table
        that are there, with the two columns in front, each key once, in any order. A table that a
        snapshot does not have is left out.

        :param of_several: the rows are of several tasks: what a stage has numbered itself may be in
            it once for each of them. The next snapshot is a whole one.
        """

    @abstractmethod
    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        """What has changed since the last call, behind an epoch: rows with the names of their
        tables, some at a time, one table's behind another's. The arrays are the caller's: what the
        next epoch does must not show in them. The caller may stop in between if it asks for all
        rows instead then, and is done before the next epoch begins.

        :param whole: all rows that are there instead, none of them gone.
        """


ROWS_AT_ONCE: Final = 1 << 16
"""Of one table, as :meth:`StatefulStage.changes` returns them."""
