"""``LIKE`` and ``RLIKE``. (``ILIKE`` is LIKE on lower-case texts, in Spark too.)

RLIKE takes Java's regular expressions as far as
:mod:`engine.expressions.texts.java_regex.pattern` knows them to mean the same.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.ansi import failure
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
_COMPILED_MAX: Final = 512
_ANY, _ONE = object(), object()
"""``%`` and ``_`` of a LIKE pattern."""


def _like_supports(expr: Expr) -> str | None:
    pattern = constant_value(expr.children[1])
    try:
        _tokens(pattern or "", expr.params["escape_char"])
    except _EscapeError as error:
        return str(error)
    return None


@strict("Like", supports=_like_supports, can_fail=has_column, loop=True, reads=("escape_char",))
def like(expr: Expr, context: Context) -> ValueFunction:
    """``%`` is any text, ``_`` any one character."""
    pattern, escape = constant(expr.children[1]), expr.params["escape_char"]
    if pattern is None:
        return lambda *values: per_row(lambda s, p: _whole_regex(p, escape)(s), _BOOL, *values)
    if not pattern.is_valid:
        return lambda value, _pattern: pa.scalar(None, _BOOL)
    matches = _matcher(constant_value(expr.children[1]), escape)
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
    regex = _regex(tokens)
    return lambda value: pc.match_substring_regex(JAVA.of(value), rf"\A{regex}\z")


def _regex(tokens: Sequence[object]) -> str:
    return "".join(
        "(?s:.*)" if token is _ANY else "(?s:.)" if token is _ONE else re.escape(str(token))
        for token in tokens
    )


@functools.lru_cache(_COMPILED_MAX)
def _whole_regex(pattern: str, escape: str) -> Callable[[str], bool]:
    """Whether a text is like the pattern of a column."""
    try:
        regex = re.compile(_regex(_tokens(pattern, escape)))
    except _EscapeError as error:
        raise failure(error.condition, f"{error}.") from None
    return lambda text: regex.fullmatch(text) is not None


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
    except _EscapeError as error:
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


class _EscapeError(ValueError):
    """The escape character stands before something that needs no escape.

    :ivar condition: Spark's.
    """

    def __init__(self, pattern: str, following: str) -> None:
        super().__init__(f"the pattern {pattern!r} has an escape where none is needed")
        where = "IN_THE_MIDDLE" if following else "AT_THE_END"
        self.condition = f"INVALID_FORMAT.ESC_{where}"


@functools.lru_cache
def _tokens(pattern: str, escape: str) -> list[object]:
    """Characters, ``_ANY`` and ``_ONE``.

    :raises _EscapeError: the escape character stands before something that needs no escape.
    """
    tokens: list[object] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == escape:
            following = pattern[position : position + 1]
            if following not in (escape, "%", "_") or not following:
                raise _EscapeError(pattern, following)
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
