"""Records whose event time is behind the watermark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.state.contract import EventClock
from engine.state.event_times import microseconds, times_of


def rows_in_time(column: pa.Array, clock: EventClock, stage: str) -> pa.Array | None:
    """The positions of the rows that are not late; the others are counted. NULL is never late.

    :param column: of their times, or of windows.
    :param stage: the name of the stage that counts them.
    :return: None: no row is late.
    """
    times, watermark = times_of(column), microseconds(clock.watermark_ms)
    if not len(times) or times.min() > watermark:
        return None
    rows = np.flatnonzero(times > watermark)
    clock.count_late(stage, len(times) - len(rows))
    return pa.array(rows)


def in_time(
    batch: pa.RecordBatch, event_time: int | None, clock: EventClock, stage: str
) -> pa.RecordBatch:
    """The batch without its late rows, see :func:`rows_in_time`.

    :param event_time: the position of the time; None: no row is late.
    """
    if event_time is None:
        return batch
    rows = rows_in_time(batch.column(event_time), clock, stage)
    return batch if rows is None else batch.take(rows)
