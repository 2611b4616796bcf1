"""KLL sketches: some of the values seen, in levels; one of level n stands for 2**n of them.

===== =============================================================
byte
===== =============================================================
0     length of this preamble in 4 bytes: 5, or 2 of at most one value
1     version: 1, 2 of a single value, 3 of an updatable sketch
2     family: 15
3     flags: 1 empty, 2 level 0 is sorted
4-5   k
6     m, the least size of a level
8-15  number of values seen
16-17 least k of all that have been merged
18    number of levels
20    where levels begin, 4 bytes each, counted from the end of the free space
===== =============================================================

Then the least value, the largest, and the levels; of a single value that alone, in byte 8. An
updatable sketch stores also where the last level ends, and the free space.

Source: ``KllMemoryValidate.java``, ``KllHelper.java``, ``IncludeMinMax.java`` of datasketches-java.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.expressions.sketches.kll_arrays import Items, Run, in_order, merged_runs, span
from engine.expressions.sketches.memory import Memory, bad_argument

_FULL, _EMPTY, _SINGLE, _UPDATABLE = (5, 1), (2, 1), (2, 2), (5, 3)
FAMILY: Final = 15
_K_MOST: Final = 65535
_FOLDED: Final = 30
"""Capacities of deeper levels are computed in two steps."""
_DEEPEST: Final = 2 * _FOLDED


@dataclass(frozen=True)
class KllSketch:
    """One of them.

    :param n: how many values it has seen.
    :param levels: where each level begins in ``values``, and where the last ends. Of damaged bytes
        these are any numbers.
    :param values: the free space, and the values.
    """

    k: int
    m: int
    n: int
    k_least: int
    sorted: bool
    levels: tuple[int, ...]
    values: Items
    least: Any = None
    largest: Any = None

    @property
    def items(self) -> Items:
        """The values, without the free space.

        :raises SketchError: they are not there.
        """
        return span(self.values, self.levels[0], self.levels[-1] - self.levels[0])

    def level(self, level: int) -> tuple[int, int]:
        """Where in ``values`` a level begins and where it ends; one that is too high has none.

        :raises SketchError: there is no level at all.
        """
        if len(self.levels) == 1:
            raise bad_argument("The sketch has no levels.")
        if level >= len(self.levels) - 1:
            return 0, 0
        return self.levels[level], self.levels[level + 1]

    @cached_property
    def weighted(self) -> Run:
        """Its values, ascending, and of how many the sum of values up to each speaks. Among equals
        those of higher levels are first; the least and the largest are among them always.

        :raises SketchError: it has seen no value, or its levels are not within its values.
        """
        if self.n == 0:
            raise bad_argument("The sketch must not be empty for this operation. ")
        items = self._ascending_below()
        weights, bounds = np.zeros(len(items), np.int64), [0]
        for level, (start, end) in enumerate(
            pairwise(each - self.levels[0] for each in self.levels)
        ):
            if start < end:
                span(weights, start, end - start)[:] = 1 << level
                bounds[-1:] = [start, end]
        if len(bounds) == 1:
            raise bad_argument("The sketch has no values.")
        items, each = merged_runs((items, weights), bounds)
        return self._with_ends(items, np.cumsum(each, dtype=np.int64))

    def _ascending_below(self) -> Items:
        """The values, those of the lowest level in order."""
        items, (start, end) = self.items, self.level(0)
        if self.sorted:
            return items
        in_order_below = in_order(span(self.values, start, end - start))
        return np.concatenate([in_order_below, items[end - start :]])[: len(items)]

    def _with_ends(self, items: Items, sums: npt.NDArray[np.int64]) -> Run:
        lacks_least, lacks_largest = items[0] != self.least, items[-1] != self.largest
        if lacks_least:
            items, sums = np.insert(items, 0, self.least), np.insert(sums, 0, 1)
        if lacks_largest:
            items, sums = np.append(items, self.largest), np.append(sums, sums[-1])
            sums[-2] = sums[-1] - 1
        return items, sums


def read_kll(data: bytes, dtype: str, *, wrapped: bool = False) -> KllSketch:
    """What the bytes say.

    :param dtype: NumPy's, of the values.
    :param wrapped: as the library reads bytes that it does not copy: values of an updatable sketch
        are as many as its levels may have, wherever they end, and none of one that has seen none.
    :raises SketchError: they are no KLL sketch.
    """
    memory, size = Memory(data), np.dtype(dtype).itemsize
    if len(data) < 8:
        raise bad_argument(f"A sketch memory image must be at least 8 bytes. {len(data)}")
    form = (memory.unsigned(0), memory.unsigned(1))
    if form not in (_FULL, _EMPTY, _SINGLE, _UPDATABLE):
        raise bad_argument(
            f"Error combination of PreInts and SerVer: PreInts: {form[0]}, SerVer: {form[1]}"
        )
    if memory.unsigned(2) != FAMILY:
        raise bad_argument(f"FamilyID Field must be: {FAMILY}, NOT: {memory.unsigned(2)}")
    flags, k, m = memory.unsigned(3), memory.short(4), memory.unsigned(6)
    if m not in (2, 4, 6, 8):
        raise bad_argument(f"M must be >= 2, <= 8 and even: {m}")
    if k < m:
        raise bad_argument(f"K must be >= {m} and <= {_K_MOST}: {k}")
    empty, is_sorted = bool(flags & 1), bool(flags & 2)
    if form != _UPDATABLE and empty != (form == _EMPTY):
        raise bad_argument(f"A sketch of this form has another empty flag than {empty}.")

    def values(at: int, count: int, free: int = 0) -> Items:
        items = np.frombuffer(memory.some(at, count * size), dtype)
        return np.concatenate([np.zeros(free, dtype), items])

    if form == _EMPTY:
        return KllSketch(k, m, 0, k, is_sorted, (k, k), values(8, 0, k))
    if form == _SINGLE:
        items = values(8, 1, k - 1)
        return KllSketch(k, m, 1, k, is_sorted, (k - 1, k), items, items[-1], items[-1])
    n, k_least, count = memory.int64(8), memory.short(16), memory.unsigned(18)
    stored = count + (form == _UPDATABLE)
    levels = np.frombuffer(memory.some(20, stored * 4), "<i4").tolist()
    if form == _FULL:
        levels.append(room_of(k, m, count))
    head = (k, m, n, k_least, is_sorted, tuple(levels))
    if wrapped and n == 0:
        return KllSketch(*head, values(8, 0))
    at = 20 + stored * 4
    least, largest = values(at, 2)
    at += 2 * size
    if form == _FULL:
        free, end = levels[0], levels[-1]
        if not 0 <= free <= end:
            raise bad_argument(f"The levels begin at {free} and end at {end}.")
        items = values(at, end - free, free)
    else:
        items = values(at, room_of(k, m, count) if wrapped else levels[-1])
    return KllSketch(*head, items, least, largest)


def room_of(k: int, m: int, count: int) -> int:
    """How many values so many levels may have."""
    return sum(capacity(k, m, count, level) for level in range(count))


def capacity(k: int, m: int, count: int, level: int) -> int:
    """How many values a level may have, of so many levels: each 2/3 of the next, rounded."""
    depth = count - level - 1
    if depth > _DEEPEST:
        raise bad_argument(f"There are {count} levels.")
    if depth > _FOLDED:
        return max(m, _two_thirds(_two_thirds(k, depth // 2), depth - depth // 2))
    return max(m, _two_thirds(k, depth))


def _two_thirds(k: int, times: int) -> int:
    return ((2 * k << times) // int(3**times) + 1) // 2
