"""Folds the rows that pass a place of the pipeline, epoch by epoch: ``df.observe``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from engine.expressions.row_context import Rows
from engine.pipeline import aggregates
from engine.pipeline.pipeline import Observe

Arguments = Callable[[Rows], list[pa.Array]]


class Observation:
    """One step, compiled, and its states.

    A batch counts when all steps behind have taken it: one that a step fails on is run again in
    parts, without its bad rows.

    :param arguments: computes those of each aggregate.
    """

    def __init__(self, step: Observe, arguments: Sequence[Arguments]) -> None:
        self.name = step.name
        self._folds = list(zip(step.aggregates, arguments, strict=True))
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Forget all rows."""
        self.states = tuple(aggregates.initial(aggregate) for aggregate, _ in self._folds)
        self._next = self.states

    def begin_batch(self) -> None:
        """Forget those that were not kept."""
        self._next = self.states

    def keep(self) -> None:
        """The rows since :meth:`begin_batch` count."""
        self.states = self._next

    def __call__(self, rows: Rows) -> Rows:
        """Fold these rows."""
        self._next = tuple(
            aggregates.updated(aggregate, state, arguments(rows), rows.num_rows)
            for (aggregate, arguments), state in zip(self._folds, self._next, strict=True)
        )
        return rows
