"""KLL sketches merged, and written.

Each level may have so many values. What is too full is halved: of two neighbours one goes to the
next level, where it stands for both. Chance decides which, for all pairs of a level alike, so that
bytes are others each time; how many values remain in each level is certain.

All levels are parts of one array, as in the library: what the levels of damaged bytes, which may
overlap or end before they begin, become depends on it.

Source: ``KllLongsHelper.java``, ``KllHelper.java`` of datasketches-java.
"""

from __future__ import annotations

import secrets
import struct
from typing import Any, Final

import numpy as np

from engine.expressions.sketches.kll_arrays import Items, copied, in_order, merged_into, span
from engine.expressions.sketches.kll_sketches import FAMILY, KllSketch, capacity, room_of
from engine.expressions.sketches.memory import bad_argument

_EMPTY_FLAG, _SORTED_FLAG, _SINGLE_FLAG = 1, 2, 4
_N_MOST: Final = 2**63 - 1


def merged(left: KllSketch, right: KllSketch) -> KllSketch:
    """Of all values of both, as large as the left one.

    :raises SketchError: the levels of one are not within its values.
    """
    if right.n == 0:
        return left
    if not -_N_MOST - 1 <= left.n + right.n <= _N_MOST:
        raise bad_argument("long overflow")
    growing = _Growing(left)
    for at in range(*right.level(0)):
        growing.add(span(right.values, at, 1)[0])
    several = len(right.levels) > 2
    if several:
        growing.add_levels(right, left.n + right.n)
    ends = [right.least], [right.largest]
    is_double = left.values.dtype == np.float64
    if left.n and not (is_double and np.isnan(left.least)):  # of floats NaN remains
        ends = [left.least, right.least], [left.largest, right.largest]
    least = in_order(np.array(ends[0], left.values.dtype))[0]
    return KllSketch(
        k=left.k,
        m=left.m,
        n=left.n + right.n,
        k_least=min(left.k_least, right.k_least) if several else left.k_least,
        sorted=growing.sorted,
        levels=tuple(growing.levels),
        values=growing.values,
        least=next((end for end in ends[0] if end != end), least),
        largest=in_order(np.array(ends[1], left.values.dtype))[-1],
    )


