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

from engine.expressions.sketches.memory import Memory, bad_argument

_FULL, _EMPTY, _SINGLE, _UPDATABLE = (5, 1), (2, 1), (2, 2), (5, 3)
FAMILY: Final = 15
_K_MOST: Final = 65535
_Run = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]
_FOLDED: Final = 30
"""Capacities of deeper levels are computed in two steps."""


@dataclass(frozen=True)
class KllSketch:
    """One of them.

    :param n: how many values it has seen.
    :param levels: where each level begins in ``items``, and where the last ends, plus the free
        space, which is the first of these numbers.
    :param items: the values, without the free space.
    """

    k: int
    m: int
    n: int
    k_least: int
    sorted: bool
    levels: tuple[int, ...]
    items: npt.NDArray[Any]
    least: Any = None
    largest: Any = None

    @cached_property
    def weighted(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Its values, ascending, and of how many the sum of values up to each speaks. Among equals
        those of higher levels are first; the least and the largest are among them always.

        :raises SketchError: it has seen no value.
        """
        if self.n == 0:
            raise bad_argument("The sketch must not be empty for this operation. ")
        parts = self.parts()
        if not any(map(len, parts)):
            raise bad_argument("The sketch has no values.")
        if not self.sorted:
            parts[0] = in_order(parts[0])
        weights = [np.full(len(part), 1 << level) for level, part in enumerate(parts)]
        items, each = _merged(list(zip(parts, weights, strict=True)))
        return self._with_ends(items, np.cumsum(each, dtype=np.int64))

    def parts(self) -> list[npt.NDArray[Any]]:
        """The values of each level.

        :raises SketchError: a level is not within the values, or these are more than there is room
            for.
        """
        if self.levels[-1] > room_of(self.k, self.m, len(self.levels) - 1):
            raise bad_argument(f"The last level ends at {self.levels[-1]}.")
        bounds = list(pairwise(level - self.levels[0] for level in self.levels))
        for start, end in bounds:
            if start < end and not 0 <= start < end <= len(self.items):
                raise bad_argument(f"A level goes from {start} to {end} of {len(self.items)}.")
        return [self.items[start : max(start, end)] for start, end in bounds]

    def _with_ends(
        self, items: npt.NDArray[Any], sums: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        lacks_least, lacks_largest = items[0] != self.least, items[-1] != self.largest
        if lacks_least:
            items, sums = np.insert(items, 0, self.least), np.insert(sums, 0, 1)
        if lacks_largest:
            items, sums = np.append(items, self.largest), np.append(sums, sums[-1])
            sums[-2] = sums[-1] - 1
        return items, sums


def in_order(items: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As Java sorts them: -0.0 is before 0.0, NaN is the last."""
    return items[np.lexsort((~np.signbit(items), items))]


def merged_levels(lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values of two ascending levels, ascending; among equals those of the upper are first."""
    alike = [np.zeros(len(items), np.int64) for items in (lower, upper)]
    return _merged([(lower, alike[0]), (upper, alike[1])])[0]


def _merged(levels: list[_Run]) -> _Run:
    """Levels that are ascending are merged into one that is; of others, which bytes of another kind
    of sketch may have, the library makes what this order of comparisons gives."""
    if all(_is_ascending(items) for items, _ in levels):
        items, each = (np.concatenate(part) for part in zip(*levels[::-1], strict=True))
        order = np.argsort(items, kind="stable")
        return items[order], each[order]
    if len(levels) == 1:
        return levels[0]
    half = len(levels) // 2
    return _merged_pair(_merged(levels[:half]), _merged(levels[half:]))


def _merged_pair(lower: _Run, upper: _Run) -> _Run:
    """Among equals those of the upper levels are first."""
    items, each = (np.concatenate(part) for part in zip(lower, upper, strict=True))
    at, middle = 0, len(lower[0])
    other, order = middle, []
    while at < middle and other < len(items):
        if items[at] < items[other]:
            order.append(at)
            at += 1
        else:
            order.append(other)
            other += 1
    order += [*range(at, middle), *range(other, len(items))]
    return items[order], each[order]


def _is_ascending(items: npt.NDArray[Any]) -> bool:
    return not np.isnan(items).any() and bool((items[:-1] <= items[1:]).all())


def read_kll(data: bytes, dtype: str) -> KllSketch:
    """What the bytes say.

    :param dtype: NumPy's, of the values.
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

    def values(at: int, count: int) -> npt.NDArray[Any]:
        return np.frombuffer(memory.some(at, count * size), dtype)

    if form == _EMPTY:
        return KllSketch(k, m, 0, k, is_sorted, (k, k), values(8, 0))
    if form == _SINGLE:
        (item,) = items = values(8, 1)
        return KllSketch(k, m, 1, k, is_sorted, (k - 1, k), items, item, item)
    n, k_least, count = memory.int64(8), memory.short(16), memory.unsigned(18)
    stored = count + (form == _UPDATABLE)
    levels = np.frombuffer(memory.some(20, stored * 4), "<i4").tolist()
    if form == _FULL:
        levels.append(room_of(k, m, count))
    free, end = levels[0], levels[-1]
    at = 20 + stored * 4
    least, largest = values(at, 2)
    at += (2 + (free if form == _UPDATABLE else 0)) * size
    return KllSketch(
        k, m, n, k_least, is_sorted, tuple(levels), values(at, max(0, end - free)), least, largest
    )


def room_of(k: int, m: int, count: int) -> int:
    """How many values so many levels may have."""
    return sum(capacity(k, m, count, level) for level in range(count))


def capacity(k: int, m: int, count: int, level: int) -> int:
    """How many values a level may have, of so many levels: each 2/3 of the next, rounded."""
    depth = count - level - 1
    if depth > _FOLDED:
        return max(m, _two_thirds(_two_thirds(k, depth // 2), depth - depth // 2))
    return max(m, _two_thirds(k, depth))


def _two_thirds(k: int, times: int) -> int:
    return ((2 * k << times) // int(3**times) + 1) // 2
