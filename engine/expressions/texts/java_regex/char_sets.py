"""Sets of code points, as ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

LAST: Final = 0x10FFFF
Range = tuple[int, int]


@dataclass(frozen=True)
class CharSet:
    """A set of code points.

    :param ranges: first and last of each, both inclusive, sorted, neither touching nor overlapping.
    """

    ranges: tuple[Range, ...]

    @staticmethod
    def of(ranges: Iterable[Range]) -> CharSet:
        """Of ranges in any order, which may overlap."""
        merged: list[Range] = []
        for low, high in sorted(ranges):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(high, merged[-1][1])
            else:
                merged.append((low, high))
        return CharSet(tuple(merged))

    @staticmethod
    def chars(text: str) -> CharSet:
        """Of these characters."""
        return CharSet.of((ord(char), ord(char)) for char in text)

    @staticmethod
    def points(points: Iterable[int]) -> CharSet:
        """Of these code points."""
        return CharSet.of((point, point) for point in points)

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet.of(self.ranges + other.ranges)

    def __and__(self, other: CharSet) -> CharSet:
        return ~(~self | ~other)

    def __sub__(self, other: CharSet) -> CharSet:
        return self & ~other

    def __invert__(self) -> CharSet:
        gaps, start = [], 0
        for low, high in self.ranges:
            if start < low:
                gaps.append((start, low - 1))
            start = high + 1
        if start <= LAST:
            gaps.append((start, LAST))
        return CharSet(tuple(gaps))

    def __contains__(self, point: int) -> bool:
        return any(low <= point <= high for low, high in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for low, high in self.ranges:
            yield from range(low, high + 1)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    @cached_property
    def only(self) -> int | None:
        """Its code point, if it has one alone."""
        if len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]:
            return self.ranges[0][0]
        return None


EVERY: Final = CharSet(((0, LAST),))
NONE: Final = CharSet(())
ASCII: Final = CharSet(((0, 0x7F),))
SURROGATES: Final = CharSet(((0xD800, 0xDFFF),))
LOW_SURROGATES: Final = CharSet(((0xDC00, 0xDFFF),))
SUPPLEMENTARY: Final = CharSet(((0x10000, LAST),))
DIGITS: Final = CharSet.of([(0x30, 0x39)])
WORD: Final = CharSet.of([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
SPACES: Final = CharSet.of([(0x09, 0x0D), (0x20, 0x20)])
HORIZONTAL: Final = CharSet.chars("\t \xa0\u1680\u180e\u202f\u205f\u3000") | CharSet.of(
    [(0x2000, 0x200A)]
)
VERTICAL: Final = CharSet.of([(0x0A, 0x0D), (0x85, 0x85), (0x2028, 0x2029)])
LINE_ENDS: Final = CharSet.chars("\n\r\x85\u2028\u2029")
