"""The first row of each key: ``dropDuplicates``, ``dropDuplicatesWithinWatermark``.

A key is forgotten when the watermark passes its event time, if that is one of its columns; when it
passes the time of its first row and the delay behind it; or never. Whatever has been passed already
when a row comes is late, and left out before keys are looked at. Keys are equal as Spark groups
them: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0.

Source: Spark's StreamingDeduplicateExec, StreamingDeduplicateWithinWatermarkExec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from engine.exchange.hashing import hash_rows
from engine.exchange.partitioning import groups_of_hashes
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import Deduplicate
from engine.state.columns import column_of, grown
from engine.state.contract import EventClock, StatefulStage, StateTable
from engine.state.slot_table import Slots, SlotTable
from engine.state.event_times import NEVER, Times, stored, times_of
from engine.task.late_rows import in_time

_KEYS: Final = "keys"
_EXPIRES: Final = pa.field("expires", pa.int64())


class DeduplicateStage(StatefulStage):
    """See the module.

    :param groups: how many key groups the query has.
    """

    def __init__(self, step: Deduplicate, clock: EventClock, groups: int) -> None:
        self.name = step.name
        self._step = step
        self._clock = clock
        self._groups = groups
        keys = [step.schema.field(key) for key in step.keys]
        is_key = step.event_time in step.keys
        self._expires = step.within_us is not None or is_key
        schema = pa.schema([*keys, _EXPIRES] if self._expires else keys)
        expires = len(keys) if self._expires else None
        self._table = StateTable(_KEYS, schema, len(keys), expires)
        self._slots = SlotTable()
        self._columns = [column_of(field.type) for field in keys]
        self._until = np.empty(0, np.int64)  # by slot, as what follows
        self._changed = np.empty(0, np.bool_)
        self._soonest = NEVER
        self._grow()

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return (self._table,)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch is IDLE:
                yield batch
                continue
            first = self._first_rows(in_time(batch, self._step.event_time, self._clock, self.name))
            if first.num_rows:
                yield first
        self._forget(self._clock.next_watermark_ms)

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        table = tables.get(_KEYS)
        for batch in () if table is None else table.to_batches():
            keys = batch.columns[2 : 2 + len(self._columns)]
            until = times_of(batch.columns[-1]) if self._expires else None
            self._slots.reserve(batch.num_rows)
            self._add(keys, batch.num_rows, until)
        self._changed[:] = False

    def changes(self, *, whole: bool) -> Mapping[str, pa.Table]:
        slots = self._slots.slots if whole else np.flatnonzero(self._changed)
        self._changed[:] = False
        groups = groups_of_hashes(self._slots.hashes(slots), self._groups)
        columns = [
            pa.array(groups),
            pa.array(np.zeros(len(slots), np.bool_)),
            *(column.take(slots) for column in self._columns),
        ]
        if self._expires:
            columns.append(stored(self._until[slots]))
        return {_KEYS: pa.table(columns, schema=self._table.stored)}

    def _first_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows whose keys have not been seen."""
        keys = [batch.column(key) for key in self._step.keys]
        first = self._add(keys, batch.num_rows, self._until_of(batch))
        return batch if len(first) == batch.num_rows else batch.take(pa.array(first))

    def _until_of(self, batch: pa.RecordBatch) -> Times | None:
        """When each row's key is forgotten; None: never."""
        event_time, within_us = self._step.event_time, self._step.within_us
        if not self._expires or event_time is None:
            return None
        if within_us is None:
            return times_of(batch.column(event_time))
        return times_of(batch.column(event_time), null=0) + within_us  # as Spark reads a NULL

    def _add(self, keys: Sequence[pa.Array], rows: int, until: Times | None) -> Slots:
        """Which rows have brought a new key, of several with the same one the first."""
        slots, first = self._slots.find_or_add(hash_rows(keys, rows))
        if not len(first):
            return first
        self._grow()
        new, places = slots[first], pa.array(first)
        for column, values in zip(self._columns, keys, strict=True):
            column.put(new, values if len(first) == rows else values.take(places))
        self._changed[new] = True
        if until is not None:
            until = until[first]
            self._until[new] = until
            self._soonest = min(self._soonest, int(until.min()))
        return first

    def _grow(self) -> None:
        room = self._slots.room
        if room == len(self._until):
            return
        self._until = grown(self._until, room, NEVER)
        self._changed = grown(self._changed, room, False)
        for column in self._columns:
            column.grow(room)

    def _forget(self, watermark_ms: int) -> None:
        if self._soonest > watermark_ms * 1000:
            return
        gone = np.flatnonzero(self._until <= watermark_ms * 1000)
        self._slots.free(gone)
        for column in self._columns:
            column.clear(gone)
        self._until[gone] = NEVER
        self._changed[gone] = False
        self._soonest = int(self._until.min())
