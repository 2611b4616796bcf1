"""Theta sketches: hashes below a bound, ``theta``.

As in Java, what is not needed is not read: an estimate takes the preamble alone.

Source: ``DirectCompactSketch.java``, ``HeapCompactSketch.java`` of datasketches-java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from engine.expressions.sketches.memory import Longs, Memory, bad_argument, negative_size

if TYPE_CHECKING:
    from typing import TypeAlias

MOST: Final = 2**63 - 1
"""Theta of a sketch that holds all hashes there are."""
SEED_HASH: Final = 37836
"""Of the seed 9001, which is Spark's."""


@dataclass(frozen=True)
class ThetaSketch:
    """One of them.

    :param theta: hashes are below it.
    :param hashes: in the order in which they are stored.
    :param ordered: they ascend.
    :param single: it has one, and there is no other.
    :param bounded: it is empty, and was stored with a theta.
    """

    theta: int
    seed_hash: int
    hashes: Longs
    empty: bool = False
    ordered: bool = True
    single: bool = False
    bounded: bool = False

    @property
    def count(self) -> int:
        """How many hashes there are."""
        return len(self.hashes)

    def compact(self) -> Longs:
        """The hashes."""
        return self.hashes

    def up_to(self, theta: int) -> Longs:
        """The hashes before the first that is not below theta."""
        return _before(theta, self.hashes)

    def in_order(self) -> list[int]:
        """The hashes."""
        hashes: list[int] = self.hashes.tolist()
        return hashes


@dataclass(frozen=True)
class StoredThetaSketch:
    """One that is read when its values are asked for.

    :param longs: the length of its preamble in 8 bytes.
    """

    memory: Memory
    longs: int
    seed_hash: int
    ordered: bool
    single: bool = False

    @property
    def theta(self) -> int:
        """Hashes are below it."""
        return self.memory.int64(16) if self.longs > 2 else MOST

    @property
    def count(self) -> int:
        """How many hashes there are."""
        return 0 if self.longs == 1 else self.memory.int32(8)

    @property
    def empty(self) -> bool:
        """It has seen no value."""
        theta, count = self.theta, self.count
        return count == 0 and theta == MOST

    @property
    def hashes(self) -> Longs:
        """In the order in which they are stored."""
        return self._stored(self.count) if self.count > 0 else np.zeros(0, np.int64)

    def compact(self) -> Longs:
        """Likewise; they have to have a place even if there are none. Without a preamble there are
        none."""
        return self._stored(self.count if self.longs else 0)

    def _stored(self, count: int) -> Longs:
        if count < 0:
            raise negative_size(count)
        return self.memory.longs(self.longs * 8, count)

    def up_to(self, theta: int) -> Longs:
        """The hashes before the first that is not below theta: nothing else is read."""
        stored = self._there()
        found = _before(theta, stored)
        if len(found) == len(stored):
            self._expect(len(stored))
        return found

    def in_order(self) -> list[int]:
        """The hashes, without what is none."""
        stored = self._there()
        self._expect(len(stored))
        hashes: list[int] = stored[(stored != 0) & (stored < self.theta)].tolist()
        return hashes

    def _there(self) -> Longs:
        start = self.longs * 8
        there = min(self.count, (len(self.memory.data) - start) // 8)
        return self.memory.longs(start, there) if there > 0 else np.zeros(0, np.int64)

    def _expect(self, number: int) -> None:
        """There are no more hashes, or the next one is there to be read."""
        if number < self.count:
            self.memory.int64((self.longs + number) * 8)


AnyThetaSketch: TypeAlias = "ThetaSketch | StoredThetaSketch"


def _before(theta: int, hashes: Longs) -> Longs:
    beyond = np.flatnonzero(hashes >= theta)
    hashes = hashes[: beyond[0]] if len(beyond) else hashes
    if len(negative := hashes[hashes < 0]):
        raise bad_argument(f"Data Corruption: hash was negative: Hash: {negative[0]}")
    return hashes
