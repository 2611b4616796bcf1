"""Functions of regular expressions: extract, replace, split, find.

The pattern must be a constant: only then can it be said before the query starts whether it means
the same here (see :mod:`engine.expressions.regex`).

Source: ``regexpExpressions.scala`` and ``UTF8String.split`` of Spark; ``java.util.regex.Matcher``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.datum import constant, constant_value
from engine.expressions.regex import JavaRegex, UnsupportedRegexError, compile_java_regex
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import all_null, per_row


def constant_regex(expr: Expr) -> JavaRegex | None:
    """The pattern of the second argument; None if that is NULL.

    :raises UnsupportedRegexError: it is not a constant, or cannot be translated.
    """
    literal = constant(expr.children[1])
    if literal is None:
        raise UnsupportedRegexError("the pattern must be a constant")
    return compile_java_regex(literal.as_py()) if literal.is_valid else None


def _why_not_pattern(expr: Expr, repeatedly: bool) -> str | None:
    try:
        regex = constant_regex(expr)
    except UnsupportedRegexError as error:
        return str(error)
    if repeatedly and regex is not None and regex.may_match_empty:
        return (
            f"the pattern {constant_value(expr.children[1])!r} can match an empty text, which Java"
            " also finds between the halves of characters beyond U+FFFF"
        )
    return None


def _why_not_group(expr: Expr) -> str | None:
    number = constant(expr.children[2])
    if number is None or not number.is_valid:
        return "the number of the group must be a constant"
    regex = constant_regex(expr)
    if regex is not None and not 0 <= number.as_py() <= regex.groups:
        return f"the pattern has no group {number.as_py()}, but {regex.groups}"
    return None


def _extract_supports(expr: Expr) -> str | None:
    return _why_not_pattern(expr, repeatedly=False) or _why_not_group(expr)


@strict("RegExpExtract", supports=_extract_supports)
def regexp_extract(expr: Expr, context: Context) -> ValueFunction:
    """``regexp_extract``: empty if nothing was found, or not that group."""
    regex = constant_regex(expr)
    if regex is None:
        return lambda *values: all_null(values, expr.dtype)
    search, group = regex.pattern.search, constant_value(expr.children[2])

    def first(text: str) -> str:
        match = search(text)
        return (match[group] or "") if match else ""

    return lambda s, pattern, index: per_row(first, expr.dtype, s)


def _extract_all_supports(expr: Expr) -> str | None:
    return _why_not_pattern(expr, repeatedly=True) or _why_not_group(expr)


@strict("RegExpExtractAll", supports=_extract_all_supports)
def regexp_extract_all(expr: Expr, context: Context) -> ValueFunction:
    """``regexp_extract_all``."""
    regex = constant_regex(expr)
    if regex is None:
        return lambda *values: all_null(values, expr.dtype)
    find_all, group = regex.find_all, constant_value(expr.children[2])
    return lambda s, pattern, index: per_row(
        lambda text: [match[group] or "" for match in find_all(text)], expr.dtype, s
    )


def _count_supports(expr: Expr) -> str | None:
    if any(child.dtype != pa.string() for child in expr.children):
        return "it takes two texts here: cast the arguments"
    return _why_not_pattern(expr, repeatedly=True)


@strict("RegExpCount", supports=_count_supports)
def regexp_count(expr: Expr, context: Context) -> ValueFunction:
    """``regexp_count``."""
    regex = constant_regex(expr)
    if regex is None:
        return lambda *values: all_null(values, expr.dtype)
    finditer = regex.pattern.finditer
    return lambda s, pattern: per_row(lambda text: sum(1 for _ in finditer(text)), expr.dtype, s)


def _instr_supports(expr: Expr) -> str | None:
    return _why_not_pattern(expr, repeatedly=False)


@strict("RegExpInStr", supports=_instr_supports)
def regexp_instr(expr: Expr, context: Context) -> ValueFunction:
    """``regexp_instr``: in Java's characters, of which those beyond U+FFFF are two."""
    regex = constant_regex(expr)
    if regex is None:
        return lambda *values: all_null(values, expr.dtype)
    search = regex.pattern.search

    def position(text: str) -> int:
        match = search(text)
        if match is None:
            return 0
        return match.start() + sum(char > "\uffff" for char in text[: match.start()]) + 1

    return lambda s, pattern, index: per_row(position, expr.dtype, s)


