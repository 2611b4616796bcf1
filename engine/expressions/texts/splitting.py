"""``split``.

Source: ``UTF8String.split`` of Spark; ``java.util.regex.Pattern.split``.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.expressions.datum import constant_value
from engine.expressions.malformed import CHARACTERS, KEPT
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.texts.java_regex.pattern import JavaRegex
from engine.expressions.texts.regex_patterns import (
    JAVA_VERSION,
    for_java_method,
    has_column,
    why_no_pattern,
)
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row


@strict(
    "StringSplit",
    supports=why_no_pattern,
    can_fail=has_column,
    reads=(JAVA_VERSION,),
    presumes=("spark.sql.legacy.truncateForEmptyRegexSplit",),
    loop=True,
)
def split(expr: Expr, context: Context) -> ValueFunction:
    """``split``: by a pattern; an empty one splits into characters."""
    if constant_value(expr.children[1]) == "":
        return lambda s, _, limit: per_row(_characters, expr.dtype, s, limit, malformed=CHARACTERS)
    compiled = for_java_method(expr)

    def cut(text: str, pattern: str, limit: int) -> list[str]:
        if pattern:
            return cut_by(compiled(pattern), text, limit)
        octets = getattr(text, "octets", None)
        if octets is None:
            return list(_characters(text, limit))
        parts = _characters(CHARACTERS.read(octets), limit)
        return [KEPT.read(CHARACTERS.write(part)) for part in parts]

    return lambda *values: per_row(cut, expr.dtype, *values, malformed=KEPT)


def _characters(text: str, limit: int) -> list[str]:
    count = len(text) if limit <= 0 else min(limit, len(text))
    return [*text[: count - 1], text[count - 1 :]] if text else [text]


def cutter(regex: JavaRegex) -> Callable[[str, int], list[str]]:
    """A function that splits a text into so many parts at most; any number if that is not > 0."""
    return lambda text, limit: cut_by(regex, text, limit)


def cut_by(regex: JavaRegex, text: str, limit: int) -> list[str]:
    """The parts of a text. An empty match at its start cuts nothing off."""
    if regex.literal:
        found = text.split(regex.literal, limit - 1 if limit > 0 else -1)
        return found if len(found) > 1 else [str(text)]  # of its own class if nothing is cut
    finder, subject = regex.on(text)
    parts: list[str] = []
    position = 0
    for match in finder.every(subject):
        if 0 < limit <= len(parts) + 1:
            break
        if match.end() == 0:
            continue
        parts.append(finder.text(subject[position : match.start()]))
        position = match.end()
    return [*parts, finder.text(subject[position:])]
