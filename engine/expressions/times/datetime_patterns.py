"""Patterns of dates and times, e.g. ``yyyy-MM-dd HH:mm:ss``: split into their letters and texts.

:mod:`engine.expressions.times.datetime_printing` and
    :mod:`engine.expressions.times.datetime_parsing` know
what the letters mean; what they do not know is refused (:class:`UnsupportedPatternError`).

Source: Spark's ``DateTimeFormatterHelper``; ``java.time.format.DateTimeFormatterBuilder``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ERAS: Final = (("BC", "AD"), ("Before Christ", "Anno Domini"))
"""Before the year 1 and since, short and full."""


class UnsupportedPatternError(ValueError):
    """Why a pattern is not understood here."""


@dataclass(frozen=True)
class Token:
    """A run of one letter, or a text (``letter`` is empty), or a bracket."""

    letter: str
    count: int
    text: str = ""


@functools.lru_cache
def tokens(pattern: str) -> tuple[Token, ...]:
    """Split a pattern.

    :raises UnsupportedPatternError: it has characters that are reserved, or an open quote.
    """
    return tuple(_tokens(pattern))


def _tokens(pattern: str) -> Iterator[Token]:
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char.isascii() and char.isalpha():
            count = len(pattern) - position - len(pattern[position:].lstrip(char))
            yield Token(char, count)
            position += count
        elif char == "'":
            match = re.compile(r"'((?:[^']|'')*)'").match(pattern, position)
            if match is None:
                raise refusal(pattern, "a quote is not closed")
            yield Token("", 0, match[1].replace("''", "'") or "'")
            position = match.end()
        elif char in "{}#":
            raise refusal(pattern, f"{char!r} is reserved")
        else:
            yield Token(char if char in "[]" else "", 0, char)
            position += 1


def refusal(pattern: str, reason: str) -> UnsupportedPatternError:
    """The error to raise."""
    return UnsupportedPatternError(f"the date-time pattern {pattern!r} is not supported: {reason}")
