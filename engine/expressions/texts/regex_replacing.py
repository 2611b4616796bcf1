"""``regexp_replace``.

Source: ``RegExpReplace`` in ``regexpExpressions.scala`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.compute as pc

from engine.errors import TransformError
from engine.expressions.datum import constant, constant_value
from engine.expressions.malformed import JAVA, KEPT
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.texts.java_regex.forms import in_units, restored
from engine.expressions.texts.java_regex.pattern import JavaRegex
from engine.expressions.texts.regex_patterns import (
    JAVA_VERSION,
    constant_regex,
    for_spark_function,
    has_column,
    why_no_pattern,
)
from engine.expressions.texts.regex_replacements import (
    Parts,
    ReplacementError,
    replacement_parts,
)
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row

_NO_DOLLAR = "has $ or \\Z, which looks at what is before the position"


def _supports(expr: Expr) -> str | None:
    if reason := why_no_pattern(expr):
        return reason
    position, replacement = constant_value(expr.children[3]), constant_value(expr.children[2])
    regex = constant_regex(expr)
    if regex is None:
        return None
    if position not in (None, 1) and regex.has_dollar:
        return f"the pattern {regex.source!r} {_NO_DOLLAR}"
    if replacement is not None:
        try:
            replacement_parts(replacement, regex)
        except ReplacementError as error:
            return f"the replacement {replacement!r} is not valid: {error}"
    return None


@strict("RegExpReplace", supports=_supports, can_fail=has_column, loop=True, reads=(JAVA_VERSION,))
def regexp_replace(expr: Expr, context: Context) -> ValueFunction:
    """``regexp_replace``: every match from a position on, with references to groups."""
    regex, replacement = constant_regex(expr), constant(expr.children[2])
    if regex is not None and regex.literal and replacement is not None and replacement.is_valid:
        parts = replacement_parts(constant_value(expr.children[2]), regex)
        if constant_value(expr.children[3]) == 1 and all(isinstance(part, str) for part in parts):
            old, new = regex.literal, "".join(map(str, parts))
            return lambda s, *_: pc.replace_substring(JAVA.of(s), old, new)
    compiled = for_spark_function("regexp_replace", expr)

    def replace(text: str, pattern: str, replacement: str, position: int) -> str:
        regex = compiled(pattern)

        def parts() -> Parts:
            try:
                return replacement_parts(replacement, regex)
            except ReplacementError as error:
                raise TransformError(
                    "[INVALID_REGEXP_REPLACE] Could not perform regexp_replace for source = "
                    f'"{text}", pattern = "{pattern}", replacement = "{replacement}" and position '
                    f"= {position}."
                ) from error

        if position == 1:
            return _replaced(text, regex, parts)
        if regex.has_dollar:
            raise TransformError(f"the pattern {pattern!r} {_NO_DOLLAR}")
        units = in_units(text)
        if position > len(units):
            return text
        head, tail = units[: position - 1], units[position - 1 :]
        return restored(head + _replaced(tail, regex, parts, whole=False))

    return lambda *values: per_row(replace, expr.dtype, *values, malformed=KEPT)


def _replaced(
    text: str, regex: JavaRegex, replacement: Callable[[], Parts], whole: bool = True
) -> str:
    """:param replacement: asked for if there is something to replace.
    :param whole: halves of characters at its ends are wrong."""
    finder, subject = regex.on(text)
    pieces: list[str] = []
    position, parts = 0, None
    in_halves = finder.translated or not whole
    for match in finder.every(subject):
        if parts is None:
            parts = replacement()
        pieces.append(subject[position : match.start()])
        for part in parts:
            if isinstance(part, int):
                pieces.append(finder.group(match, part) or "")
            else:
                pieces.append(in_units(part) if in_halves else part)
        position = match.end()
    pieces.append(subject[position:])
    joined = "".join(pieces)
    return finder.text(joined) if whole else joined
