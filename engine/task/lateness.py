"""Rows that the watermark has passed before they came."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.state.contract import EventClock
from engine.state.event_times import microseconds, times_of


def in_time(
    batch: pa.RecordBatch, event_time: int | None, clock: EventClock, stage: str
) -> pa.RecordBatch:
    """The rows that are not late; the others are counted. NULL never is late.

    :param event_time: the position of a time or of a window; None: no row is late.
    :param stage: the name of the stage that counts.
    """
    if event_time is None or not batch.num_rows:
        return batch
    in_time = times_of(batch.column(event_time)) > microseconds(clock.watermark_ms)
    late = batch.num_rows - int(np.count_nonzero(in_time))
    if not late:
        return batch
    clock.count_late(stage, late)
    return batch.filter(pa.array(in_time))
