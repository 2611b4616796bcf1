"""``groupBy(...).agg(...)`` over epochs: a state for each key, rows when the output mode says so.

==========  =====================================================================================
append      a key's row when the watermark has passed its event time, as the last rows of an epoch
update      for each batch the keys that it has changed, once, with what they have come to
complete    all keys at the end of each epoch in which any task of the stage has got rows
==========  =====================================================================================

In append and update mode a row whose event time is behind the watermark is late, and a key that is
behind the next one is forgotten. Without keys there is one group, which the first epoch tells of
even if it has got no rows: the count of nothing is 0.

Source: Spark's ``StateStoreSaveExec``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from engine.expressions.datum import to_array
from engine.expressions.logic.ranks import normalized
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows, taken
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import COMPLETE, UPDATE, GroupRows
from engine.state.aggregates.fold import firsts
from engine.state.arrays import grown
from engine.state.columns import Slots
from engine.state.contract import GONE, GROUP, ROWS_AT_ONCE, EventClock, StatefulStage, StateTable
from engine.state.event_times import EXPIRES, NEVER, microseconds, stored, times_of
from engine.state.keyed_slots import KeyedSlots
from engine.state.late_rows import in_time
from engine.state.portions import in_portions
from engine.task.column_batches import as_batch
from engine.task.folds import Folds

ROWS_MAX = 1 << 16
"""Of a batch that is returned at the end of an epoch."""
_TABLE = "groups"


def grouping_stage(
    step: GroupRows, clock: EventClock, context: Context, groups: int
) -> StatefulStage:
    """The step, compiled.

    :param groups: how many key groups the query has.
    """
    return Grouping(step, clock, context, groups)


class Grouping(StatefulStage):
    """See the module."""

    def __init__(self, step: GroupRows, clock: EventClock, context: Context, groups: int) -> None:
        self.name = step.name
        self._step, self._clock, self._groups = step, clock, groups
        width = len(step.keys)
        fields = list(step.schema)
        self._folds = Folds(step.aggregates, [each.name for each in fields[width:]], context)
        self._keys = KeyedSlots([each.type for each in fields[:width]])
        self._expires = np.empty(0, np.int64)
        self._changed = np.empty(0, np.bool_)
        self._closes_us = NEVER  # no key does so before
        self._event_time = None if step.output_mode == COMPLETE else step.event_time
        schema = pa.schema([*fields[:width], *self._folds.fields])
        if self._event_time is None:
            self._table = StateTable(_TABLE, schema, width)
        else:
            self._table = StateTable(_TABLE, schema.append(EXPIRES), width, len(schema))
        self._grow()
        self._is_untold = width == 0
        if width == 0:
            self._find_or_add([], 1)

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return (self._table,)

    @property
    def row_count(self) -> int:
        return len(self._keys)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mode = self._step.output_mode
        for batch in batches:
            if batch is IDLE:
                yield batch
                continue
            columns, slots = self._fold(batch)
            if mode == UPDATE and len(slots):
                self._is_untold = False
                yield self._updated(columns, slots)
        # In complete mode all tasks tell theirs if one has got rows: together they are the whole.
        if self._is_untold or (mode == COMPLETE and self._clock.is_filled):
            self._is_untold = False
            yield from self._told(self._keys.slots)
        if mode != COMPLETE:
            yield from self._closed()

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        table = tables.get(_TABLE)
        if table is None:
            return
        self._is_untold = False
        self._keys.reserve(table.num_rows)
        for batch in table.to_batches():
            columns = batch.columns[2:]  # behind GROUP and GONE
            keys, states = columns[: self._table.keys], columns[self._table.keys :]
            slots = self._find_or_add(keys, batch.num_rows)
            self._folds.merge(slots, states)
        self._changed[:] = False

    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        slots = self._keys.slots if whole else np.flatnonzero(self._changed)
        self._changed[:] = False
        for _, rows in in_portions(slots, ROWS_AT_ONCE, self._rows_of):
            yield _TABLE, rows

    def _rows_of(self, slots: Slots) -> pa.Table:
        groups = pa.array(self._keys.groups(slots, self._groups), GROUP.type)
        gone = pa.array(np.zeros(len(slots), np.bool_), GONE.type)
        columns = [groups, gone, *self._keys.keys(slots), *self._folds.states(slots)]
        if self._event_time is not None:
            columns.append(stored(self._expires[slots]))
        return pa.Table.from_arrays(columns, schema=self._table.stored)

    def _fold(self, batch: pa.RecordBatch) -> tuple[list[pa.Array], Slots]:
        """The keys of the rows that are not late, and their slots."""
        if self._event_time is not None:
            place = self._step.keys[self._event_time]
            batch = in_time(batch, place, self._clock, self.name)
        columns: list[pa.Array] = batch.columns
        rows = batch.num_rows
        keys = [normalized(columns[key]) for key in self._step.keys]
        if rows == 0:
            return keys, np.empty(0, np.int64)
        slots = self._find_or_add(keys, rows)
        if self._step.is_partial:
            self._folds.merge(slots, columns[len(keys) :])
        else:
            self._folds.update(slots, Rows(rows, columns.__getitem__))
        return keys, slots

    def _find_or_add(self, keys: list[pa.Array], rows: int) -> Slots:
        slots, added = self._keys.find_or_add(keys, rows)
        if len(self._changed) < self._keys.room:
            self._grow()
        self._changed[slots] = True
        if len(added) and self._event_time is not None:
            times = times_of(keys[self._event_time])[added]
            self._expires[slots[added]] = times
            self._closes_us = min(self._closes_us, int(times.min()))
        return slots

    def _grow(self) -> None:
        room = self._keys.room
        self._folds.grow(room)
        self._changed = grown(self._changed, room, False)
        self._expires = grown(self._expires, room, NEVER)

    def _updated(self, keys: list[pa.Array], slots: Slots) -> pa.RecordBatch:
        rows = firsts(slots)
        if len(rows) < len(slots):
            positions = pa.array(rows)
            keys, slots = [taken(key, positions) for key in keys], slots[rows]
        return self._batch(keys, slots)

    def _batch(self, keys: list[pa.Array], slots: Slots) -> pa.RecordBatch:
        schema = self._step.schema
        columns = [*keys, *self._folds.results(slots)]
        fitting = [
            to_array(column, len(slots), dtype)
            for column, dtype in zip(columns, schema.types, strict=True)
        ]
        return as_batch(fitting, schema, len(slots))

    def _told(self, slots: Slots) -> Iterator[pa.RecordBatch]:
        def told(part: Slots) -> pa.RecordBatch:
            return self._batch(self._keys.keys(part), part)

        for _, batch in in_portions(slots, ROWS_MAX, told):
            yield batch

    def _closed(self) -> Iterator[pa.RecordBatch]:
        """Forgets what the next watermark has passed; in append mode its rows come out."""
        watermark = microseconds(self._clock.next_watermark_ms)
        if watermark < self._closes_us:
            return
        slots = np.flatnonzero(self._expires <= watermark)
        if self._step.output_mode != UPDATE:
            yield from self._told(slots)
        self._keys.free(slots)
        self._folds.clear(slots)
        self._expires[slots] = NEVER
        self._changed[slots] = False
        self._closes_us = int(self._expires.min())
