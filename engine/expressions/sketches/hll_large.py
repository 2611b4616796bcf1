"""What does not fit into registers of 4 bits: a hash table of them, see :mod:`hll_bytes`.

It is made here as in the library: what of damaged bytes is found there depends on it.

Source: ``HeapAuxHashMap.java``, ``PreambleUtil.java`` of datasketches-java.
"""

from __future__ import annotations

from typing import Final

from engine.expressions.sketches.memory import (
    Memory,
    as_int,
    bad_argument,
    bad_state,
    index_out_of_bounds,
    negative_size,
)

_LG_SIZES: Final = (0, *[2] * 6, *[3] * 3, *[4] * 2, *[5] * 2, *range(6, 19))
"""By the number of slots, as a power of two."""


class LargeRegisters:
    """Slots and their values. Slot 0 with the value 0 is none, though it takes room.

    :param lg_size: of the table.
    :param slots: of the sketch.
    """

    def __init__(self, lg_size: int, slots: int) -> None:
        self._lg_size, self._slots, self._count = lg_size & 31, slots, 0
        self._places: dict[int, int] = {}

    def add(self, coupon: int) -> None:
        """One more.

        :raises SketchError: it is there.
        """
        slot, value = coupon & (self._slots - 1), coupon >> 26
        place = self._find(slot)
        if self._places.get(place):
            raise bad_state(
                f"Found a slotNo that should not be there: SlotNo: {slot}, Value: {value}"
            )
        self._places[place] = slot | value << 26
        self._count += 1
        if 4 * self._count > 3 << self._lg_size:
            self._grow()

    def get(self, slot: int) -> int:
        """The value of a slot.

        :raises SketchError: it has none.
        """
        if coupon := self._places.get(self._find(slot)):
            return coupon >> 26
        raise bad_state(f"SlotNo not found: {slot}")

    def _grow(self) -> None:
        before = sorted(self._places.items())
        self._places, self._lg_size = {}, self._lg_size + 1
        for _, coupon in before:
            if coupon:
                self._places[self._find(coupon & (self._slots - 1))] = coupon

    def _find(self, slot: int) -> int:
        mask = (1 << self._lg_size) - 1
        place, stride = slot & mask, slot >> self._lg_size | 1
        for _ in range(mask + 1):
            found = self._places.get(place, 0)
            if not found or slot == found & (self._slots - 1):
                return place
            place = (place + stride) & mask
        raise bad_argument("Key not found and no empty slots!")


def read_large(memory: Memory, at: int, lg_slots: int, slots: int) -> LargeRegisters | None:
    """Those that are stored; None if it is said that there are none.

    :param at: where they begin.
    """
    count = memory.int32(36)
    if count <= 0:
        return None
    if memory.unsigned(5) & 8:
        least = lg_size_for(count)
        if lg_slots >= len(_LG_SIZES):
            raise index_out_of_bounds(len(_LG_SIZES))
        lg_size = max(_LG_SIZES[lg_slots], least)
    else:
        lg_size = memory.unsigned(4)
        count = 1 << (lg_size & 31)
    if lg_size & 31 == 31:
        raise negative_size(-(2**31))
    found = LargeRegisters(lg_size, slots)
    for number in range(count):
        coupon = memory.int32(at + 4 * number) & 0xFFFFFFFF
        if coupon or memory.unsigned(5) & 8:
            found.add(coupon)
    return found


def lg_size_for(count: int) -> int:
    """Of a table that does not say it: a quarter of its places is free at least."""
    lg_size = min(max(count - 1, 0).bit_length(), 30)
    lg_size += as_int(4 * count) > as_int(3 << lg_size)
    if lg_size > 30:
        raise bad_argument("Argument 'powerOf2' must be a positive power of 2.")
    return lg_size
