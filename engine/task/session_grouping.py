"""``groupBy(session_window(...), ...)``: a state for each session of each key.

Each row begins a session of its own; sessions of a key that touch become one, whose state is theirs
merged in the order of their starts. Append mode returns a session when the watermark has passed its
end, complete mode all of them at the end of each epoch in which any task has got rows. Spark has
no update mode here.

Source: Spark's ``SessionWindowStateStoreSaveExec``, ``MergingSessionsExec``.
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
from engine.pipeline.stateful import COMPLETE, GroupSessions
from engine.state.arrays import grown
from engine.state.columns import Slots, fixed_array, fixed_values
from engine.state.contract import GONE, GROUP, ROWS_AT_ONCE, EventClock, StatefulStage, StateTable
from engine.state.event_times import EXPIRES, NEVER, microseconds, stored
from engine.state.keyed_slots import KeyedSlots
from engine.state.late_rows import in_time
from engine.state.portions import in_portions
from engine.state.sessions import Pieces, Sessions
from engine.task.column_batches import as_batch
from engine.task.folds import Folds
from engine.task.grouping import ROWS_MAX

_TABLE = "sessions"
_START, _END = "session_start", "session_end"


def session_stage(
    step: GroupSessions, clock: EventClock, context: Context, groups: int
) -> StatefulStage:
    """The step, compiled.

    :param groups: how many key groups the query has.
    """
    return SessionGrouping(step, clock, context, groups)


class SessionGrouping(StatefulStage):
    """See the module."""

    def __init__(
        self, step: GroupSessions, clock: EventClock, context: Context, groups: int
    ) -> None:
        self.name = step.name
        self._step, self._clock, self._groups = step, clock, groups
        fields = list(step.schema)
        names = [field.name for field in fields[len(step.places) :]]
        self._folds = Folds(step.aggregates, names, context)
        self._of_rows = Folds(step.aggregates, names, context)
        self._rows_room = 0
        key_fields = [fields[place] for place in step.places[:-1]]
        self._session = fields[step.places[-1]].type
        self._time = self._session.field(0).type
        self._keys = KeyedSlots([field.type for field in key_fields])
        self._sessions = Sessions()
        self._changed = np.empty(0, np.bool_)
        self._gone: list[list[pa.Array]] = []
        self._closes = step.has_watermark and step.output_mode != COMPLETE
        key = [*key_fields, pa.field(_START, self._time)]
        schema = [*key, pa.field(_END, self._time), *self._folds.fields, EXPIRES]
        expires = len(schema) - 1 if self._closes else None
        self._table = StateTable(_TABLE, pa.schema(schema), len(key), expires)
        self._grow()

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return (self._table,)

    @property
    def row_count(self) -> int:
        return len(self._sessions)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch is IDLE:
                yield batch
            else:
                for part in self._folds.parts(batch):
                    self._fold(part)
        if self._step.output_mode == COMPLETE:
            if self._clock.is_filled:
                yield from self._told(self._sessions.slots)
        elif self._closes:
            yield from self._closed()

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        table = tables.get(_TABLE)
        if table is None:
            return
        width = self._table.keys - 1
        self._keys.reserve(table.num_rows)
        for batch in table.to_batches():
            columns = batch.columns[2:]  # behind GROUP and GONE
            owners, _ = self._keys.find_or_add(columns[:width], batch.num_rows)
            self._sessions.grow_keys(self._keys.room)
            starts, ends = fixed_values(columns[width]), fixed_values(columns[width + 1])
            self._folds.merge(self._add(owners, starts, ends), columns[width + 2 : -1])
        self._changed[:] = False

    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        slots = self._sessions.slots if whole else np.flatnonzero(self._changed)
        self._changed[:] = False
        gone, self._gone = ([] if whole else self._gone), []
        for each in gone:  # a later row with the key counts
            yield _TABLE, pa.Table.from_batches([self._rows_of_gone(each)])
        for _, rows in in_portions(slots, ROWS_AT_ONCE, self._rows_of):
            yield _TABLE, pa.Table.from_batches([rows])

    def _rows_of(self, slots: Slots) -> pa.RecordBatch:
        owners, ends = self._sessions.owners[slots], self._sessions.ends[slots]
        groups = pa.array(self._keys.groups(owners, self._groups), GROUP.type)
        gone = pa.array(np.zeros(len(slots), np.bool_), GONE.type)
        expires = ends if self._table.expires is not None else np.full(len(ends), NEVER)
        columns = [groups, gone, *self._keys_of(slots), fixed_array(self._time, ends)]
        columns += [*self._folds.states(slots), stored(expires)]
        return as_batch(columns, self._table.stored, len(slots))

    def _rows_of_gone(self, columns: list[pa.Array]) -> pa.RecordBatch:
        rows = len(columns[0])
        rest = list(self._table.stored.types)[len(columns) + 1 :]
        gone = pa.array(np.ones(rows, np.bool_), GONE.type)
        filled = [columns[0], gone, *columns[1:], *(pa.nulls(rows, dtype) for dtype in rest)]
        return as_batch(filled, self._table.stored, rows)

    def _keys_of(self, slots: Slots) -> list[pa.Array]:
        """The columns of the table's key."""
        starts = fixed_array(self._time, self._sessions.starts[slots])
        return [*self._keys.keys(self._sessions.owners[slots]), starts]

    def _fold(self, batch: pa.RecordBatch) -> None:
        if self._closes:
            batch = in_time(batch, self._step.session, self._clock, self.name)
        columns: list[pa.Array] = batch.columns
        session, rows = columns[self._step.session], batch.num_rows
        if rows == 0:
            return
        keys = [normalized(columns[key]) for key in self._step.keys]
        owners, _ = self._keys.find_or_add(keys, rows)
        self._sessions.grow_keys(self._keys.room)
        starts, ends = (fixed_values(session.field(index)) for index in (0, 1))
        pieces = self._sessions.pieces(owners, starts, ends)
        self._join(pieces, self._states_of_rows(Rows(rows, columns.__getitem__)))

    def _states_of_rows(self, rows: Rows) -> list[pa.Array]:
        """Each row as a session of its own."""
        if self._rows_room < rows.num_rows:
            self._of_rows.grow(rows.num_rows)
            self._rows_room = rows.num_rows
        slots = np.arange(rows.num_rows)
        self._of_rows.update(slots, rows)
        states = self._of_rows.states(slots)
        self._of_rows.clear(slots)
        return states

    def _join(self, pieces: Pieces, of_rows: list[pa.Array]) -> None:
        """Puts pieces together that touch; sessions that nothing touches stay as they are."""
        has_row = np.zeros(pieces.numbers[-1] + 1, np.bool_)
        has_row[pieces.numbers[pieces.rows >= 0]] = True
        touched = has_row[pieces.numbers]
        old = touched & (pieces.slots >= 0)
        slots = pieces.slots[old]
        of_sessions = self._folds.states(slots)
        firsts = pieces.firsts
        starts, ends = pieces.starts[firsts], np.maximum.reduceat(pieces.ends, firsts)
        owners = pieces.owners[firsts]
        self._take_out(slots, starts[pieces.numbers[old]])
        made = np.full(len(firsts), -1)
        made[has_row] = self._add(owners[has_row], starts[has_row], ends[has_row])
        # Where the states of each piece are, sessions first.
        places = np.where(pieces.rows >= 0, pieces.rows + len(slots), np.cumsum(old) - 1)
        positions = pa.array(places[touched])
        states = [
            taken(pa.concat_arrays([left, right]), positions)
            for left, right in zip(of_sessions, of_rows, strict=True)
        ]
        self._folds.merge(made[pieces.numbers[touched]], states)

    def _take_out(self, slots: Slots, new_starts: Slots) -> None:
        """Forgets sessions that become others; the table hears of those that get another start."""
        lost = slots[self._sessions.starts[slots] != new_starts]
        if len(lost):
            groups = self._keys.groups(self._sessions.owners[lost], self._groups)
            self._gone.append([pa.array(groups, GROUP.type), *self._keys_of(lost)])
        if len(slots):
            self._folds.clear(slots)
            self._changed[slots] = False
            self._sessions.remove(slots)

    def _add(self, owners: Slots, starts: Slots, ends: Slots) -> Slots:
        slots = self._sessions.add(owners, starts, ends)
        if len(self._changed) < self._sessions.room:
            self._grow()
        self._changed[slots] = True
        return slots

    def _grow(self) -> None:
        room = self._sessions.room
        self._folds.grow(room)
        self._changed = grown(self._changed, room, False)

    def _told(self, slots: Slots) -> Iterator[pa.RecordBatch]:
        for _, batch in in_portions(slots, ROWS_MAX, self._batch):
            yield batch

    def _batch(self, slots: Slots) -> pa.RecordBatch:
        sessions, schema = self._sessions, self._step.schema
        bounds = [
            fixed_array(self._time, times[slots]) for times in (sessions.starts, sessions.ends)
        ]
        session = pa.StructArray.from_arrays(bounds, fields=list(self._session))
        columns = [*self._keys.keys(sessions.owners[slots]), session]
        ordered = [columns[self._step.places.index(index)] for index in range(len(columns))]
        ordered += self._folds.results(slots)
        fitting = [
            to_array(column, len(slots), dtype)
            for column, dtype in zip(ordered, schema.types, strict=True)
        ]
        return as_batch(fitting, schema, len(slots))

    def _closed(self) -> Iterator[pa.RecordBatch]:
        """Returns and forgets what the next watermark has passed."""
        watermark = microseconds(self._clock.next_watermark_ms)
        slots = np.flatnonzero(self._sessions.ends <= watermark)
        if not len(slots):
            return
        yield from self._told(slots)
        self._folds.clear(slots)
        self._changed[slots] = False
        self._keys.free(self._sessions.remove(slots))
