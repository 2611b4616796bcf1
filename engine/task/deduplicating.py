"""The first row of each key: ``dropDuplicates``, ``dropDuplicatesWithinWatermark``.

A key is forgotten when the watermark passes its event time, if that is one of its columns; when it
passes the time of its first row and the delay behind it; or never. Whatever has been passed already
when a row comes is late, and left out before keys are looked at.

Source: Spark's ``StreamingDeduplicateExec``, ``StreamingDeduplicateWithinWatermarkExec``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from engine.expressions.logic.ranks import normalized
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import Deduplicate
from engine.state.arrays import grown
from engine.state.columns import Slots
from engine.state.contract import GONE, GROUP, ROWS_AT_ONCE, EventClock, StatefulStage, StateTable
from engine.state.event_times import EXPIRES, NEVER, Times, microseconds, stored, times_of
from engine.state.keyed_slots import KeyedSlots
from engine.state.late_rows import in_time
from engine.state.portions import in_portions

_TABLE: Final = "keys"


class DeduplicateStage(StatefulStage):
    """See the module.

    :param groups: how many key groups the query has.
    """

    def __init__(self, step: Deduplicate, clock: EventClock, groups: int) -> None:
        self.name = step.name
        self._step, self._clock, self._groups = step, clock, groups
        fields = [step.schema.field(key) for key in step.keys]
        self._forgets = step.within_us is not None or step.event_time in step.keys
        if self._forgets:
            schema = pa.schema([*fields, EXPIRES])
            self._table = StateTable(_TABLE, schema, len(fields), len(fields))
        else:
            self._table = StateTable(_TABLE, pa.schema(fields), len(fields))
        self._keys = KeyedSlots([field.type for field in fields])
        self._expires = np.empty(0, np.int64)  # by slot; NEVER where there is no key
        self._changed = np.empty(0, np.bool_)
        self._closes_us = NEVER  # no key does so before
        self._grow()

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return (self._table,)

    @property
    def row_count(self) -> int:
        return len(self._keys)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch is IDLE:
                yield batch
                continue
            first = self._first_rows(in_time(batch, self._step.event_time, self._clock, self.name))
            if first.num_rows:
                yield first
        self._forget(microseconds(self._clock.next_watermark_ms))

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        table = tables.get(_TABLE)
        if table is None:
            return
        self._keys.reserve(table.num_rows)
        for batch in table.to_batches():
            columns = batch.columns[2:]  # behind GROUP and GONE
            expires = times_of(columns[-1]) if self._forgets else None
            self._add(columns[: self._table.keys], batch.num_rows, expires)
        self._changed[:] = False

    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        slots = self._keys.slots if whole else np.flatnonzero(self._changed)
        self._changed[:] = False
        for _, rows in in_portions(slots, ROWS_AT_ONCE, self._rows_of):
            yield _TABLE, rows

    def _rows_of(self, slots: Slots) -> pa.Table:
        groups = pa.array(self._keys.groups(slots, self._groups), GROUP.type)
        gone = pa.array(np.zeros(len(slots), np.bool_), GONE.type)
        columns = [groups, gone, *self._keys.keys(slots)]
        if self._forgets:
            columns.append(stored(self._expires[slots]))
        return pa.Table.from_arrays(columns, schema=self._table.stored)

    def _first_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows whose keys have not been seen."""
        if not batch.num_rows:
            return batch
        keys = [normalized(batch.column(key)) for key in self._step.keys]
        first = self._add(keys, batch.num_rows, self._expires_of(batch))
        return batch if len(first) == batch.num_rows else batch.take(pa.array(first))

    def _expires_of(self, batch: pa.RecordBatch) -> Times | None:
        """When the key of each row is forgotten; None: never."""
        if not self._forgets:
            return None
        assert self._step.event_time is not None, "keys are forgotten by it"
        times = batch.column(self._step.event_time)
        if self._step.within_us is None:
            return times_of(times)
        return times_of(times, null=0) + self._step.within_us  # as Spark reads NULL

    def _add(self, keys: Sequence[pa.Array], rows: int, expires: Times | None) -> Slots:
        """Which rows have brought a new key: of several with the same one, the first."""
        slots, first = self._keys.find_or_add(keys, rows)
        if not len(first):
            return first
        self._grow()
        new = slots[first]
        self._changed[new] = True
        if expires is not None:
            self._expires[new] = expires[first]
            self._closes_us = min(self._closes_us, int(expires[first].min()))
        return first

    def _grow(self) -> None:
        room = self._keys.room
        if room > len(self._expires):
            self._expires = grown(self._expires, room, NEVER)
            self._changed = grown(self._changed, room, False)

    def _forget(self, watermark_us: int) -> None:
        if self._closes_us > watermark_us:
            return
        gone = np.flatnonzero(self._expires <= watermark_us)
        self._keys.free(gone)
        self._expires[gone] = NEVER
        self._changed[gone] = False
        self._closes_us = int(self._expires.min())
