"""Many slots, taken some at a time: no more than fit the memory, and an array of Arrow's.

Arrow counts the bytes of texts with 32 bits, so how many rows fit depends on how wide they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.errors import StateTooLargeError

Taken = TypeVar("Taken", pa.Array, pa.RecordBatch, pa.Table)
Slots = npt.NDArray[np.int64]
_BYTES: Final = 1 << 26
_FIRST: Final = 1 << 12
_GROWTH: Final = 4
_TOO_LARGE: Final = (StateTooLargeError, pa.ArrowInvalid, pa.ArrowCapacityError)


def in_portions(
    slots: Slots, rows_max: int, take: Callable[[Slots], Taken]
) -> Iterator[tuple[Slots, Taken]]:
    """Some slots, and what ``take`` returns for them; in their order.

    :param rows_max: so many at most; fewer of rows that are wide, and of what does not fit a half.
    """
    start, rows = 0, min(_FIRST, rows_max)
    while start < len(slots):
        some = slots[start : start + rows]
        try:
            taken = take(some)
        except _TOO_LARGE:
            if len(some) == 1:
                raise
            rows = len(some) // 2
            continue
        yield some, taken
        start += len(some)
        fitting = len(some) * _BYTES // max(taken.nbytes, 1)
        rows = max(1, min(rows_max, _GROWTH * rows, fitting))
