"""HLL sketches of few values: a list of coupons, then a hash table of them.

A coupon is the slot of a value, in 26 bits, and above them what its register is at least.

Source: ``CouponList.java``, ``CouponHashSet.java``, ``AbstractCoupons.java`` of datasketches-java.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from engine.expressions.sketches.hll_registers import BYTES, Registers
from engine.expressions.sketches.memory import bad_argument, bad_state

LIST, SET = 0, 1
"""In byte 7 of what is stored."""
LIST_SIZE: Final = 8
SET_LG_SIZE: Final = 5
_SLOT: Final = 2**26 - 1
CouponEstimate = Callable[[int], float]
"""From the number of coupons, about how many values there were."""


@dataclass
class Coupons:
    """One of few values.

    :param places: its list, or its hash table; 0 is none.
    """

    lg_slots: int
    places: list[int] = field(default_factory=lambda: [0] * LIST_SIZE)
    count: int = 0
    hashed: bool = False

    def coupons(self) -> list[int]:
        """In the order of their places."""
        return [coupon for coupon in self.places if coupon]

    def take(self, coupon: int) -> bool:
        """A coupon; whether it needs more room than it has. What is none counts, too."""
        place = self._find(coupon) if self.hashed else self._search(coupon)
        if coupon and self.places[place] == coupon:
            return False
        self.places[place] = coupon
        self.count += 1
        if not self.hashed:
            return self.count >= LIST_SIZE
        size = len(self.places)
        if 4 * self.count <= 3 * size:
            return False
        if size == 1 << (self.lg_slots - 3):
            return True
        self._hash(size * 2)
        return False

    def grown(self, estimate: CouponEstimate) -> Coupons | Registers:
        """What it becomes if it needs more room."""
        if not self.hashed and self.lg_slots >= 8:
            self._hash(1 << SET_LG_SIZE)
            return self
        registers = Registers.none(self.lg_slots)
        for coupon in self.coupons():
            registers.take(coupon)
        registers.running = estimate(self.count)
        return registers

    def _hash(self, size: int) -> None:
        before, again = self.coupons(), self.hashed
        self.places, self.hashed = [0] * size, True
        for coupon in before:
            place = self._find(coupon)
            if again and self.places[place]:
                raise bad_state("Error: found duplicate.")
            self.places[place] = coupon

    def _search(self, coupon: int) -> int:
        return next(place for place, found in enumerate(self.places) if found in (0, coupon))

    def _find(self, coupon: int) -> int:
        mask = len(self.places) - 1
        place, stride = coupon & mask, (coupon & _SLOT) >> mask.bit_length() | 1
        for _ in self.places:
            if self.places[place] in (0, coupon):
                return place
            place = (place + stride) & mask
        raise bad_argument("Key not found and no empty slots!")

    def copy(self) -> Coupons:
        """Another of the same."""
        return Coupons(self.lg_slots, [*self.places], self.count, self.hashed)

    def to_bytes(self) -> bytes:
        """As it is stored."""
        flags = 0 if self.count else 4
        lg_size = len(self.places).bit_length() - 1
        if self.hashed:
            start = bytes((3, 1, 7, self.lg_slots, lg_size, flags, 0, SET | BYTES))
            start += struct.pack("<i", self.count)
        else:
            mode = LIST | BYTES
            start = bytes((2, 1, 7, self.lg_slots, lg_size, flags, self.count, mode))
        return start + struct.pack(f"<{len(self.places)}I", *self.places)
