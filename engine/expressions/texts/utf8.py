"""Texts that may be no UTF-8: ``is_valid_utf8``, ``make_valid_utf8``, ``validate_utf8``.

Source: ``stringExpressions.scala`` and ``UTF8String.makeValid`` of Spark.
"""

from __future__ import annotations

from engine.expressions.ansi import failure
from engine.expressions.malformed import BYTES, VALID, is_utf8
from engine.expressions.registry import Context, Datum, ValueFunction, always, strict
from engine.expressions.rowwise import rowwise
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row


@rowwise("IsValidUTF8", malformed=BYTES)
def is_valid_utf8(text: str | bytes) -> bool:
    """``is_valid_utf8``."""
    try:
        return isinstance(text, str) or text.decode() is not None
    except UnicodeDecodeError:
        return False


@strict("MakeValidUTF8", "TryValidateUTF8", loop=True)
def repair(expr: Expr, context: Context) -> ValueFunction:
    """``make_valid_utf8`` puts U+FFFD for what is malformed, ``try_validate_utf8`` NULL."""

    if expr.op == "MakeValidUTF8":
        return VALID.of

    def kept(octets: bytes) -> str | None:
        try:
            return octets.decode()
        except UnicodeDecodeError:
            return None

    return lambda s: s if is_utf8(s) else per_row(kept, expr.dtype, s, malformed=BYTES)


@strict("ValidateUTF8", can_fail=always)
def validate(expr: Expr, context: Context) -> ValueFunction:
    """``validate_utf8``: raises for what is malformed."""

    def function(s: Datum) -> Datum:
        if not is_utf8(s):
            raise failure("INVALID_UTF8_STRING", "A text is no valid UTF-8.")
        return s

    return function
