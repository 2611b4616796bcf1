"""Java's Unicode: categories, properties and cases, by the version of Java.

Python's tables are of Unicode 13 to 15.1, by its own version. What has changed since 13 is in
:mod:`engine.expressions.texts.java_regex.unicode_changes`, so that neither matters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Final

from engine.expressions.texts.java_regex.char_sets import LAST, NONE, CharSet
from engine.expressions.texts.java_regex.unicode_changes import (
    ALPHABETIC,
    CATEGORIES,
    IDEOGRAPHIC,
    LOWER_CASE,
    TO_LOWER,
    TO_UPPER,
    UPPER_CASE,
)

_OF_JAVA: Final = {17: 13, 18: 13, 20: 15, 21: 15, 24: 16, 25: 16}
"""Java's version → Unicode's."""
_WITH_CASE_END: Final = 0x1F200
"""No letter has another case from here on."""


def unicode_of(java: int) -> Unicode | None:
    """That of a version of Java; None if it is not known here."""
    version = _OF_JAVA.get(java)
    return None if version is None else _unicode(version)


@lru_cache
def _unicode(version: int) -> Unicode:
    return Unicode(version)


class Unicode:
    """:param version: 13, 15 or 16."""

    def __init__(self, version: int) -> None:
        self._version = version

    def category_of(self, char: str) -> str:
        """Of one character, as ``Lu``."""
        return self._changed.get(ord(char)) or unicodedata.category(char)

    @cached_property
    def _changed(self) -> dict[int, str]:
        return dict(self._at_version(CATEGORIES))

    def category(self, *names: str) -> CharSet:
        """Of these categories, as ``Lu``."""
        return CharSet.of(r for name in names for r in self._categories.get(name, NONE).ranges)

    @cached_property
    def _categories(self) -> dict[str, CharSet]:
        changed = self._changed
        ranges: dict[str, list[tuple[int, int]]] = {}
        start, current = 0, "Cc"
        for point in range(LAST + 1):
            name = changed.get(point) or unicodedata.category(chr(point))
            if name != current:
                ranges.setdefault(current, []).append((start, point - 1))
                start, current = point, name
        ranges.setdefault(current, []).append((start, LAST))
        return {name: CharSet(tuple(of_name)) for name, of_name in ranges.items()}

    def _at_version(
        self, changes: Iterable[tuple[int, int, tuple[str, str, str]]]
    ) -> Iterator[tuple[int, str]]:
        index = {13: 0, 15: 1, 16: 2}[self._version]
        for low, high, names in changes:
            for point in range(low, high + 1):
                yield point, names[index]

    def _members(self, changes: Iterable[tuple[int, int, int]]) -> CharSet:
        """Those that have a property since this version or before."""
        return CharSet.of((low, high) for low, high, since in changes if since <= self._version)

    @cached_property
    def alphabetic(self) -> CharSet:
        letters = self.category("Lu", "Ll", "Lt", "Lm", "Lo", "Nl")
        return letters | self._members(ALPHABETIC)

    @cached_property
    def ideographic(self) -> CharSet:
        return self._members(IDEOGRAPHIC)

    @cached_property
    def lower_case(self) -> CharSet:
        return self.category("Ll") | self._members(LOWER_CASE)

    @cached_property
    def upper_case(self) -> CharSet:
        return self.category("Lu") | self._members(UPPER_CASE)

    @cached_property
    def cases(self) -> Cases:
        return Cases(dict(self._mapped(TO_UPPER)), dict(self._mapped(TO_LOWER)))

    def _mapped(
        self, changes: Iterable[tuple[int, tuple[int, int, int]]]
    ) -> Iterator[tuple[int, int]]:
        index = {13: 0, 15: 1, 16: 2}[self._version]
        for point, targets in changes:
            yield point, targets[index]


class Cases:
    """``Character.toUpperCase`` and ``toLowerCase`` of one code point.

    :param uppers: what Python's tables may have differently.
    :param lowers: the same.
    """

    def __init__(self, uppers: dict[int, int], lowers: dict[int, int]) -> None:
        self._uppers = uppers
        self._lowers = lowers

    def upper(self, point: int) -> int:
        if point in self._uppers:
            return self._uppers[point]
        char = chr(point)
        for mapped in (char.upper(), char.title()):
            if len(mapped) == 1:
                return ord(mapped)
        return point

    def lower(self, point: int) -> int:
        if point in self._lowers:
            return self._lowers[point]
        mapped = chr(point).lower()
        return ord(mapped) if len(mapped) == 1 else ord(mapped[0]) if point == 0x130 else point

    def folded(self, point: int) -> int:
        """What two characters have in common that differ in case alone."""
        return self.lower(self.upper(point))

    def single(self, point: int) -> CharSet | None:
        """What a character alone matches; None if it has one case only."""
        upper = self.upper(point)
        lower = self.lower(upper)
        return None if upper == lower else self._folding_to(lower)

    def in_slice(self, point: int) -> CharSet:
        """What a character among others matches."""
        return self._folding_to(self.folded(point))

    def _folding_to(self, folded: int) -> CharSet:
        return CharSet.points([folded, *self._by_folded.get(folded, [])])

    def range(self, low: int, high: int) -> CharSet:
        """What a range of a class matches."""
        points = [
            point
            for others in self._by_folded.values()
            for point in others
            if low <= self.upper(point) <= high or low <= self.folded(point) <= high
        ]
        return CharSet(((low, high),)) | CharSet.points(points)

    @cached_property
    def _by_folded(self) -> dict[int, list[int]]:
        """Those with another case."""
        found: dict[int, list[int]] = {}
        for point in range(_WITH_CASE_END):
            upper, folded = self.upper(point), self.folded(point)
            if upper != point or folded != point or self.lower(point) != point:
                found.setdefault(folded, []).append(point)
        return found
