"""Texts that may be no UTF-8: ``is_valid_utf8``, ``make_valid_utf8``, ``validate_utf8``.

Source: ``stringExpressions.scala`` and ``UTF8String.makeValid`` of Spark.
"""

from __future__ import annotations

import pyarrow as pa

from engine.expressions.ansi import failure
from engine.expressions.registry import Context, Datum, ValueFunction, always, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row


def _is_utf8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _all_valid(texts: Datum) -> bool:
    try:
        (texts if isinstance(texts, pa.Array) else pa.repeat(texts, 1)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


@strict("IsValidUTF8", loop=True)
def is_valid_utf8(expr: Expr, context: Context) -> ValueFunction:
    """``is_valid_utf8``."""
    return lambda s: per_row(_is_utf8, expr.dtype, s.cast(pa.binary()))


@strict("MakeValidUTF8", "TryValidateUTF8", loop=True)
def repair(expr: Expr, context: Context) -> ValueFunction:
    """``make_valid_utf8`` puts U+FFFD for what is malformed, ``try_validate_utf8`` NULL."""

    def repaired(octets: bytes) -> str | None:
        if expr.op == "TryValidateUTF8" and not _is_utf8(octets):
            return None
        return octets.decode(errors="replace")

    return lambda s: s if _all_valid(s) else per_row(repaired, expr.dtype, s.cast(pa.binary()))


@strict("ValidateUTF8", can_fail=always)
def validate(expr: Expr, context: Context) -> ValueFunction:
    """``validate_utf8``: raises for what is malformed."""

    def function(s: Datum) -> Datum:
        if not _all_valid(s):
            raise failure("INVALID_UTF8_STRING", "A text is no valid UTF-8.")
        return s

    return function