def write_kll(sketch: KllSketch) -> bytes:
    """In the compact form.

    :raises SketchError: its levels are not within its values.
    """
    flags = sketch.sorted * _SORTED_FLAG
    if sketch.n == 0:
        return _start(2, 1, flags | _EMPTY_FLAG, sketch)
    if sketch.n == 1:
        item = span(sketch.values, sketch.k - 1, 1)
        return _start(2, 2, flags | _SINGLE_FLAG, sketch) + item.tobytes()
    starts = sketch.levels[:-1]
    ends = np.array([sketch.least, sketch.largest], sketch.values.dtype)
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

    :ivar levels: as :attr:`KllSketch.levels`.
    :ivar values: as :attr:`KllSketch.values`.
    :ivar sorted: whether the lowest level is known to be ascending.
    """

    def __init__(self, sketch: KllSketch) -> None:
        self.levels = list(sketch.levels)
        self.values = sketch.values.copy()
        self.sorted = sketch.sorted
        self._n, self._k, self._m = sketch.n, sketch.k, sketch.m
        is_double, ends = self.values.dtype == np.float64, (sketch.least, sketch.largest)
        self._lacks_largest = bool(
            sketch.n and is_double and ~np.isnan(ends[0]) & np.isnan(ends[1])
        )

    def add(self, item: Any) -> None:
        """One value."""
        if self.levels[0] == 0:
            self._make_room(item)
        self.levels[0] -= 1
        self.sorted = False
        self._lacks_largest &= item == item  # else the next one is the least and the largest
        self._n += 1
        span(self.values, self.levels[0], 1)[0] = item

    def add_levels(self, other: KllSketch, n: int) -> None:
        """Values of another sketch, from its second level on; ``n`` is how many both have seen."""
        work, starts = self._both(other)
        count = len(starts) - 1
        most = max(count, max(1, n).bit_length())
        starts += [0] * (most + 2 - len(starts))
        count, held, levels = self._compressed(work, starts, count)
        room = room_of(self._k, self._m, count)
        if room != len(self.values):
            self.values = np.zeros(room, self.values.dtype)
        copied(work, levels[0], self.values, room - held, held)
        self.levels = [level + room - held for level in levels[: count + 1]]

    def _both(self, other: KllSketch) -> tuple[Items, list[int]]:
        """The values of both, level by level, and where each level begins and the last ends."""
        count = max(len(self.levels), len(other.levels)) - 1
        held = self.levels[-1] - self.levels[0] + other.levels[-1] - other.levels[1]
        if not 0 <= held <= len(self.values) + len(other.values):
            raise bad_argument(f"There are {held} values in both.")
        work, (start, end) = np.zeros(held, self.values.dtype), self._level(0)
        copied(self.values, start, work, 0, end - start)
        starts = [0, end - start]
        for level in range(1, count):
            mine, others = self._level(level), other.level(level)
            to, sizes = starts[-1], (mine[1] - mine[0], others[1] - others[0])
            starts.append(to + sum(sizes))
            if min(sizes) > 0:
                sources = (self.values, mine[0], sizes[0]), (other.values, others[0], sizes[1])
                merged_into(work, to, *sources)
            elif sizes[0] > 0 and sizes[1] == 0:
                copied(self.values, mine[0], work, to, sizes[0])
            elif sizes[0] == 0 and sizes[1] > 0:
                copied(other.values, others[0], work, to, sizes[1])
        return work, starts

    def _compressed(self, work: Items, starts: list[int], count: int) -> tuple[int, int, list[int]]:
        """Halve what is too full.

        :param work: the values, in levels that begin in ``starts``; both are changed.
        :return: how many levels and values there are, and where levels begin and the last ends.
        """
        held, room = starts[count] - starts[0], room_of(self._k, self._m, count)
        ends, level = [0], 0
        while level < count:
            if level == count - 1:
                if level + 2 == len(starts):
                    raise bad_argument(f"There are {count} levels and too many values.")
                starts[level + 2] = starts[level + 1]
            start, size = starts[level], starts[level + 1] - starts[level]
            most = capacity(self._k, self._m, count, level)
            if held < room or size < most:
                copied(work, start, work, ends[-1], size)
                ends.append(ends[-1] + size)
            else:
                odd = size % 2
                copied(work, start, work, ends[-1], odd)
                ends.append(ends[-1] + odd)
                above = starts[level + 2] - starts[level + 1]
                is_sorted = level > 0 or self.sorted
                halved = self._halve(work, start + odd, size // 2, above, is_sorted=is_sorted)
                held -= halved
                starts[level + 1] -= halved
                if level == count - 1:
                    count += 1
                    room += capacity(self._k, self._m, count, 0)
            level += 1
        return count, held, ends

    def _make_room(self, item: Any) -> None:
        """Halve the first level that is full, for this value."""
        level = self._full()
        if level == len(self.levels) - 2:
            if self._n == 0 or item != item or self._lacks_largest:  # an end is none then, or NaN
                raise bad_argument("The sketch must not be empty for this operation. ")
            self._add_level()
        levels = self.levels
        start, end = levels[level], levels[level + 1]
        odd = (end - start) % 2
        half, above = (end - start) // 2, levels[level + 2] - end
        left_over = span(self.values, start, odd).copy()
        self._halve(self.values, start + odd, half, above, is_sorted=level > 0)
        levels[level + 1] -= half
        levels[level] = levels[level + 1] - odd
        copied(left_over, 0, self.values, levels[level], odd)
        if level > 0:
            copied(self.values, levels[0], self.values, levels[0] + half, start - levels[0])
        for lower in range(level):
            levels[lower] += half

    def _full(self) -> int:
        for level in range(len(self.levels) - 1):
            start, end = self._level(level)
            if end - start >= capacity(self._k, self._m, len(self.levels) - 1, level):
                return level
        raise bad_argument("No level of the sketch is full, and it has no room.")

    def _add_level(self) -> None:
        """One more on top, and room for the values that it may have."""
        more, room = capacity(self._k, self._m, len(self.levels), 0), self.levels[-1]
        values = np.zeros(room + more, self.values.dtype)
        copied(self.values, 0, values, more, room)
        self.values = values
        self.levels = [level + more for level in (*self.levels, room)]

    def _halve(self, values: Items, at: int, half: int, above: int, *, is_sorted: bool) -> int:
        """Move one of each two neighbours up, of twice ``half`` values; ``above`` them are so many
        in the next level.

        :return: how many are left out.
        """
        pairs = span(values, at, 2 * half)
        if not is_sorted:
            pairs[:] = in_order(pairs)
        chosen = pairs[secrets.randbits(1) :: 2].copy()
        if above == 0:
            pairs[half:] = chosen
        else:
            pairs[:half] = chosen
            merged_into(values, at + half, (values, at, half), (values, at + 2 * half, above))
        return half

    def _level(self, level: int) -> tuple[int, int]:
        if level >= len(self.levels) - 1:
            return 0, 0
        return self.levels[level], self.levels[level + 1]
