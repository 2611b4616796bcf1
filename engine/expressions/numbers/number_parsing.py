"""``to_number``, ``try_to_number``: a text by a pattern of numbers.

Source: ``numberFormatExpressions.scala``, ``ToNumberParser.scala`` of Spark.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from engine.expressions.ansi import failure, numeric_value_out_of_range
from engine.expressions.java_characters import DIGIT, WHITESPACE
from engine.expressions.numbers.number_patterns import (
    NumberPattern,
    Run,
    not_constant,
    pattern_of,
)
from engine.expressions.registry import always
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.tree import Expr

_DIGITS: Final = re.compile(rf"(?:{DIGIT}|[,{WHITESPACE}])*")
_SIGNS: Final = {"S": "+-", "MI": "-"}


@rowwise_factory("ToNumber", "TryToNumber", can_fail=always, supports=not_constant, arguments=(0,))
def to_number(expr: Expr) -> RowFunction | None:
    """``to_number``: fails for a text that is not like the pattern; ``try_to_number`` is NULL then.
    Both fail for a number that has whole digits where the pattern has none."""
    pattern = pattern_of(expr)
    if pattern is None:
        return None
    strictly = expr.op == "ToNumber"

    def read(text: str) -> Decimal | None:
        number = parse_number(text, pattern)
        if number is None and strictly:
            raise failure(
                "INVALID_FORMAT.MISMATCH_INPUT",
                f"The text {text!r} is not like the pattern {pattern.text!r}.",
                "Correct the text or the pattern, or use try_to_number to get NULL instead.",
            )
        return number

    return read


def parse_number(text: str, pattern: NumberPattern) -> Decimal | None:
    """The number, with as many places as the pattern has; None if the text is not like it."""
    position, negative, behind = 0, False, False
    whole, fraction, bracket = "", "", ""
    for part in pattern.tokens:
        if not isinstance(part, str):
            match = _DIGITS.match(text, position)
            assert match is not None
            digits = _digits(match[0], part)
            if digits is None:
                return None
            position = match.end()
            whole, fraction = (whole, fraction + digits) if behind else (whole + digits, fraction)
            continue
        if position == len(text):
            continue
        if text[position] not in _SIGNS.get(part, part):
            if part == "$":
                return None
            continue
        if part == ">" and not bracket:
            return None
        if part in "<>":
            bracket += part
        negative ^= part == ">" or (part in _SIGNS and text[position] == "-")
        behind |= part == "."
        position += 1
    if position < len(text) or bracket == "<" or not whole + fraction:
        return None
    return _fitting(f"{'-' * negative}{whole}.{fraction:0<{pattern.scale}}", pattern)


def _digits(text: str, runs: tuple[Run, ...]) -> str | None:
    """The digits of a text of groups, of which the first may be missing."""
    groups = re.sub(f"[{WHITESPACE}]", "", text).split(",")
    if len(groups) > len(runs):
        return None
    missing = [""] * (len(runs) - len(groups))
    for group, run in zip(missing + groups, runs, strict=True):
        if len(group) > run.length or (run.exact and len(group) < run.length):
            return None
    return "".join(groups)


def _fitting(digits: str, pattern: NumberPattern) -> Decimal:
    number, places = Decimal(digits), pattern.scale
    if number.copy_abs() >= 10**pattern.whole_digits:
        raise numeric_value_out_of_range(number, pattern.whole_digits + places, places)
    return number
