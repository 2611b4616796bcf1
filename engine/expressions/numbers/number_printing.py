"""``to_char`` of a number: a text by a pattern of numbers.

Source: ``numberFormatExpressions.scala``, ``ToNumberParser.scala`` of Spark.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

from engine.expressions.numbers.number_patterns import (
    NumberPattern,
    Run,
    not_constant,
    pattern_of,
)
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.tree import Expr


@rowwise_factory("ToCharacter", supports=not_constant, arguments=(0,))
def to_char(expr: Expr) -> RowFunction | None:
    """``to_char``, ``to_varchar`` of a number: ``#`` for each digit of one that is too long."""
    pattern = pattern_of(expr)
    return None if pattern is None else partial(format_number, pattern=pattern)


def format_number(number: Decimal, pattern: NumberPattern) -> str:
    """The number as the pattern says."""
    digits, places = _padded(number, pattern)
    negative, behind = number < 0, False
    text = ""
    for part in pattern.tokens:
        if not isinstance(part, str):
            length = sum(run.length for run in part)
            if behind:
                text, places = text + places[:length], places[length:]
            else:
                text, digits = _grouped(text, digits[:length], part), digits[length:]
        elif part == ".":
            behind = True
            text = f"{text[:-1]}0." if text.endswith(" ") else f"{text}."
        elif part == "$":
            text += "$"
        elif part == "S":
            text = _signed(_without_lone_point(text), "-" if negative else "+")
        elif part == "MI":
            text = _signed(_without_lone_point(text), "-") if negative else f"{text} "
        elif part == "<":
            text = "<" * negative
        else:
            text = _without_lone_point(text)
            text = _signed(text, ">") if negative else f"{text}  "
    text = _without_lone_point(text)
    return "0" if text in ("", "+", "-") else text


def _padded(number: Decimal, pattern: NumberPattern) -> tuple[str, str]:
    """As many digits before and behind the point as the pattern has; spaces lead."""
    whole, _, fraction = f"{number.copy_abs():f}".partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    if len(whole) > pattern.whole_digits or len(fraction) > pattern.scale:
        return "#" * pattern.whole_digits, "#" * pattern.scale
    return whole.rjust(pattern.whole_digits), fraction.ljust(pattern.scale, "0")


def _grouped(text: str, digits: str, runs: tuple[Run, ...]) -> str:
    start = 0
    for number, run in enumerate(runs):
        if number:
            text = f"{text}," if text[-1:].isdecimal() else _spaced(text)
        for digit in digits[start : start + run.length]:
            if digit != " ":
                text += digit
            else:
                text = f"{text}0" if run.exact else _spaced(text)
        start += run.length
    return text


def _spaced(text: str) -> str:
    """With a space, which goes before a sign or a bracket."""
    bare = text.rstrip("+-<")
    return f"{bare} {text[len(bare) :]}"


def _signed(text: str, sign: str) -> str:
    """With a sign, which goes before spaces at the end."""
    bare = text.rstrip(" ")
    return f"{bare}{sign}{text[len(bare) :]}"


def _without_lone_point(text: str) -> str:
    """A point that no digit follows becomes a space."""
    point = text.find(".")
    if point >= 0 and text[point + 1 : point + 2] in ("", " "):
        return f"{text[:point]} {text[point + 1 :]}"
    return text
