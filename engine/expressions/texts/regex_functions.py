"""Functions of regular expressions: extract, count, replace, split.

The pattern must be a constant: only then can it be said before the query starts whether it means
the same here (see :mod:`engine.expressions.texts.java_regex`).

Source: ``regexpExpressions.scala`` and ``UTF8String.split`` of Spark; ``java.util.regex.Matcher``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.datum import constant, constant_value
from engine.expressions.malformed import CHARACTERS, JAVA, value_of
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.texts.java_regex import JavaRegex, UnsupportedRegexError, compile_java_regex
from engine.expressions.tree import Expr
from engine.expressions.vectors import all_null, per_row


def _constant_regex(expr: Expr) -> JavaRegex | None:
    """The pattern of the second argument; None if that is NULL.

    :raises UnsupportedRegexError: it is not a constant, or cannot be translated.
    """
    literal = constant(expr.children[1])
    if literal is None:
        raise UnsupportedRegexError("the pattern must be a constant")
    return compile_java_regex(value_of(literal)) if literal.is_valid else None


def _found_once(expr: Expr) -> str | None:
    try:
        _constant_regex(expr)
    except UnsupportedRegexError as error:
        return str(error)
    return None


def _found_repeatedly(expr: Expr) -> str | None:
    if reason := _found_once(expr):
        return reason
    regex = _constant_regex(expr)
    if regex is None or not regex.may_match_empty:
        return None
    return (
        f"the pattern {constant_value(expr.children[1])!r} can match an empty text, which Java"
        " also finds between the halves of characters beyond U+FFFF"
    )


def _why_not_group(expr: Expr) -> str | None:
    number = constant(expr.children[2])
    if number is None or not number.is_valid:
        return "the number of the group must be a constant"
    regex = _constant_regex(expr)
    if regex is not None and not 0 <= number.as_py() <= regex.groups:
        return f"the pattern has {regex.groups} groups and no group {number.as_py()}"
    return None


@rowwise_factory(
    "RegExpExtract",
    supports=lambda expr: _found_once(expr) or _why_not_group(expr),
    arguments=(0,),
)
def regexp_extract(expr: Expr) -> RowFunction | None:
    """``regexp_extract``: empty if nothing was found, or not that group."""
    regex = _constant_regex(expr)
    if regex is None:
        return None
    search, group = regex.pattern.search, constant_value(expr.children[2])

    def first(text: str) -> str:
        match = search(text)
        return (match[group] or "") if match else ""

    return first


@rowwise_factory(
    "RegExpExtractAll",
    supports=lambda expr: _found_repeatedly(expr) or _why_not_group(expr),
    arguments=(0,),
)
def regexp_extract_all(expr: Expr) -> RowFunction | None:
    """``regexp_extract_all``."""
    regex = _constant_regex(expr)
    if regex is None:
        return None
    finditer, group = regex.pattern.finditer, constant_value(expr.children[2])
    return lambda text: [match[group] or "" for match in finditer(text)]


def _count_supports(expr: Expr) -> str | None:
    if any(child.dtype != pa.string() for child in expr.children):
        return "it takes two texts here: cast the arguments"
    return _found_repeatedly(expr)


@rowwise_factory("RegExpCount", supports=_count_supports, arguments=(0,))
def regexp_count(expr: Expr) -> RowFunction | None:
    """``regexp_count``."""
    regex = _constant_regex(expr)
    if regex is None:
        return None
    finditer = regex.pattern.finditer
    return lambda text: sum(1 for _ in finditer(text))


@rowwise_factory("RegExpInStr", supports=_found_once, arguments=(0,))
def regexp_instr(expr: Expr) -> RowFunction | None:
    """``regexp_instr``: in Java's characters, of which those beyond U+FFFF are two."""
    regex = _constant_regex(expr)
    if regex is None:
        return None
    search = regex.pattern.search

    def position(text: str) -> int:
        match = search(text)
        if match is None:
            return 0
        return match.start() + sum(char > "\uffff" for char in text[: match.start()]) + 1

    return position


