"""What both kinds of stage do alike: late rows, tables, and where the rows of a key meet."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa

from engine.functions.custom_state.keys import Keys
from engine.functions.invoke import blamed
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import RunCustomState
from engine.state.contract import EventClock, StatefulStage, StateTable
from engine.state.late_rows import in_time

RESULTS_AT_ONCE: Final = 1 << 10
"""Of what is due at the end of an epoch, which may be everything: so many are in memory."""


class Rows(Protocol):
    """Those of one table, in memory."""

    @property
    def table(self) -> StateTable:
        """What a snapshot knows of it."""

    def __len__(self) -> int:
        """How many there are."""

    def restore(self, table: pa.Table) -> None:
        """See :meth:`engine.state.contract.StatefulStage.restore`."""

    def changes(self, *, whole: bool) -> Iterator[pa.Table]:
        """See :meth:`engine.state.contract.StatefulStage.changes`."""


class CustomStateStage(StatefulStage):
    """The user's code with its state, in a task.

    :param called: the user's function or class, for errors.
    """

    def __init__(
        self,
        step: RunCustomState,
        clock: EventClock,
        *,
        called: str,
    ) -> None:
        self.name = step.name
        self._step = step
        self._clock = clock
        self._called = called
        self._keys = Keys([step.input.field(position) for position in step.keys])
        self._rows: Sequence[Rows] = ()

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return tuple(rows.table for rows in self._rows)

    @property
    def row_count(self) -> int:
        return sum(map(len, self._rows))

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        for rows in self._rows:
            if rows.table.name in tables:
                rows.restore(tables[rows.table.name])

    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        for rows in self._rows:
            for table in rows.changes(whole=whole):
                yield rows.table.name, table

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return blamed(self._epoch(batches), self._called)

    def _epoch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self._begin()
        for batch in batches:
            if batch is IDLE:
                yield batch
                continue
            rows = in_time(batch, self._step.event_time, self._clock, self.name)
            if rows.num_rows:
                yield from self._run(rows)
        yield from self._end()

    @abstractmethod
    def _begin(self) -> Iterator[pa.RecordBatch]:
        """Before the first batch of an epoch."""

    @abstractmethod
    def _run(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Call the user's code for each key of a batch."""

    @abstractmethod
    def _end(self) -> Iterator[pa.RecordBatch]:
        """Behind the last batch of an epoch: what is due."""
