"""``encode`` and ``decode``: texts as bytes of a character set.

UTF-16 is written with a byte order mark, and read with or without one. What cannot be encoded or
decoded raises.

Source: ``stringExpressions.scala`` (``Encode``, ``StringDecode``) of Spark; ``sun.nio.cs``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from engine.expressions.ansi import failure
from engine.expressions.datum import constant, constant_value
from engine.expressions.java_charsets import CODECS
from engine.expressions.malformed import JAVA
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row

_MARK: Final = "\ufeff"
_LITTLE: Final = {"UTF-16": (b"\xff\xfe", "utf-16-le"), "UTF-32": (b"\xff\xfe\0\0", "utf-32-le")}


def _charset(expr: Expr) -> str:
    return str(constant_value(expr.children[1])).upper()


def _supports(expr: Expr) -> str | None:
    if constant(expr.children[1]) is None:
        return "the character set must be a constant"
    if constant_value(expr.children[1]) is not None and _charset(expr) not in CODECS:
        return (
            f"the character set {_charset(expr)} is none of {', '.join(CODECS)}: Spark fails for it"
        )
    source, expected = expr.children[0].dtype, (pa.string() if expr.op == "Encode" else pa.binary())
    if expr.params.get("legacy_error_action") or expr.params.get("legacy_charsets"):
        return "the settings spark.sql.legacy.* of encode and decode are not supported"
    return None if source == expected else f"its argument must be cast to {expected} first"


@strict(
    "Encode",
    can_fail=always,
    supports=_supports,
    loop=True,
    reads=("legacy_charsets", "legacy_error_action"),
)
def encode(expr: Expr, context: Context) -> ValueFunction:
    """``encode``."""
    if constant_value(expr.children[1]) is None:
        return lambda s, charset: pa.scalar(None, expr.dtype)
    name = _charset(expr)
    if name == "UTF-8":
        return lambda s, charset: JAVA.of(s).cast(pa.binary())
    codec, mark = CODECS[name], _MARK if name == "UTF-16" else ""

    def to_bytes(text: str) -> bytes:
        return (mark + text if text else text).encode(codec)

    return lambda s, charset: per_row(_checked(to_bytes, name), expr.dtype, s)


@rowwise_factory(
    "StringDecode",
    can_fail=always,
    supports=_supports,
    reads=("legacy_charsets", "legacy_error_action"),
    arguments=(0,),
)
def decode(expr: Expr) -> RowFunction | None:
    """``decode`` with a character set."""
    if constant_value(expr.children[1]) is None:
        return None
    name = _charset(expr)
    codec = CODECS[name]
    little_mark, little = _LITTLE.get(name, (None, ""))

    def to_text(octets: bytes) -> str:
        used = codec
        if little_mark is not None and octets.startswith(little_mark):
            used = little
        text = octets.decode(used)
        if little_mark is not None and text.startswith(_MARK):
            text = text[1:]
        return text

    return _checked(to_text, name)


def _checked(function: Callable[..., object], name: str) -> Callable[..., object]:
    def convert(value: object) -> object:
        try:
            return function(value)
        except UnicodeError:
            raise failure(
                "MALFORMED_CHARACTER_CODING", f"A value cannot be converted: {name}."
            ) from None

    return convert
