"""``LIKE`` and ``RLIKE``. (``ILIKE`` is LIKE on lower-case texts, in Spark too.)

Patterns of LIKE are constants. RLIKE takes Java's regular expressions as far as
:mod:`engine.expressions.texts.java_regex.pattern` knows them to mean the same.
"""

from __future__ import annotations

import functools
import re

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.buffers import is_ascii
from engine.expressions.datum import constant, constant_value
from engine.expressions.malformed import JAVA
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.texts.regex_patterns import (
    JAVA_VERSION,
    constant_regex,
    for_spark_function,
    has_column,
    why_no_pattern,
)
from engine.expressions.texts.strings import characters_of
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row

_BOOL = pa.bool_()
_ESCAPE = "\\"
_ANY, _ONE = object(), object()
"""``%`` and ``_`` of a LIKE pattern."""


def _constant_pattern(expr: Expr) -> str | None:
    if constant(expr.children[1]) is None:
        return "the pattern must be a constant"
    return None


def _like_supports(expr: Expr) -> str | None:
    if reason := _constant_pattern(expr):
        return reason
    pattern = constant_value(expr.children[1])
    try:
        _tokens(pattern or "", expr.params["escape_char"])
    except ValueError as error:
        return str(error)
    return None


@strict("Like", supports=_like_supports, loop=True, reads=("escape_char",))
def like(expr: Expr, context: Context) -> ValueFunction:
    """``%`` is any text, ``_`` any one character."""
    pattern = constant_value(expr.children[1])
    if pattern is None:
        return lambda value, _pattern: pa.scalar(None, _BOOL)
    matches = _matcher(pattern, expr.params["escape_char"])
    return lambda value, _pattern: matches(value)


def _matcher(pattern: str, escape: str) -> ValueFunction:
    """The function of a text that tells whether it is like the pattern."""
    tokens = _tokens(pattern, escape)
    text = "".join(token for token in tokens if isinstance(token, str))
    wildcards = [index for index, token in enumerate(tokens) if not isinstance(token, str)]
    if not wildcards:
        return lambda value: pc.equal(value, text)
    if all(token is not _ONE for token in tokens):
        last = len(tokens) - 1
        if wildcards == [last]:
            return lambda value: pc.starts_with(value, text)
        if wildcards == [0]:
            return lambda value: pc.ends_with(value, text)
        if wildcards == [0, last]:
            return lambda value: pc.match_substring(value, text)
        if len(wildcards) == 1 and escape not in pattern:
            return _with_ends(pattern[: wildcards[0]], pattern[wildcards[0] + 1 :])
    regex = "".join(
        "(?s:.*)" if token is _ANY else "(?s:.)" if token is _ONE else re.escape(str(token))
        for token in tokens
    )
    return lambda value: pc.match_substring_regex(JAVA.of(value), rf"\A{regex}\z")


def _with_ends(prefix: str, suffix: str) -> ValueFunction:
    """Spark's own rewriting (``LikeSimplification``), which counts characters: it differs from the
    regular expression for a text that is no UTF-8."""
    least = pa.scalar(len(prefix) + len(suffix), pa.int32())
    return lambda value: pc.and_(
        pc.and_(pc.starts_with(value, prefix), pc.ends_with(value, suffix)),
        pc.greater_equal(characters_of(value), least),
    )


def _like_many_supports(expr: Expr) -> str | None:
    try:
        for pattern in expr.params["patterns"]:
            _tokens(pattern or "", _ESCAPE)
    except ValueError as error:
        return str(error)
    return None


@strict(
    "LikeAny",
    "LikeAll",
    "NotLikeAny",
    "NotLikeAll",
    supports=_like_many_supports,
    reads=("patterns",),
)
def like_many(expr: Expr, context: Context) -> ValueFunction:
    """``LIKE ANY (...)`` and ``LIKE ALL (...)`` with constants, of which some may be NULL."""
    patterns = expr.params["patterns"]
    matchers = [_matcher(pattern, _ESCAPE) for pattern in patterns if pattern is not None]
    unknown = len(matchers) < len(patterns)
    combine = pc.or_kleene if expr.op.endswith("Any") else pc.and_kleene

    def function(value: Datum) -> Datum:
        answers = [matches(value) for matches in matchers]
        if expr.op.startswith("Not"):
            answers = [pc.invert(answer) for answer in answers]
        if unknown:
            answers.append(pa.scalar(None, _BOOL))
        result = answers[0]
        for answer in answers[1:]:
            result = combine(result, answer)
        return pc.if_else(pc.is_valid(value), result, pa.scalar(None, _BOOL))

    return function


@functools.lru_cache
def _tokens(pattern: str, escape: str) -> list[object]:
    """Characters, ``_ANY`` and ``_ONE``.

    :raises ValueError: the escape character stands before something that needs no escape.
    """
    tokens: list[object] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == escape:
            following = pattern[position : position + 1]
            if following not in (escape, "%", "_") or not following:
                raise ValueError(f"the pattern {pattern!r} has an escape where none is needed")
            tokens.append(following)
            position += 1
        elif char in "%_":
            tokens.append(_ANY if char == "%" else _ONE)
        else:
            tokens.append(char)
    return tokens


def _is_ascii(value: Datum) -> bool:
    return isinstance(value, pa.Array) and is_ascii(value)


@strict("RLike", supports=why_no_pattern, can_fail=has_column, loop=True, reads=(JAVA_VERSION,))
def rlike(expr: Expr, context: Context) -> ValueFunction:
    """Whether the regular expression is found anywhere in the text."""
    regex = constant_regex(expr)
    if regex is None:
        compiled = for_spark_function("rlike", expr)
        return lambda *values: per_row(lambda s, p: compiled(p).finds(s), _BOOL, *values)
    if regex.literal is not None:
        literal = regex.literal
        return lambda value, _pattern: pc.match_substring(JAVA.of(value), literal)

    def found(value: Datum, _pattern: Datum) -> Datum:
        if regex.re2 is not None and not (regex.ascii_only and not _is_ascii(value)):
            return pc.match_substring_regex(JAVA.of(value), regex.re2)
        return per_row(regex.finds, _BOOL, value)

    return found
