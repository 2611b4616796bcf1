"""How far event time has come in the rows that pass a ``withWatermark``, epoch by epoch."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.row_context import Rows
from engine.pipeline.pipeline import Watermark


class EventTimes:
    """One step, compiled. As with an :class:`~engine.task.observing.Observation`, a batch counts
    when all steps behind have taken it.

    :ivar number: of the watermark among all of the query.
    :ivar newest_us: the largest event time of the epoch, in microseconds; None if there is none.
    """

    def __init__(self, step: Watermark) -> None:
        self.number = step.number
        self._ordinal = step.ordinal
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Forget all rows."""
        self.newest_us: int | None = None
        self._next: int | None = None

    def begin_batch(self) -> None:
        """Forget those that were not kept."""
        self._next = self.newest_us

    def keep(self) -> None:
        """The rows since :meth:`begin_batch` count."""
        self.newest_us = self._next

    def __call__(self, rows: Rows) -> Rows:
        """Look at these rows."""
        times = rows.column(self._ordinal)
        if pa.types.is_struct(times.type):  # a window: as Spark, by its end
            times = pc.struct_field(times, "end")
        newest = pc.max(times)
        if newest.is_valid:
            micros = newest.cast(pa.timestamp("us", newest.type.tz)).value
            self._next = micros if self._next is None else max(self._next, micros)
        return rows
