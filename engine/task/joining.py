"""Joins two streams: each row with those of the other side that have come before it.

A row waits for later ones until the watermark tells that none can match. Then, if its side is an
outer one, and it has had no match, it is returned with NULL in the other columns, as one of the
epoch's last rows. A row whose own part of the condition is not true never waits. Late rows are left
out. NULL as a key matches nothing.

A semi join returns a row of the left when it has its first match, whichever side comes later.

Source: Spark's StreamingSymmetricHashJoinExec; SPARK-26154, SPARK-49829.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from engine.exchange.hashing import Hashes
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows, taken
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import SIDE, JoinStreams
from engine.state.contract import EventClock, StatefulStage, StateTable
from engine.state.event_times import microseconds
from engine.state.joined_rows import Run
from engine.state.late_rows import in_time
from engine.task.column_batches import as_batch
from engine.task.join_conditions import compile_mask, split
from engine.task.join_side import Flags, Side
from engine.task.pairs import Places, pairs, slices

_LEFT, _RIGHT = 0, 1
_OUTER_LEFT: Final = ("left", "full")
_OUTER_RIGHT: Final = ("right", "full")


class JoinStage(StatefulStage):
    """See the module.

    :param context: for the expressions.
    :param groups: how many key groups the query has.
    """

    def __init__(self, step: JoinStreams, clock: EventClock, context: Context, groups: int) -> None:
        self.name = step.name
        self._step = step
        self._clock = clock
        self._groups = groups
        self._is_semi = step.kind == "semi"
        width = len(step.left.schema)
        of_left, of_right, of_both = split(step.condition, width)
        self._condition = compile_mask(of_both, context)
        self._width = width
        outer = step.kind in _OUTER_LEFT, step.kind in _OUTER_RIGHT
        self._sides = (
            Side(
                "left",
                step.left,
                of_left,
                0,
                context,
                is_outer=outer[_LEFT],
                is_marked=outer[_LEFT] or self._is_semi,
            ),
            Side(
                "right",
                step.right,
                of_right,
                width,
                context,
                is_outer=outer[_RIGHT],
                is_marked=outer[_RIGHT],
            ),
        )

    @property
    def tables(self) -> tuple[StateTable, ...]:
        return tuple(side.table for side in self._sides)

    @property
    def row_count(self) -> int:
        return sum(len(side.waiting) for side in self._sides)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch is IDLE:
                yield batch
            else:
                yield from self._join(int(batch.schema.metadata[SIDE]), batch)
        watermark_us = microseconds(self._clock.next_watermark_ms)
        for number, side in enumerate(self._sides):
            for rows in side.waiting.expire(watermark_us):
                if side.is_outer:
                    yield self._alone(number, rows)

    def restore(self, tables: Mapping[str, pa.Table], *, of_several: bool = False) -> None:
        for side in self._sides:
            if side.table.name in tables:
                side.restore(tables[side.table.name], numbers_anew=of_several)

    def changes(self, *, whole: bool) -> Iterator[tuple[str, pa.Table]]:
        for side in self._sides:
            for rows in side.changes(self._groups, whole=whole):
                yield side.table.name, rows

    def _join(self, number: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        side = self._sides[number]
        batch = in_time(batch, side.spec.event_time, self._clock, self.name)
        may_match = side.may_match(batch)
        if may_match is not None and not may_match.all():
            if side.is_outer:
                yield self._alone(number, batch.filter(pa.array(~may_match)))
            batch = batch.filter(pa.array(may_match))
        if not batch.num_rows:
            return
        hashes, has_key = side.hashes(batch), side.has_key(batch)
        matched = np.zeros(batch.num_rows, np.bool_)
        yield from self._matches(number, batch, hashes, np.flatnonzero(has_key), matched)
        kept = np.ones_like(has_key) if side.is_outer else has_key
        if self._is_semi and number == _LEFT:
            if matched.any():
                yield self._labelled(batch.filter(pa.array(matched)))
            kept = kept & ~matched
        side.keep(batch, hashes, matched, kept)

    def _matches(
        self,
        number: int,
        batch: pa.RecordBatch,
        hashes: Hashes,
        asking: Places,
        matched: Flags,
    ) -> Iterator[pa.RecordBatch]:
        """What the rows of a batch make with those that wait on the other side.

        :param asking: the rows that have a key.
        :param matched: is set for those that have found a match.
        """
        other = self._sides[1 - number]
        wanted = hashes if len(asking) == batch.num_rows else hashes[:, asking]
        for run, starts, counts in other.waiting.find(wanted):
            for start, end in slices(counts):
                rows, places = pairs(starts[start:end], counts[start:end])
                rows += start
                is_match = run.are(places, wanted[:, rows])
                if self._is_semi and number == _RIGHT:
                    is_match &= ~run.matched[places]
                rows, places = asking[rows[is_match]], places[is_match]
                if self._condition is not None and len(rows):
                    is_match = self._condition(self._paired(number, batch, rows, run, places))
                    rows, places = rows[is_match], places[is_match]
                if not len(rows):
                    continue
                matched[rows] = True
                if other.is_marked:
                    run.mark(places)
                if not self._is_semi:
                    yield self._batch(self._paired(number, batch, rows, run, places))
                elif number == _RIGHT:
                    yield self._labelled(run.rows.take(pa.array(np.unique(places))))

    def _paired(
        self, number: int, batch: pa.RecordBatch, rows: Places, run: Run, places: Places
    ) -> Rows:
        """The columns of both sides, the left's first."""
        of_batch, of_run = (batch, pa.array(rows)), (run.rows, pa.array(places))
        left, right = (of_batch, of_run) if number == _LEFT else (of_run, of_batch)
        width = self._width

        def load(index: int) -> pa.Array:
            if index < width:
                return taken(left[0].column(index), left[1])
            return taken(right[0].column(index - width), right[1])

        return Rows(len(rows), load)

    def _batch(self, rows: Rows) -> pa.RecordBatch:
        schema = self._step.schema
        return as_batch([rows.column(i) for i in range(len(schema))], schema, rows.num_rows)

    def _labelled(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return as_batch(rows.columns, self._step.schema, rows.num_rows)

    def _alone(self, number: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows without a match: NULL in the columns of the other side."""
        other = self._sides[1 - number].spec.schema
        nulls = [pa.nulls(rows.num_rows, dtype) for dtype in other.types]
        columns = [*rows.columns, *nulls] if number == _LEFT else [*nulls, *rows.columns]
        return as_batch(columns, self._step.schema, rows.num_rows)
