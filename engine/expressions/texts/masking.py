"""``mask``, ``luhn_check``, ``quote``: small functions of texts, character by character.

Source: ``maskExpressions.scala``, ``stringExpressions.scala``, ``ExpressionImplUtils`` of Spark.
"""

from __future__ import annotations

import unicodedata

from engine.expressions.datum import constant, constant_value
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.rowwise import RowFunction, rowwise, rowwise_factory
from engine.expressions.tree import Expr


def _mask_supports(expr: Expr) -> str | None:
    if all(constant(child) is not None for child in expr.children[1:]):
        return None
    return "what replaces characters must be constants"


@rowwise_factory("Mask", supports=_mask_supports, arguments=(0,), reads=(SPARK_VERSION,))
def mask(expr: Expr) -> RowFunction:
    """``mask``: one character for upper-case letters, one for lower-case ones, one for digits and
    one for all others; NULL keeps what is there. Before Spark 4.3 characters beyond U+FFFF are two,
    which are no letters."""
    by_halves = not is_since(expr, "4.3.0")
    upper, lower, digit, other = (constant_value(child) for child in expr.children[1:5])
    marks = {"Lu": upper, "Ll": lower, "Nd": digit}

    def masked(char: str) -> str:
        if by_halves and char > "\uffff":
            return char if other is None else other * 2
        mark = marks.get(unicodedata.category(char), other)
        return char if mark is None else str(mark)

    return lambda text: "".join(map(masked, text))


@rowwise("Luhncheck")
def luhn_check(text: str) -> bool:
    """``luhn_check``: whether the last digit fits to the others."""
    if not text or not text.isdecimal() or any(char > "\uffff" for char in text):
        return False
    total = 0
    for position, char in enumerate(reversed(text)):
        number = unicodedata.digit(char) * (1 + position % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


@rowwise("Quote")
def quote(text: str) -> str:
    """``quote``: between single quotes, with a backslash before those inside."""
    return "'" + text.replace("'", "\\'") + "'"
