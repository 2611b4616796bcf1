"""``lpad`` and ``rpad``, of texts and BINARY: what is longer is cut.

Source: ``StringLPad``, ``StringRPad`` and ``BinaryPad`` in ``stringExpressions.scala`` of Spark;
``UTF8String.java``; ``ByteArray.java``.
"""

from __future__ import annotations

from typing import Any, TypeVar

from engine.expressions.datum import constant_value
from engine.expressions.java_errors import arithmetic_exception, java_error
from engine.expressions.malformed import CHARACTERS
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.tree import Expr

_Text = TypeVar("_Text", str, bytes, tuple[bytes, ...])

_INT_MIN = -(2**31)


def _knows_negative(expr: Expr) -> bool:
    """Whether nothing is left of a negative length."""
    return is_since(expr, "4.1.4", "4.2.1", "4.3.0")


def _can_fail(expr: Expr) -> bool:
    length = constant_value(expr.children[1])
    return not _knows_negative(expr) and (length is None or length < 0)


@rowwise_factory(
    "StringLPad",
    "StringRPad",
    can_fail=_can_fail,
    reads=(SPARK_VERSION,),
    unbounded=True,
    malformed=CHARACTERS,
)
def pad_text(expr: Expr) -> RowFunction:
    """``lpad`` and ``rpad`` of a text."""
    padded = _before if expr.op == "StringLPad" else _behind
    if _knows_negative(expr):
        return padded

    def checked(text: Any, length: int, with_: Any) -> Any:
        if length - len(text) < _INT_MIN and with_:  # so much is missing that it wraps around
            raise arithmetic_exception("integer overflow")
        return padded(text, length, with_)

    return checked


@rowwise_factory(
    "BinaryPad", can_fail=_can_fail, reads=("func_name", SPARK_VERSION), unbounded=True
)
def pad_binary(expr: Expr) -> RowFunction:
    """``lpad`` and ``rpad`` of BINARY."""
    padded = _before if expr.params["func_name"] == "lpad" else _behind
    if _knows_negative(expr):
        return padded

    def checked(value: bytes, length: int, with_: bytes) -> bytes:
        if length < 0:
            raise java_error("java.lang.NegativeArraySizeException", str(length))
        return padded(value, length, with_)

    return checked


def _before(text: _Text, length: int, with_: _Text) -> _Text:
    return (_missing(text, length, with_) + text)[: max(length, 0)]


def _behind(text: _Text, length: int, with_: _Text) -> _Text:
    return (text + _missing(text, length, with_))[: max(length, 0)]


def _missing(text: _Text, length: int, with_: _Text) -> _Text:
    missing = length - len(text)
    return (with_ * (missing // len(with_) + 1))[:missing] if missing > 0 and with_ else with_[:0]