def _replace_supports(expr: Expr) -> str | None:
    if reason := _found_repeatedly(expr):
        return reason
    replacement = constant(expr.children[2])
    if replacement is None:
        return "the replacement must be a constant"
    if constant_value(expr.children[3]) != 1:
        return "it must start at position 1"
    regex = _constant_regex(expr)
    if regex is None or not replacement.is_valid:
        return None
    try:
        replacement_parts(value_of(replacement), regex)
    except UnsupportedRegexError as error:
        return str(error)
    return None


@strict("RegExpReplace", supports=_replace_supports, loop=True)
def regexp_replace(expr: Expr, context: Context) -> ValueFunction:
    """``regexp_replace``: every match, with ``$1`` and ``${name}`` for groups."""
    regex, replacement = _constant_regex(expr), constant_value(expr.children[2])
    if regex is None or replacement is None:
        return lambda *values: all_null(values, expr.dtype)
    parts = replacement_parts(replacement, regex)
    texts = [part for part in parts if isinstance(part, str)]
    if regex.literal is not None and len(texts) == len(parts):
        old, new = regex.literal, "".join(texts)
        return lambda s, *_: pc.replace_substring(JAVA.of(s), old, new)
    substitute, sub = _substitution(parts), regex.pattern.sub
    return lambda s, *_: per_row(lambda text: sub(substitute, text), expr.dtype, s)


def _substitution(parts: list[str | int]) -> Callable[[re.Match[str]], str]:
    return lambda match: "".join(
        part if isinstance(part, str) else match[part] or "" for part in parts
    )


_REFERENCE: Final = re.compile(
    r"\\(?P<quoted>.)|\$(?P<digits>[0-9]+)|\$\{(?P<name>\w+)\}|(?P<wrong>[\\$])", re.DOTALL
)


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
            raise UnsupportedRegexError(f"the replacement {text!r} has an incomplete reference")
        if match["quoted"] is not None:
            parts.append(match["quoted"])
        elif match["name"] is not None:
            if match["name"] not in regex.group_names:
                raise UnsupportedRegexError(f"the pattern has no group {match['name']!r}")
            parts.append(regex.group_names[match["name"]])
        else:
            # As many digits as there are groups: $12 is group 1 and a 2 if there are only 9.
            digits, used = match["digits"], 1
            while used < len(digits) and int(digits[: used + 1]) <= regex.groups:
                used += 1
            if int(digits[:used]) > regex.groups:
                raise UnsupportedRegexError(f"the pattern has no group {digits[:used]}")
            parts += [int(digits[:used]), digits[used:]]
    parts.append(text[position:])
    return [part for part in parts if part != ""]


def _split_supports(expr: Expr) -> str | None:
    return None if constant_value(expr.children[1]) == "" else _found_repeatedly(expr)


@strict(
    "StringSplit",
    supports=_split_supports,
    presumes=("spark.sql.legacy.truncateForEmptyRegexSplit",),
    loop=True,
)
def split(expr: Expr, context: Context) -> ValueFunction:
    """``split``: by a pattern; an empty one splits into characters."""
    regex = _constant_regex(expr)
    if regex is None:
        return lambda *values: all_null(values, expr.dtype)
    if regex.literal == "":
        return lambda s, _, limit: per_row(_characters, expr.dtype, s, limit, malformed=CHARACTERS)
    cut = cutter(regex)
    return lambda s, _, limit: per_row(cut, expr.dtype, s, limit)


def _characters(text: str, limit: int) -> list[str]:
    count = len(text) if limit <= 0 else min(limit, len(text))
    return [*text[: count - 1], text[count - 1 :]] if text else [""]


def cutter(regex: JavaRegex) -> Callable[[str, int], list[str]]:
    """A function that splits a text into so many parts at most; any number if that is not > 0."""
    if regex.literal is not None:
        literal = regex.literal
        return lambda text, limit: text.split(literal, limit - 1 if limit > 0 else -1)
    finditer = regex.pattern.finditer

    def cut(text: str, limit: int) -> list[str]:
        parts: list[str] = []
        position = 0
        for match in finditer(text):
            if 0 < limit <= len(parts) + 1:
                break
            parts.append(text[position : match.start()])
            position = match.end()
        return [*parts, text[position:]]

    return cut
