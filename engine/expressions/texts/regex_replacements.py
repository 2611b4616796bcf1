"""The replacement of ``regexp_replace``: texts, and groups as ``$1`` and ``${name}``.

Source: ``java.util.regex.Matcher.appendExpandedReplacement``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from engine.expressions.texts.java_regex.pattern import JavaRegex
from engine.expressions.whole_numbers import whole_number

Parts = tuple[str | int, ...]
_REFERENCE: Final = re.compile(r"\\(.?)|\$(?:\{([a-zA-Z0-9]*)(\}?)|([0-9]+)|)", re.DOTALL)


class ReplacementError(ValueError):
    """Java refuses it where there is something to replace."""


@lru_cache
def replacement_parts(text: str, regex: JavaRegex) -> Parts:
    """Texts, and numbers of groups.

    :raises ReplacementError: Java refuses it.
    """
    parts: list[str | int] = []
    position = 0
    for match in _REFERENCE.finditer(text):
        parts.append(text[position : match.start()])
        position = match.end()
        quoted, name, closing, digits = match.groups()
        if quoted is not None:
            if not quoted:
                raise ReplacementError("character to be escaped is missing")
            parts.append(quoted)
        elif name is not None:
            parts.append(_named(name, closing, regex))
        elif digits is not None:
            number, rest = _numbered(digits, regex.groups)
            parts += [number, rest]
        else:
            missing = ": group index is missing" if position == len(text) else ""
            raise ReplacementError(f"Illegal group reference{missing}")
    parts.append(text[position:])
    return tuple(part for part in parts if part != "")


def _named(name: str, closing: str, regex: JavaRegex) -> int:
    if not name:
        raise ReplacementError("named capturing group has 0 length name")
    if not closing:
        raise ReplacementError("named capturing group is missing trailing '}'")
    if name[0].isdigit():
        raise ReplacementError(f"capturing group name {{{name}}} starts with digit character")
    if name not in regex.group_names:
        raise ReplacementError(f"No group with name {{{name}}}")
    return regex.group_names[name]


def _numbered(digits: str, groups: int) -> tuple[int, str]:
    """As many digits as there are groups: ``$12`` is group 1 and a 2 if there are only 9."""
    used = 1
    while used < len(digits) and whole_number(digits[: used + 1]) <= groups:
        used += 1
    number = whole_number(digits[:used])
    if number > groups:
        raise ReplacementError(f"No group {number}")
    return number, digits[used:]
