"""Records whose event time is behind the watermark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.state.contract import EventClock
from engine.state.event_times import microseconds, times_of


def in_time(
    batch: pa.RecordBatch, event_time: int | None, clock: EventClock, stage: str
) -> pa.RecordBatch:
    """The batch without its late rows, which are counted. NULL is never late.

    :param event_time: the position of the time; None: no row is late.
    :param stage: the name of the stage that counts them.
    """
    if event_time is None:
        return batch
    is_late = times_of(batch.column(event_time)) <= microseconds(clock.watermark_ms)
    late = int(np.count_nonzero(is_late))
    if not late:
        return batch
    clock.count_late(stage, late)
    return batch.filter(pa.array(~is_late))
