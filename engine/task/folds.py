"""The aggregates of a step over the rows of batches, by slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.expressions.buffers import true_positions
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.fold import Fold
from engine.state.aggregates.functions import fold_of, state_fields
from engine.state.columns import Slots
from engine.state.portions import BYTES
from engine.task.evaluation import columns_of, mask_of

Update = Callable[[Slots, Rows], None]


class Folds:
    """All aggregates of a step.

    :param names: of the columns of their results.
    :ivar fields: of the partial forms, of one aggregate after the other.
    """

    def __init__(
        self, aggregates: Sequence[Aggregate], names: Sequence[str], context: Context
    ) -> None:
        self._folds = [fold_of(aggregate) for aggregate in aggregates]
        self._updates = [_compiled(fold, context) for fold in self._folds]
        parts = [state_fields(each, name) for each, name in zip(aggregates, names, strict=True)]
        self._widths = [len(part) for part in parts]
        self.fields = [field for part in parts for field in part]

    @property
    def rows_max(self) -> int:
        """So many states fit a portion."""
        return max(1, BYTES // max(1, sum(fold.width for fold in self._folds)))

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch, in parts each of whose rows can have a state of its own."""
        yield batch.slice(0, self.rows_max)
        for start in range(self.rows_max, batch.num_rows, self.rows_max):
            yield batch.slice(start, self.rows_max)

    def grow(self, room: int) -> None:
        """Slots are below this number from now on."""
        for fold in self._folds:
            fold.grow(room)

    def clear(self, slots: Slots) -> None:
        """The states of these slots are those of no rows again."""
        for fold in self._folds:
            fold.clear(slots)

    def update(self, slots: Slots, rows: Rows) -> None:
        """Fold rows in.

        :param slots: of each row.
        """
        for update in self._updates:
            update(slots, rows)

    def merge(self, slots: Slots, states: Sequence[pa.Array]) -> None:
        """Fold partial forms in: the columns of :attr:`fields`."""
        start = 0
        for fold, width in zip(self._folds, self._widths, strict=True):
            fold.merge(slots, states[start : start + width])
            start += width

    def states(self, slots: Slots) -> list[pa.Array]:
        """The partial forms of these slots."""
        return [column for fold in self._folds for column in fold.states(slots)]

    def results(self, slots: Slots) -> list[pa.Array]:
        """A column for each aggregate."""
        return [fold.results(slots) for fold in self._folds]


def _compiled(fold: Fold, context: Context) -> Update:
    aggregate = fold.aggregate
    arguments = aggregate.arguments
    if aggregate.function == "Count":  # which looks for NULL only
        arguments = tuple(each for each in arguments if each.nullable)
    compute = columns_of(arguments, context)
    if aggregate.condition is None:
        return lambda slots, rows: fold.update(slots, compute(rows))
    mask = mask_of(aggregate.condition, context)

    def update(slots: Slots, rows: Rows) -> None:
        is_chosen = mask(rows)
        if is_chosen.true_count < rows.num_rows:
            positions = true_positions(is_chosen)
            slots, rows = slots[np.asarray(positions)], rows.taken(positions)
        if rows.num_rows:
            fold.update(slots, compute(rows))

    return update
