"""Many rows, taken some at a time: no more than fit the memory, and an array of Arrow's.

Arrow counts the bytes of texts with 32 bits, so how many rows fit depends on how wide they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.errors import StateTooLargeError

Item = TypeVar("Item")
Taken = TypeVar("Taken", pa.Array, pa.RecordBatch, pa.Table)
Slots = npt.NDArray[np.int64]
BYTES: Final = 1 << 26
"""A portion has about so many at most."""
_FIRST: Final = 1 << 12
_FIRST_OBJECTS: Final = 1 << 6
_GROWTH: Final = 4
_TOO_LARGE: Final = (StateTooLargeError, pa.ArrowInvalid, pa.ArrowCapacityError)


def in_portions(
    slots: Slots, rows_max: int, take: Callable[[Slots], Taken]
) -> Iterator[tuple[Slots, Taken]]:
    """Some slots, and what ``take`` returns for them; in their order.

    :param rows_max: so many at most; fewer of rows that are wide, and of what does not fit a half.
    """
    start, rows = 0, _Rows[Taken](_FIRST, rows_max)
    while start < len(slots):
        some = slots[start : start + rows.count]
        if (taken := rows.taken(take, some)) is not None:
            yield some, taken
            start += len(some)


def portions_of(
    objects: Iterator[Item], rows_max: int, take: Callable[[Sequence[Item]], Taken]
) -> Iterator[Taken]:
    """The same of objects of Python that come one after the other: what ``take`` returns."""
    waiting: list[Item] = []
    rows = _Rows[Taken](_FIRST_OBJECTS, rows_max)
    while True:
        waiting += islice(objects, max(0, rows.count - len(waiting)))
        if not waiting:
            return
        some = waiting[: rows.count]
        if (taken := rows.taken(take, some)) is not None:
            yield taken
            del waiting[: len(some)]


class _Rows(Generic[Taken]):
    """How many rows come next.

    :param first: so many at first.
    :param most: never more.
    """

    def __init__(self, first: int, most: int) -> None:
        self.count = min(first, most)
        self._most = most

    def taken(self, take: Callable[[Any], Taken], some: Any) -> Taken | None:
        """What ``take`` returns for some rows; None: they do not fit, fewer come next."""
        try:
            taken = take(some)
        except _TOO_LARGE:
            if len(some) == 1:
                raise
            self.count = len(some) // 2
            return None
        fitting = len(some) * BYTES // max(taken.nbytes, 1)
        self.count = max(1, min(self._most, _GROWTH * self.count, fitting))
        return taken
