"""Folds the rows of a batch that have the same key before they are sent to whoever owns it.

What comes out is always the partial form of the aggregates: the stage behind the exchange knows no
other. Whether rows are put together is a matter of speed alone. It pays for large batches of few
keys; a batch is tried now and then, and while it does not pay, each row goes on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from engine.expressions.logic.ranks import normalized
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows, taken
from engine.pipeline.pipeline import IDLE
from engine.pipeline.stateful import PartGroup
from engine.state.aggregates.fold import firsts
from engine.state.keyed_slots import KeyedSlots
from engine.task.column_batches import as_batch
from engine.task.folds import Folds

ROWS_MIN: Final = 2_000
"""Smaller batches are not worth the search for equal keys."""
_GAIN: Final = 3
"""So many times fewer rows are worth it."""
_PASSED_MAX: Final = 64
"""Batches that are not tried in a row, at most."""
_KEYS_MAX: Final = 1 << 17
"""More are forgotten: their windows have closed, or too many of them are new in each batch."""


class PartialGrouping:
    """A step, compiled: a :data:`~engine.pipeline.pipeline.BatchStream`. Batches without keys, too,
    come out as a row of states."""

    def __init__(self, step: PartGroup, context: Context) -> None:
        self._step = step
        names = [str(index) for index in range(len(step.aggregates))]
        self._folds = Folds(step.aggregates, names, context)
        self._room = 0
        self._types = [step.schema.field(index).type for index in range(len(step.keys))]
        self._keys = KeyedSlots(self._types)
        self._left = self._doubt = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch is IDLE:
                yield batch
                continue
            for part in self._folds.parts(batch):
                if self._is_tried(part.num_rows):
                    yield self._together(part)
                else:
                    yield self._folded(part, np.arange(part.num_rows), self._key_columns(part))

    def _is_tried(self, rows: int) -> bool:
        if not self._step.keys:
            return True
        if rows < ROWS_MIN:
            return False
        self._left -= 1
        return self._left < 0

    def _key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [normalized(batch.column(key)) for key in self._step.keys]

    def _together(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if len(self._keys) > min(_KEYS_MAX, self._folds.rows_max):
            self._keys = KeyedSlots(self._types)
        columns = self._key_columns(batch)
        slots, _ = self._keys.find_or_add(columns, batch.num_rows)
        rows = firsts(slots)
        if len(rows) * _GAIN <= batch.num_rows:
            self._doubt = 0
        else:
            self._left = self._doubt = min(2 * self._doubt + 1, _PASSED_MAX)
        positions = pa.array(rows)
        return self._folded(batch, slots, [taken(each, positions) for each in columns], rows)

    def _folded(
        self,
        batch: pa.RecordBatch,
        slots: np.ndarray,
        keys: list[pa.Array],
        rows: np.ndarray | None = None,
    ) -> pa.RecordBatch:
        """
        :param keys: of the rows that are first of their slot.
        :param rows: which these are; None: all.
        """
        room = max(self._keys.room, batch.num_rows)
        if self._room < room:
            self._folds.grow(room)
            self._room = room
        distinct = slots if rows is None else slots[rows]
        self._folds.update(slots, Rows(batch.num_rows, batch.column))
        columns = [*keys, *self._folds.states(distinct)]
        self._folds.clear(distinct)
        return as_batch(columns, self._step.schema, len(distinct))