def _replace_supports(expr: Expr) -> str | None:
    reason = _why_not_pattern(expr, repeatedly=True)
    if reason is not None:
        return reason
    replacement = constant(expr.children[2])
    if replacement is None:
        return "the replacement must be a constant"
    if constant_value(expr.children[3]) != 1:
        return "it must start at position 1"
    regex = constant_regex(expr)
    if regex is None or not replacement.is_valid:
        return None
    try:
        replacement_parts(replacement.as_py(), regex)
    except UnsupportedRegexError as error:
        return str(error)
    return None


@strict("RegExpReplace", supports=_replace_supports)
def regexp_replace(expr: Expr, context: Context) -> ValueFunction:
    """``regexp_replace``: every match, with ``$1`` and ``${name}`` for groups."""
    regex, replacement = constant_regex(expr), constant_value(expr.children[2])
    if regex is None or replacement is None:
        return lambda *values: all_null(values, expr.dtype)
    parts = replacement_parts(replacement, regex)
    texts = [part for part in parts if isinstance(part, str)]
    if regex.literal is not None and len(texts) == len(parts):
        old, new = regex.literal, "".join(texts)
        return lambda s, *_: pc.replace_substring(s, old, new)
    substitute = _substitution(parts)
    sub = regex.pattern.sub
    return lambda s, *_: per_row(lambda text: sub(substitute, text), expr.dtype, s)


def _substitution(parts: list[str | int]) -> Callable[[re.Match[str]], str]:
    if not parts or (len(parts) == 1 and isinstance(parts[0], str)):
        text = str(parts[0]) if parts else ""
        return lambda match: text
    return lambda match: "".join(
        part if isinstance(part, str) else match[part] or "" for part in parts
    )


_REFERENCE = re.compile(r"\\(?P<quoted>.)|\$(?P<digits>\d+)|\$\{(?P<name>\w+)\}|(?P<wrong>[\\$])", re.S)


def replacement_parts(text: str, regex: JavaRegex) -> list[str | int]:
    """A replacement of Java: texts, and numbers of groups.

    :raises UnsupportedRegexError: Java would refuse it.
    """
    parts: list[str | int] = []
    position = 0
    for match in _REFERENCE.finditer(text):
        parts.append(text[position : match.start()])
        position = match.end()
        if match["wrong"]:
            raise UnsupportedRegexError(f"the replacement {text!r} ends within a reference")
        if match["quoted"] is not None:
            parts.append(match["quoted"])
        elif match["name"] is not None:
            if match["name"] not in regex.group_names:
                raise UnsupportedRegexError(f"the pattern has no group {match['name']!r}")
            parts.append(regex.group_names[match["name"]])
        else:
            # As many digits as there are groups: $12 is group 1 and a 2 if there are only 9.
            digits = match["digits"]
            used = 1
            while used < len(digits) and int(digits[: used + 1]) <= regex.groups:
                used += 1
            if int(digits[:used]) > regex.groups:
                raise UnsupportedRegexError(f"the pattern has no group {digits[:used]}")
            parts += [int(digits[:used]), digits[used:]]
    parts.append(text[position:])
    return [part for part in parts if part != ""]


def _split_supports(expr: Expr) -> str | None:
    if constant_value(expr.children[1]) == "":
        return None
    return _why_not_pattern(expr, repeatedly=True)


@strict("StringSplit", supports=_split_supports)
def split(expr: Expr, context: Context) -> ValueFunction:
    """``split``: by a pattern; an empty one splits into characters."""
    regex = constant_regex(expr)
    if regex is None:
        return lambda *values: all_null(values, expr.dtype)
    cutter = _characters if regex.literal == "" else _cutter(regex)

    def function(s: Datum, pattern: Datum, limit: Datum) -> Datum:
        return per_row(cutter, expr.dtype, s, limit)

    return function


def _characters(text: str, limit: int) -> list[str]:
    count = len(text) if limit <= 0 else min(limit, len(text))
    return [*text[: count - 1], text[count - 1 :]] if text else [""]


def _cutter(regex: JavaRegex) -> Callable[[str, int], list[str]]:
    if regex.literal is not None:
        literal = regex.literal
        return lambda text, limit: text.split(literal, limit - 1 if limit > 0 else -1)
    finditer = regex.pattern.finditer

    def cut(text: str, limit: int) -> list[str]:
        parts, position = [], 0
        for match in finditer(text):
            if 0 < limit <= len(parts) + 1:
                break
            parts.append(text[position : match.start()])
            position = match.end()
        return [*parts, text[position:]]

    return cut
