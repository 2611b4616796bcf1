"""Spark's generator of random numbers, from a seed: the same bits, many at once.

A state is 64 bits, and the next one is linear in it: so is the one ``_LANES`` further on, which
tables give for each byte of a state. A draw of so many bits takes the lowest ones of a new state.
Above that it is ``java.util.Random``: two draws are a double, and Marsaglia's polar method makes
two normal numbers of four draws, or throws them away.

Source: Spark's ``XORShiftRandom.scala``; Scala's ``MurmurHash3.bytesHash``; the documentation of
``java.util.Random``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from engine.expressions.numbers import strict_math

_MASK_32: Final = 0xFFFFFFFF
_MASK_64: Final = 0xFFFFFFFFFFFFFFFF
_ARRAY_SEED: Final = 0x3C074A61
_LANES: Final = 256


class XorShiftRandom:
    """Draws go on where the ones before have ended.

    :param seed: any BIGINT; it wraps.
    """

    def __init__(self, seed: int) -> None:
        self._state = _hashed(seed)
        self._second: float | None = None
        """The other normal number of a pair."""

    def ints(self, count: int) -> Any:
        """32 bits each, with a sign."""
        return self._bits(count, 32).astype(np.uint32).view(np.int32)

    def doubles(self, count: int) -> Any:
        """Uniform in [0, 1)."""
        return _doubles(self._states(2 * count))

    def normals(self, count: int) -> Any:
        """Of the standard normal distribution."""
        first = [] if self._second is None or not count else [self._second]
        if first:
            self._second = None
        parts = [np.array(first)]
        missing = count - len(first)
        while missing > 0:
            pairs = self._pairs(-(-missing // 2))
            parts.append(pairs)
            missing -= len(pairs)
        found = np.concatenate(parts)
        if missing < 0:
            self._second = float(found[-1])
        return found[:count]

    def _pairs(self, count: int) -> Any:
        """At most so many pairs; as many attempts are made."""
        uniform = 2.0 * self.doubles(2 * count) - 1.0
        left, right = uniform[::2], uniform[1::2]
        square = left * left + right * right
        kept = (square < 1.0) & (square != 0.0)
        left, right, square = left[kept], right[kept], square[kept]
        factor = np.sqrt(-2.0 * strict_math.log(square) / square)
        return np.stack([left * factor, right * factor], axis=1).ravel()

    def _bits(self, count: int, bits: int) -> Any:
        return self._states(count) & np.uint64((1 << bits) - 1)

    def _states(self, count: int) -> Any:
        """The next so many states."""
        states = np.empty(count, np.uint64)
        state = self._state
        for index in range(min(count, _LANES)):
            state = _next(state)
            states[index] = state
        for start in range(_LANES, count, _LANES):
            before = states[start - _LANES : start][: count - start]
            states[start : start + _LANES] = _further(before)
        if count:
            self._state = int(states[-1])
        return states


def _doubles(states: Any) -> Any:
    high = states[::2] & np.uint64((1 << 26) - 1)
    low = states[1::2] & np.uint64((1 << 27) - 1)
    return ((high << np.uint64(27)) + low).astype(np.float64) * 2.0**-53


def _next(state: int) -> int:
    state ^= state << 21 & _MASK_64
    state ^= state >> 35
    return state ^ (state << 4 & _MASK_64)


def _further(states: Any) -> Any:
    """Each state, ``_LANES`` draws later."""
    result = np.zeros(len(states), np.uint64)
    for byte, table in enumerate(_tables()):
        result ^= table[(states >> np.uint64(8 * byte)) & np.uint64(0xFF)]
    return result


@cache
def _tables() -> Any:
    """For each byte of a state, and each value of it, what it contributes to the state that comes
    ``_LANES`` draws later."""
    tables = np.zeros((8, 256), np.uint64)
    for bit in range(64):
        state = 1 << bit
        for _ in range(_LANES):
            state = _next(state)
        byte, within = divmod(bit, 8)
        has_bit = np.arange(256) >> within & 1 == 1
        tables[byte, has_bit] ^= np.uint64(state)
    return tables


def _hashed(seed: int) -> int:
    """A seed with many bits set, so that seeds that are alike start far from each other."""
    octets = (seed & _MASK_64).to_bytes(8, "big")
    low = _murmur3(octets, _ARRAY_SEED)
    return _murmur3(octets, low) << 32 | low


def _murmur3(octets: bytes, seed: int) -> int:
    """The 32 bits of the standard, of whole words."""
    found = seed
    for start in range(0, len(octets), 4):
        word = int.from_bytes(octets[start : start + 4], "little") * 0xCC9E2D51 & _MASK_32
        found ^= _rotated(word, 15) * 0x1B873593 & _MASK_32
        found = (_rotated(found, 13) * 5 + 0xE6546B64) & _MASK_32
    found ^= len(octets)
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK_32
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK_32
    return found ^ found >> 16


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _MASK_32
