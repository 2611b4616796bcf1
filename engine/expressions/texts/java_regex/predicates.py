"""What Java's matcher asks of one character."""

from __future__ import annotations

from dataclasses import dataclass

from engine.expressions.texts.java_regex.char_sets import ASCII, CharSet


@dataclass(frozen=True)
class Predicate:
    """A set, and how Java knows it.

    :param bmp: Java knows that no character beyond U+FFFF is in it. Only if it knows so of all
        sets of a pattern does it look for a match between the halves of such a character.
    """

    set: CharSet
    bmp: bool = True

    def __or__(self, other: Predicate) -> Predicate:
        return Predicate(self.set | other.set, self.bmp and other.bmp)

    def __and__(self, other: Predicate) -> Predicate:
        return Predicate(self.set & other.set, self.bmp and other.bmp)

    def __invert__(self) -> Predicate:
        return Predicate(~self.set, False)


def both_cases(points: CharSet) -> CharSet:
    """ASCII letters in both cases, and all else as it is."""
    ascii_points = {chr(point) for point in points & ASCII}
    cased = "".join(char.lower() + char.upper() for char in ascii_points)
    return points | CharSet.chars(cased)
