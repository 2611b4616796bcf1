"""``mask``, ``luhn_check``, ``quote``: small functions of texts, character by character.

Source: ``maskExpressions.scala``, ``stringExpressions.scala``, ``ExpressionImplUtils`` of Spark.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from engine.expressions.datum import constant, constant_value
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.rowwise import RowFunction, rowwise, rowwise_factory
from engine.expressions.texts.java_regex.unicode import unicode_of
from engine.expressions.texts.regex_patterns import JAVA_VERSION, java_of
from engine.expressions.tree import Expr


def _mask_supports(expr: Expr) -> str | None:
    if not all(constant(child) is not None for child in expr.children[1:]):
        return "what replaces characters must be constants"
    return _why_unknown(expr)


def _why_unknown(expr: Expr) -> str | None:
    if unicode_of(java_of(expr)) is None:
        return f"the characters of Java {java_of(expr)} are not known"
    return None


def _category(expr: Expr) -> Callable[[str], str]:
    """Which letters and digits there are depends on Spark's Java, not on Python."""
    known = unicode_of(java_of(expr))
    assert known is not None
    return known.category_of


@rowwise_factory(
    "Mask", supports=_mask_supports, arguments=(0,), reads=(SPARK_VERSION, JAVA_VERSION)
)
def mask(expr: Expr) -> RowFunction:
    """``mask``: one character for upper-case letters, one for lower-case ones, one for digits and
    one for all others; NULL keeps what is there. Before Spark 4.3 characters beyond U+FFFF are two,
    which are no letters."""
    by_halves = not is_since(expr, "4.3.0")
    upper, lower, digit, other = (constant_value(child) for child in expr.children[1:5])
    marks = {"Lu": upper, "Ll": lower, "Nd": digit}
    category = _category(expr)

    def masked(char: str) -> str:
        if by_halves and char > "\uffff":
            return char if other is None else other * 2
        mark = marks.get(category(char), other)
        return char if mark is None else str(mark)

    return lambda text: "".join(map(masked, text))


@rowwise_factory("Luhncheck", supports=_why_unknown, reads=(JAVA_VERSION,))
def luhn_check(expr: Expr) -> RowFunction:
    """``luhn_check``: whether the last digit fits to the others."""
    category = _category(expr)

    def fits(text: str) -> bool:
        if not text or any(char > "\uffff" or category(char) != "Nd" for char in text):
            return False
        total = 0
        for position, char in enumerate(reversed(text)):
            number = unicodedata.digit(char) * (1 + position % 2)
            total += number - 9 if number > 9 else number
        return total % 10 == 0

    return fits


@rowwise("Quote")
def quote(text: str) -> str:
    """``quote``: between single quotes, with a backslash before those inside."""
    return "'" + text.replace("'", "\\'") + "'"
