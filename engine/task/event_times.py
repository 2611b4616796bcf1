"""How far event time has come in the rows that pass a ``withWatermark``, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.few_rows import FewRows
from engine.expressions.row_context import Rows
from engine.pipeline.pipeline import Watermark
from engine.task.inputs import Behind


class EventTimes:
    """One step, compiled. As with an :class:`~engine.task.observing.Observation`, a batch counts
    when all steps behind have taken it.

    :ivar number: of the watermark among all of the query.
    :ivar newest_us: the largest event time of the epoch, in microseconds; None if there is none.
    :ivar partition: the number of the partition that the batch came from; None where rows come from
        other tasks.
    """

    partition: Callable[[], int] | None = None

    def __init__(self, step: Watermark) -> None:
        self.number = step.number
        self._ordinal = step.ordinal
        self._come_to_us: dict[int, int] = {}
        """Of each partition, in this run."""
        self._all_come_to_us: int | None = None
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Forget all rows."""
        self._came_to_us = self._all_come_to_us
        """All partitions, by the end of the epoch before."""
        self.newest_us: int | None = None
        self._of_batch: int | None = None

    def begin_batch(self) -> None:
        """Forget those that were not kept."""
        self._of_batch = None

    def keep(self) -> None:
        """The rows since :meth:`begin_batch` count."""
        newest_us = self._of_batch
        if newest_us is None:
            return
        self.newest_us = _later(self.newest_us, newest_us)
        self._all_come_to_us = _later(self._all_come_to_us, newest_us)
        if self.partition is not None:
            number = self.partition()
            self._come_to_us[number] = _later(self._come_to_us.get(number), newest_us)

    def held_us(self, behind: Mapping[int, Behind]) -> list[int | None]:
        """How far each partition has come that holds the watermark back; None: that is not known.

        :param behind: those that have not caught up.
        """
        held = []
        for number, known_by in behind.items():
            if known_by is Behind.NEWS and self._came_to_us is not None:
                come_to_us = self._come_to_us.get(number)
                self._come_to_us[number] = _later(come_to_us, self._came_to_us)
            come_to_us = None if known_by is Behind.NOTHING else self._come_to_us.get(number)
            if come_to_us is not None or known_by is not Behind.TIME_IF_ANY:
                held.append(come_to_us)
        return held

    def __call__(self, rows: Rows) -> Rows:
        """Look at these rows."""
        few = rows.values(self._ordinal) if isinstance(rows, FewRows) else None
        if few:
            self._of_batch = _later(self._of_batch, max(few))
            return rows
        times = rows.column(self._ordinal)
        if pa.types.is_struct(times.type):  # a window: as Spark, by its end
            times = pc.struct_field(times, "end")
        newest = pc.max(times)
        if newest.is_valid:
            micros = newest.cast(pa.timestamp("us", newest.type.tz)).value
            self._of_batch = _later(self._of_batch, micros)
        return rows


def _later(one_us: int | None, other_us: int) -> int:
    return other_us if one_us is None else max(one_us, other_us)
