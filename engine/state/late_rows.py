"""Records whose event time is behind the watermark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.state.contract import EventClock
from engine.state.event_times import microseconds, times_of


def in_time(
    batch: pa.RecordBatch, event_time: int | None, clock: EventClock, stage: str
) -> pa.RecordBatch:
    """The batch without its late rows, of which the clock is told. NULL is never late.

    :param event_time: the position of their times, or of windows; None: no row is late.
    :param stage: the name of the stage that leaves them out.
    """
    if event_time is None or not batch.num_rows:
        return batch
    times = times_of(batch.column(event_time))
    is_in_time = times > microseconds(clock.watermark_ms)
    if is_in_time.all():
        return batch
    late = np.flatnonzero(~is_in_time)
    clock.leave_out(stage, len(late), lambda: batch.take(pa.array(late)))
    return batch.take(pa.array(np.flatnonzero(is_in_time)))
