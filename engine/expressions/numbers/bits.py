"""Whole numbers as bits and digits: bitwise operations, shifts, other bases, factorial.

Source: ``bitwiseExpressions.scala``, ``mathExpressions.scala``, ``NumberConverter.scala`` of Spark.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from engine.expressions.ansi import failure
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.rowwise import RowFunction, rowwise, rowwise_factory
from engine.expressions.tree import Expr
from engine.expressions.vectors import on_numpy

_MASK: Final = 2**64 - 1
_BITWISE: Final = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "BitwiseNot": np.invert,
}


@strict(*_BITWISE)
def bitwise(expr: Expr, context: Context) -> ValueFunction:
    """``&``, ``|``, ``^``, ``~``."""
    function = _BITWISE[expr.op]
    return lambda *values: on_numpy(function, expr.dtype, *values)


@strict("ShiftLeft", "ShiftRight", "ShiftRightUnsigned")
def shift(expr: Expr, context: Context) -> ValueFunction:
    """``<<``, ``>>``, ``>>>``: by the lowest 5 bits of the distance, 6 for BIGINT, as in Java."""
    width = expr.dtype.bit_width

    def compute(value: Any, distance: Any) -> Any:
        by = distance & (width - 1)
        if expr.op == "ShiftLeft":
            return value << by
        if expr.op == "ShiftRight":
            return value >> by
        unsigned = np.uint64 if width == 64 else np.uint32
        return (value.astype(unsigned) >> by.astype(unsigned)).astype(np.int64)

    return lambda value, distance: on_numpy(compute, expr.dtype, value, distance)


@rowwise("BitwiseCount")
def bit_count(value: int | bool) -> int:
    """``bit_count``: of 64 bits, whatever the type."""
    return (int(value) & _MASK).bit_count()


@rowwise_factory("BitwiseGet", can_fail=always)
def bit_get(expr: Expr) -> RowFunction:
    """``getbit``, counted from the right."""
    width = expr.children[0].dtype.bit_width

    def compute(value: int, position: int) -> int:
        if not 0 <= position < width:
            raise failure(
                "INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE",
                f"The bit position {position} is not between 0 and {width - 1}.",
            )
        return value >> position & 1

    return compute


@rowwise("Factorial")
def factorial(value: int) -> int | None:
    """``factorial``: NULL outside of 0 to 20."""
    return math.factorial(value) if 0 <= value <= 20 else None


@rowwise("Bin")
def binary_digits(value: int) -> str:
    """``bin``: the 64 bits without leading zeros."""
    return f"{value & _MASK:b}"


_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@rowwise_factory(
    "Conv", can_fail=lambda expr: bool(expr.params["ansi_enabled"]), reads=("ansi_enabled",)
)
def conv(expr: Expr) -> RowFunction:
    """``conv``: through an unsigned number of 64 bits; a negative base means signed output."""
    strictly = bool(expr.params["ansi_enabled"])

    def compute(text: str, from_base: int, to_base: int) -> str | None:
        text = text.strip(" ")
        if not (2 <= from_base <= 36 and 2 <= abs(to_base) <= 36 and text):
            return None
        negative = text.startswith("-")
        value = _leading_number(text[negative:], from_base)
        if value > _MASK:
            if strictly:
                raise failure("ARITHMETIC_OVERFLOW", "Overflow in function conv().")
            value = _MASK
        return _printed(value, negative, to_base)

    return compute


def _leading_number(text: str, base: int) -> int:
    """Reads digits up to the first character that is none; of a number of more than 64 bits only
    that it is one, or its length would count twice."""
    value = 0
    for char in text:
        digit = _DIGITS.find(char.upper()) if char.isascii() else -1
        if not 0 <= digit < base:
            break
        value = min(value * base + digit, _MASK + 1)
    return value


def _printed(value: int, negative: bool, base: int) -> str:
    is_signed_negative = value >= 2**63
    if negative and base > 0:
        value = _MASK if is_signed_negative else -value & _MASK
    elif base < 0 and is_signed_negative:
        value, negative = -value & _MASK, True
    digits = ""
    while value or not digits:
        value, digit = divmod(value, abs(base))
        digits = _DIGITS[digit] + digits
    return f"-{digits}" if negative and base < 0 else digits
