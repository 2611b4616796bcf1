"""Sums of decimals by slot, in 160 bits: exact, for more rows than there will ever be.

A sum is four limbs of 32 bits, of which the last has the sign. Each is in 64 bits, so that values
are added limb by limb, and what is carried is carried now and then.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.expressions.buffers import valid_of
from engine.expressions.lists import validity
from engine.state.arrays import grown
from engine.state.columns import Slots

Mask = npt.NDArray[np.bool_]
_BITS: Final = 32
_LOW: Final = (1 << _BITS) - 1
_ROWS_MAX: Final = 1 << 30
"""Limbs have room for so many values before they are carried."""
_SHORT_DIGITS: Final = 18


class WideSums:
    """See the module; 0 at first."""

    def __init__(self) -> None:
        self._limbs = [np.empty(0, np.int64) for _ in range(4)]
        self._rows = 0

    def grow(self, room: int) -> None:
        """Slots are below this number from now on."""
        self._limbs = [grown(limb, room) for limb in self._limbs]

    def clear(self, slots: Slots) -> None:
        """They are 0 again."""
        for limb in self._limbs:
            limb[slots] = 0

    def add(self, slots: Slots, values: pa.Array) -> None:
        """Adds the values that are not NULL, whatever their precision; their scale is that of the
        sums."""
        halves = _halves(values)
        if values.null_count:
            known = valid_of(values)
            slots, halves = slots[known], halves[known]
        self._rows += len(slots)
        if self._rows > _ROWS_MAX:
            _carry(self._limbs)
            self._rows = len(slots)
        low = halves[:, 0]
        np.add.at(self._limbs[0], slots, low & _LOW)
        if values.type.precision <= _SHORT_DIGITS:
            np.add.at(self._limbs[1], slots, low >> _BITS)
            return
        high = halves[:, 1]
        np.add.at(self._limbs[1], slots, (low >> _BITS) & _LOW)
        np.add.at(self._limbs[2], slots, high & _LOW)
        np.add.at(self._limbs[3], slots, high >> _BITS)

    def fits(self, slots: Slots, precision: int) -> Mask:
        """Whether sums have no more digits than this."""
        return self._fit(*self._carried(slots), precision)

    def take(self, slots: Slots, dtype: pa.DataType, valid: Mask) -> pa.Array:
        """The sums as decimals.

        :param dtype: its scale is that of the values.
        :param valid: false where NULL is wanted; so it is where the sum does not fit.
        """
        high, low, top = self._carried(slots)
        halves = np.empty((len(slots), 2), np.int64)
        halves[:, 0], halves[:, 1] = low, high
        known = valid & self._fit(high, low, top, dtype.precision)
        return pa.Array.from_buffers(dtype, len(slots), [validity(known), pa.py_buffer(halves)])

    def _carried(self, slots: Slots) -> tuple[Any, Any, Any]:
        """Two halves of 64 bits, and the last limb."""
        limbs = [limb[slots] for limb in self._limbs]
        _carry(limbs)
        return limbs[2] | (limbs[3] << _BITS), limbs[0] | (limbs[1] << _BITS), limbs[3]

    @staticmethod
    def _fit(high: Any, low: Any, top: Any, precision: int) -> Mask:
        limit = 10**precision
        (most, most_low), (least, least_low) = _split(limit), _split(-limit)
        rest = low.view(np.uint64)
        below = (high < most) | ((high == most) & (rest < most_low))
        above = (high > least) | ((high == least) & (rest > least_low))
        in_128_bits = (top >= -(1 << 31)) & (top < 1 << 31)
        return np.asarray(below & above & in_128_bits)


def _carry(limbs: list[Any]) -> None:
    for index in range(3):
        limbs[index + 1] += limbs[index] >> _BITS
        limbs[index] &= _LOW


def _split(number: int) -> tuple[np.int64, np.uint64]:
    return np.int64(number >> 64), np.uint64(number & ((1 << 64) - 1))


def _halves(values: pa.Array) -> npt.NDArray[np.int64]:
    if len(values) == 0:
        return np.empty((0, 2), np.int64)
    whole = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
    return whole[values.offset : values.offset + len(values)]
