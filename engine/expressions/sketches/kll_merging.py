"""KLL sketches merged, and written.

Each level may have so many values. What is too full is halved: of two neighbours one goes to the
next level, where it stands for both. Chance decides which, for all pairs of a level alike, so that
bytes are others each time; how many values remain in each level is certain.

Source: ``KllLongsHelper.java``, ``KllHelper.java`` of datasketches-java.
"""

from __future__ import annotations

import secrets
import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.expressions.sketches.kll_sketches import (
    FAMILY,
    KllSketch,
    capacity,
    in_order,
    merged_levels,
)
from engine.expressions.sketches.memory import bad_argument

Items = npt.NDArray[Any]
_EMPTY_FLAG, _SORTED_FLAG, _SINGLE_FLAG = 1, 2, 4
_N_MOST: Final = 2**63 - 1


def merged(left: KllSketch, right: KllSketch) -> KllSketch:
    """Of all values of both, as large as the left one."""
    if right.n == 0:
        return left
    if left.n + right.n > _N_MOST:
        raise bad_argument("long overflow")
    growing = _Growing(left)
    lowest, *higher = right.parts()
    for item in lowest:
        growing.add(item)
    if higher:
        growing.add_levels(higher)
    ends = [right.least], [right.largest]
    if left.n:
        ends = [left.least, right.least], [left.largest, right.largest]
    return KllSketch(
        k=left.k,
        m=left.m,
        n=left.n + right.n,
        k_least=min(left.k_least, right.k_least) if higher else left.k_least,
        sorted=growing.sorted,
        levels=growing.starts(),
        items=np.concatenate(growing.levels),
        least=in_order(np.array(ends[0], left.items.dtype))[0],
        largest=in_order(np.array(ends[1], left.items.dtype))[-1],
    )


def write_kll(sketch: KllSketch) -> bytes:
    """In the compact form."""
    flags = sketch.sorted * _SORTED_FLAG
    if sketch.n == 0:
        return _start(2, 1, flags | _EMPTY_FLAG, sketch)
    if sketch.n == 1:
        return _start(2, 2, flags | _SINGLE_FLAG, sketch) + sketch.items[:1].tobytes()
    starts = sketch.levels[:-1]
    ends = np.array([sketch.least, sketch.largest], sketch.items.dtype)
    return b"".join(
        [
            _start(5, 1, flags, sketch),
            struct.pack("<qHBB", sketch.n, sketch.k_least, len(starts), 0),
            struct.pack(f"<{len(starts)}i", *starts),
            ends.tobytes(),
            sketch.items.tobytes(),
        ]
    )


def _start(ints: int, version: int, flags: int, sketch: KllSketch) -> bytes:
    return struct.pack("<4BHBB", ints, version, FAMILY, flags, sketch.k, sketch.m, 0)


class _Growing:
    """A sketch to which values are added.

    :ivar levels: the values of each, the newest first in the lowest.
    :ivar sorted: whether the lowest is known to be ascending.
    """

    def __init__(self, sketch: KllSketch) -> None:
        self.levels = sketch.parts()
        self.sorted = sketch.sorted
        self._k, self._m = sketch.k, sketch.m
        self._free = sketch.levels[0]

    def starts(self) -> tuple[int, ...]:
        """As :attr:`KllSketch.levels` has them."""
        sizes = np.cumsum([self._free, *map(len, self.levels)])
        return tuple(sizes.tolist())

    def add(self, item: Any) -> None:
        """One value."""
        if self._free == 0:
            self._make_room()
        self._free -= 1
        self.sorted = False
        self.levels[0] = np.insert(self.levels[0], 0, item)

    def add_levels(self, higher: list[Items]) -> None:
        """Values of another sketch, from its second level on."""
        count = max(len(self.levels), len(higher) + 1)
        self.levels += [self.levels[0][:0]] * (count - len(self.levels))
        for level, items in enumerate(higher, 1):
            self.levels[level] = merged_levels(self.levels[level], items)
        room, level = sum(self._capacity(each) for each in range(count)), 0
        held = sum(map(len, self.levels))
        while level < len(self.levels):
            if held >= room and len(self.levels[level]) >= self._capacity(level):
                on_top = level == len(self.levels) - 1
                held -= self._halve(level)
                if on_top:
                    room += self._capacity(0)
            level += 1
        self._free = room - held

    def _make_room(self) -> None:
        """Halve the first level that is full."""
        for level, items in enumerate(self.levels):
            if len(items) >= self._capacity(level):
                on_top = level == len(self.levels) - 1
                self._free += self._halve(level)
                if on_top:
                    self._free += self._capacity(0)
                return
        raise bad_argument("No level of the sketch is full, and it has no room.")

    def _halve(self, level: int) -> int:
        """Move half of its values up.

        :return: how many are left out.
        """
        items = self.levels[level]
        odd = len(items) % 2
        kept, pairs = items[:odd], items[odd:]
        if level == 0 and not self.sorted:
            pairs = in_order(pairs)
        if level == len(self.levels) - 1:
            self.levels.append(items[:0])
        chosen, above = pairs[secrets.randbits(1) :: 2], self.levels[level + 1]
        self.levels[level] = kept
        self.levels[level + 1] = merged_levels(chosen, above) if len(above) else chosen
        return len(chosen)

    def _capacity(self, level: int) -> int:
        return capacity(self._k, self._m, len(self.levels), level)
