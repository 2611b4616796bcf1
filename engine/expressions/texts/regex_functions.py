"""Functions of regular expressions: extract, count, find.

Source: ``regexpExpressions.scala`` of Spark; ``java.util.regex.Matcher``.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from engine.expressions.ansi import failure
from engine.expressions.datum import constant
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.texts.regex_patterns import (
    JAVA_VERSION,
    constant_regex,
    for_spark_function,
    has_column,
    why_no_pattern,
)
from engine.expressions.tree import Expr

_HALVES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""A character beyond U+FFFF, as Java has it."""


def _why_no_group(expr: Expr) -> str | None:
    if reason := why_no_pattern(expr):
        return reason
    regex, number = constant_regex(expr), constant(expr.children[2])
    if regex is None or number is None or not number.is_valid:
        return None
    if not 0 <= number.as_py() <= regex.groups:
        return f"the pattern has {regex.groups} groups and no group {number.as_py()}"
    return None


def _check_group(name: str, number: int, groups: int) -> None:
    if not 0 <= number <= groups:
        raise failure(
            "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX",
            f"The value of parameter(s) `idx` in `{name}` is invalid: Expects group index between "
            f"0 and {groups}, but got {number}.",
        )


@rowwise_factory(
    "RegExpExtract", supports=_why_no_group, can_fail=has_column, reads=(JAVA_VERSION,)
)
def regexp_extract(expr: Expr) -> RowFunction:
    """``regexp_extract``: empty if nothing was found, or not that group."""
    compiled = for_spark_function("regexp_extract", expr)

    def first(text: str, pattern: str, number: int) -> str:
        regex = compiled(pattern)
        finder, subject = regex.on(text)
        match = finder.search(subject)
        if match is None:
            return ""
        _check_group("regexp_extract", number, regex.groups)
        return finder.text(finder.group(match, number) or "")

    return first


@rowwise_factory(
    "RegExpExtractAll", supports=_why_no_group, can_fail=has_column, reads=(JAVA_VERSION,)
)
def regexp_extract_all(expr: Expr) -> RowFunction:
    """``regexp_extract_all``."""
    compiled = for_spark_function("regexp_extract_all", expr)

    def every(text: str, pattern: str, number: int) -> list[str]:
        regex = compiled(pattern)
        finder, subject = regex.on(text)
        found = []
        for match in finder.every(subject):
            _check_group("regexp_extract_all", number, regex.groups)
            found.append(finder.text(finder.group(match, number) or ""))
        return found

    return every


def _count_supports(expr: Expr) -> str | None:
    if any(child.dtype != pa.string() for child in expr.children):
        return "it takes two texts here: cast the arguments"
    return why_no_pattern(expr)


@rowwise_factory(
    "RegExpCount", supports=_count_supports, can_fail=has_column, reads=(JAVA_VERSION,)
)
def regexp_count(expr: Expr) -> RowFunction:
    """``regexp_count``."""
    compiled = for_spark_function("regexp_extract_all", expr)  # which Spark puts in its place

    def count(text: str, pattern: str) -> int:
        finder, subject = compiled(pattern).on(text)
        return sum(1 for _ in finder.every(subject))

    return count


@rowwise_factory(
    "RegExpInStr",
    supports=why_no_pattern,
    can_fail=has_column,
    reads=(JAVA_VERSION, SPARK_VERSION),
)
def regexp_instr(expr: Expr) -> RowFunction:
    """``regexp_instr``: in characters, since Spark 4.1.4, 4.2.1 and 4.3.0; before in those of Java,
    of which those beyond U+FFFF are two."""
    compiled = for_spark_function("regexp_instr", expr)
    in_characters = is_since(expr, "4.1.4", "4.2.1", "4.3.0")

    def position(text: str, pattern: str, _group: int) -> int:
        finder, subject = compiled(pattern).on(text)
        match = finder.search(subject)
        if match is None:
            return 0
        before = subject[: match.start()]
        return len(before) + 1 - (len(_HALVES.findall(before)) if in_characters else 0)

    return position
