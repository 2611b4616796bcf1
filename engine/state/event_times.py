"""When rows and states are behind the watermark: at the end of their window, or at their time.

All in microseconds. Source: Spark's ``WatermarkSupport``: behind it is what is at it, too.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.expressions.buffers import valid_of
from engine.state.columns import fixed_array, fixed_values

Times = npt.NDArray[np.int64]
NEVER: Final = int(np.iinfo(np.int64).max)
EXPIRES: Final = pa.field("#expires", pa.int64())


def times_of(column: pa.Array, null: int = NEVER) -> Times:
    """Of a column of timestamps, of microseconds, or of windows, of which it is the end.

    :param null: in the place of NULL.
    """
    valid = valid_of(column)
    if pa.types.is_struct(column.type):
        column = column.field(1)
        valid = valid & valid_of(column)
    times = fixed_values(column)
    return times if valid is np.True_ else np.where(valid, times, null)


def microseconds(watermark_ms: int) -> int:
    """A watermark as it is compared with times."""
    return watermark_ms * 1000


def stored(times: Times) -> pa.Array:
    """As :data:`EXPIRES` has them: NULL for never."""
    return fixed_array(pa.int64(), np.ascontiguousarray(times), times != NEVER)
