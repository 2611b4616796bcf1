"""Sets of characters as a part of a pattern of Python."""

from __future__ import annotations

from collections.abc import Iterator

from engine.expressions.texts.java_regex.char_sets import (
    LAST,
    LOW_SURROGATES,
    SUPPLEMENTARY,
    SURROGATES,
    CharSet,
    Range,
)
from engine.expressions.texts.java_regex.forms import MOVED

_PLANE = CharSet(((MOVED, MOVED + 0xFFFF),))


def in_brackets(points: CharSet) -> str:
    """A class, or the character itself if it is one alone."""
    if points.only is not None:
        return quoted(points.only)
    if LAST in points:
        rest = ~points
        return "(?s:.)" if not rest else f"[^{_members(rest)}]"
    return f"[{_members(points)}]" if points else "[^\\x00-\U0010ffff]"


def plain(points: CharSet) -> str:
    """For texts without halves of characters."""
    if points & SURROGATES == SURROGATES or points.only is not None:
        return in_brackets(points)
    return in_brackets(points - SURROGATES)


def moved(points: CharSet, marks: CharSet) -> CharSet:
    """With what marks become that have been moved, and nothing else there."""
    shifted = ((low + MOVED, high + MOVED) for low, high in (points & marks).ranges)
    return (points - _PLANE) | CharSet.of(shifted)


def one_unit(points: CharSet, marks: CharSet) -> CharSet:
    """Those members that are one code unit: what halves are left alone are second ones."""
    shifted = moved(points - SUPPLEMENTARY, marks)
    return shifted - (SURROGATES - LOW_SURROGATES)


def pairs(points: CharSet) -> str | None:
    """Those members that are two code units; None if there are none."""
    options = [f"{first}{second}" for first, second in _pairs(points & SUPPLEMENTARY)]
    if not options:
        return None
    return options[0] if len(options) == 1 else f"(?:{'|'.join(options)})"


def in_units(points: CharSet, marks: CharSet) -> str:
    """For texts of code units."""
    single, two = one_unit(points, marks), pairs(points)
    if two is None:
        return in_brackets(single)
    return f"(?:{in_brackets(single)}|{two})" if single else f"(?:{two})"


def _pairs(points: CharSet) -> Iterator[tuple[str, str]]:
    """First halves, and second ones, of the same second ones together."""
    firsts: dict[tuple[Range, ...], list[Range]] = {}
    by_first: dict[int, list[Range]] = {}
    for low, high in points.ranges:
        first, last = (low - 0x10000) >> 10, (high - 0x10000) >> 10
        for half in {first, last}:
            start = max(low, 0x10000 + (half << 10))
            end = min(high, 0x10000 + (half << 10) + 0x3FF)
            by_first.setdefault(half, []).append((start & 0x3FF, end & 0x3FF))
        if last - first > 1:
            firsts.setdefault(((0, 0x3FF),), []).append((first + 1, last - 1))
    for half, seconds in by_first.items():
        merged = CharSet.of(seconds).ranges
        firsts.setdefault(merged, []).append((half, half))
    for seconds_of, ranges in firsts.items():
        second = CharSet.of((0xDC00 + low, 0xDC00 + high) for low, high in seconds_of)
        first_halves = CharSet.of((0xD800 + low, 0xD800 + high) for low, high in ranges)
        yield in_brackets(first_halves), in_brackets(second)


def _members(points: CharSet) -> str:
    return "".join(
        quoted(low) if low == high else f"{quoted(low)}-{quoted(high)}"
        for low, high in points.ranges
    )


def quoted(point: int) -> str:
    """One character, as Python and RE2 both read it, in and out of classes."""
    char = chr(point)
    if char.isalnum() or not char.isascii() or char in " _\"'`,;:<>@%!/=":
        return char
    return f"\\{char}" if char.isprintable() else f"\\x{point:02x}"
