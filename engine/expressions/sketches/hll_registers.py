"""HLL sketches of many values: a register for each slot.

A value falls into a slot; how many zeros its hash has, from 1, is what its register is at least.

Source: ``HllArray.java``, ``Hll8Array.java``, ``Conversions.java`` of datasketches-java.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.expressions.sketches.memory import SketchError, as_int

REGISTERS: Final = 2
"""In byte 7 of what is stored."""
BYTES: Final = 8
"""There, too: a register is a byte."""
Values = npt.NDArray[np.int16]
_VALUE: Final = 63


@dataclass
class Registers:
    """One of many values.

    :param values: registers: all bits of a stored byte, of which 6 are the value; those
        of 4 bits with the least one added, however large that is.
    :param running: estimate of values whose order is known.
    :param low: sum of 2**-n of registers below 32.
    :param high: of the others.
    :param least: register.
    :param at_least: how many are like it.
    :param bytewise: they have been stored as bytes.
    :param lacking: what is wrong where not all of them were stored.
    """

    lg_slots: int
    values: Values
    running: float = 0.0
    low: float = 0.0
    high: float = 0.0
    least: int = 0
    at_least: int = 0
    out_of_order: bool = False
    bytewise: bool = True
    lacking: SketchError | None = None

    @classmethod
    def none(cls, lg_slots: int) -> Registers:
        """One of no value."""
        slots = 1 << lg_slots
        return cls(lg_slots, np.zeros(slots, np.int16), low=float(slots), at_least=slots)

    def take(self, coupon: int) -> None:
        """A coupon."""
        slot, value = coupon & (len(self.values) - 1), coupon >> 26
        old = int(self.values[slot]) & _VALUE
        if value <= old:
            return
        self.values[slot] = value
        total = self.low + self.high
        self.running += len(self.values) / total if total else math.copysign(math.inf, total)
        for number, sign in ((old, -1.0), (value, 1.0)):
            if number < 32:
                self.low += sign * 2.0**-number
            else:
                self.high += sign * 2.0**-number
        self.at_least = as_int(self.at_least - (old == 0))

    def add_up(self) -> None:
        """Make the sums anew, after a union. As in Java, 1 for a register from 32 on is not taken
        from the sum that has it."""
        values = self.values & _VALUE
        counts = np.bincount(values, minlength=64)
        self.low = _sum(counts[:32]) + float(counts[32:].sum())
        self.high = 0.0
        for value in values[values >= 32].tolist():
            self.high += 2.0**-value - 1.0
        self.least = int(np.flatnonzero(counts)[0])
        self.at_least = int(counts[self.least])

    def merge(self, other: Registers) -> None:
        """Registers of another, with as many slots or more, in their order.

        :raises SketchError: some are lacking.
        """
        if other.bytewise:
            self._fold(other, lambda values, held: np.maximum(_signed(values), _signed(held)))
        else:
            self._fold(other, lambda values, held: np.maximum(values, held & _VALUE))
        self.add_up()
        self.running, self.out_of_order = 0.0, True

    def _fold(self, other: Registers, join: Callable[[Values, Values], Values]) -> None:
        if other.lacking is not None:
            raise other.lacking
        for start in range(0, len(other.values), len(self.values)):
            part = other.values[start : start + len(self.values)]
            self.values[: len(part)] = join(part, self.values[: len(part)]) & 0xFF

    def rebuilt(self, lg_slots: int) -> Registers:
        """Another, of so many slots at most and with the estimate that this has.

        :raises SketchError: some are lacking.
        """
        if self.lg_slots == lg_slots and self.bytewise:
            return replace(self, values=self.values.copy())
        other = Registers.none(lg_slots)
        other._fold(self, lambda values, held: np.maximum(values & _VALUE, held))
        counts = np.bincount(other.values, minlength=64)
        other.low, other.high = _sum(counts[:32]), _sum(np.where(np.arange(64) < 32, 0, counts))
        zeros = self.values if self.lg_slots == lg_slots else other.values
        other.at_least = int((zeros == 0).sum())
        other.running, other.out_of_order = self.running, self.out_of_order
        if self.out_of_order and lg_slots < self.lg_slots:
            other.running = 0.0
        return other

    def to_bytes(self) -> bytes:
        """As it is stored."""
        flags = 16 if self.out_of_order else 0
        start = bytes((10, 1, 7, self.lg_slots, 0, flags, self.least, REGISTERS | BYTES))
        sums = struct.pack("<dddii", self.running, self.low, self.high, self.at_least, 0)
        return start + sums + self.values.astype(np.uint8).tobytes()


def _signed(values: Values) -> Values:
    return values.astype(np.uint8).view(np.int8).astype(np.int16)


def _sum(counts: npt.NDArray[np.int64]) -> float:
    """Of 2**-n, each so many times; it is exact."""
    return float((counts * 2.0 ** -np.arange(float(len(counts)))).sum())
