"""The paths of ``get_json_object``: ``$.a['b c'].d[0][*]``.

The grammar is read as by Scala's parser combinators: blanks are skipped in front of names, of
positions and of ``.*``, which nobody would write, but nobody is told that it is wrong either.

Source: ``JsonPathParser`` of Spark, on ``RegexParsers`` of scala-parser-combinators.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, TypeAlias

from engine.expressions.java_errors import java_error
from engine.expressions.whole_numbers import whole_number


class Wildcard(Enum):
    """Steps that take everything: ``[*]``, and ``.*``, which Spark reads and never follows."""

    ITEMS = "[*]"
    MEMBERS = ".*"


ITEMS: Final = Wildcard.ITEMS
Step: TypeAlias = str | int | Wildcard
Path: TypeAlias = tuple[Step, ...]

_BLANKS: Final = r"[ \t\n\x0b\f\r]*"
_MEMBERS: Final = re.compile(_BLANKS + r"(?:\.\*|\['\*'\])")
_NAME: Final = re.compile(rf"\.{_BLANKS}([^.\[]+)|{_BLANKS}\['{_BLANKS}([^']+)'\]")
_POSITION: Final = re.compile(rf"\[{_BLANKS}([0-9]+)(\])?")
_ITEMS: Final = "[*]"
_END: Final = re.compile(_BLANKS + r"\Z")
_LONG_END: Final = 2**63


def parse_path(text: str) -> Path | None:
    """Names, positions and wildcards; None for what is no path.

    :raises TransformError: a position has more than 64 bits.
    """
    if not text.startswith("$"):
        return None
    steps: list[Step] = []
    at = 1
    while True:
        if match := _MEMBERS.match(text, at):
            steps.append(Wildcard.MEMBERS)
        elif match := _NAME.match(text, at):
            steps.append(match[1] or match[2])
        elif text.startswith(_ITEMS, at):
            steps.append(ITEMS)
            at += len(_ITEMS)
            continue
        elif match := _POSITION.match(text, at):
            if (position := whole_number(match[1])) >= _LONG_END:
                message = f'For input string: "{match[1]}"'
                raise java_error("java.lang.NumberFormatException", message)
            if match[2] is None:
                return None
            steps.append(position)
        else:
            return tuple(steps) if _END.match(text, at) else None
        at = match.end()
