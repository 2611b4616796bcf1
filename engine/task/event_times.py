"""Event times as the watermark is compared with them: microseconds, of a window its end.

What is at the watermark or before it is late, as in Spark; NULL never is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.state.contract import EventClock

Micros = npt.NDArray[np.int64]
NEVER: Final = int(np.iinfo(np.int64).max)
"""In the place of NULL: no watermark comes so far."""


def micros_of(column: pa.Array, null: int = NEVER) -> Micros:
    """The times of a column.

    :param column: of timestamps, of BIGINT (microseconds), or of windows.
    :param null: in the place of NULL.
    """
    if pa.types.is_struct(column.type):
        column = pc.struct_field(column, "end")
    micros: Micros = pc.fill_null(column.cast(pa.int64()), null).to_numpy()
    return micros


def as_expiry(micros: Micros) -> pa.Array:
    """A column of a state's table: NULL is never."""
    never = micros == NEVER
    return pa.array(micros, pa.int64(), mask=never if never.any() else None)


def in_time(
    batch: pa.RecordBatch, event_time: int | None, clock: EventClock, stage: str
) -> pa.RecordBatch:
    """The batch without its late rows, which are counted.

    :param event_time: the position of the time; None: no row is late.
    :param stage: the name of the stage that counts them.
    """
    if event_time is None:
        return batch
    is_late = micros_of(batch.column(event_time)) <= clock.watermark_ms * 1000
    late = int(np.count_nonzero(is_late))
    if not late:
        return batch
    clock.count_late(stage, late)
    return batch.filter(pa.array(~is_late))
