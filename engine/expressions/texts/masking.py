"""``mask``, ``luhn_check``, ``quote``: small functions of texts, character by character.

Source: ``maskExpressions.scala``, ``stringExpressions.scala``, ``ExpressionImplUtils`` of Spark.
"""

from __future__ import annotations

import unicodedata

from engine.expressions.datum import constant, constant_value
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row


def _mask_supports(expr: Expr) -> str | None:
    if all(constant(child) is not None for child in expr.children[1:]):
        return None
    return "what replaces characters must be constants"


@strict("Mask", supports=_mask_supports, loop=True)
def mask(expr: Expr, context: Context) -> ValueFunction:
    """``mask``: one character for upper-case letters, one for lower-case ones, one for digits and
    one for all others; NULL keeps what is there."""
    upper, lower, digit, other = (constant_value(child) for child in expr.children[1:5])

    def masked(char: str) -> str:
        if char > "\uffff":
            # Java sees two halves, which are no letters.
            return char if other is None else other * 2
        if char.isupper():
            return char if upper is None else str(upper)
        if char.islower():
            return char if lower is None else str(lower)
        if char.isdecimal():
            return char if digit is None else str(digit)
        return char if other is None else str(other)

    def function(s: Datum, *_: Datum) -> Datum:
        return per_row(lambda text: "".join(map(masked, text)), expr.dtype, s)

    return function


@strict("Luhncheck", loop=True)
def luhn_check(expr: Expr, context: Context) -> ValueFunction:
    """``luhn_check``: whether the last digit fits to the others."""
    return lambda s: per_row(_fits, expr.dtype, s)


def _fits(text: str) -> bool:
    if not text or not text.isdecimal() or any(char > "\uffff" for char in text):
        return False
    total = 0
    for position, char in enumerate(reversed(text)):
        number = unicodedata.digit(char) * (1 + position % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


@strict("Quote", loop=True)
def quote(expr: Expr, context: Context) -> ValueFunction:
    """``quote``: between single quotes, with a backslash before those inside."""
    return lambda s: per_row(lambda text: "'" + text.replace("'", "\\'") + "'", expr.dtype, s)
