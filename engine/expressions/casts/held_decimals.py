"""Which decimals Spark keeps as a BIGINT, and which as a BigDecimal.

It can be told: in ANSI mode a BigDecimal becomes an INT by way of a DOUBLE, and the DOUBLE nearest
to 0.999999999999999999 is 1. What a column of up to 18 digits holds is a BIGINT; a constant, a
product, a quotient and what was a text are BigDecimals. Where the row decides, as in ``IF`` of both
kinds, it is taken for what its type says.

Source: ``Decimal`` of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from engine.expressions.tree import Expr
from engine.expressions.types import is_integral

_LONG_DIGITS: Final = 18
UNSCALED_MAX: Final = 10**_LONG_DIGITS
"""A number of more digits is a BigDecimal whatever it was made of; exclusive."""
_FIRST_DECIDES: Final = frozenset({"UnaryMinus", "UnaryPositive", "Abs", "Round", "BRound"})
_SUMS: Final = frozenset({"Add", "Subtract"})
_NEVER: Final = frozenset({"Literal", "Multiply", "Divide", "Remainder", "Pmod"})


def held_as_long(expr: Expr) -> bool:
    """Whether the values of a DECIMAL expression are kept as a BIGINT where they fit."""
    if expr.op in _NEVER:
        return False
    if expr.op == "Cast":
        (child,) = expr.children
        if pa.types.is_decimal(child.dtype):
            return _keeps_long(expr, child) and held_as_long(child)
        return is_integral(child.dtype) or pa.types.is_boolean(child.dtype)
    if expr.op in _FIRST_DECIDES:
        return held_as_long(expr.children[0])
    if expr.op in _SUMS:
        alike = len({child.dtype.scale for child in expr.children}) == 1
        return alike and all(_few_digits(child) and held_as_long(child) for child in expr.children)
    found = {held_as_long(each) for each in _one_of(expr) if not _is_null(each)}
    return found.pop() if len(found) == 1 else _few_digits(expr)


def _one_of(expr: Expr) -> Sequence[Expr]:
    """The expressions one of which has made the value; none where that is not known."""
    children = expr.children
    if expr.op in {"If", "CaseWhen"}:  # condition, value, condition, value ...
        return [*children[1::2], *children[-1:]] if len(children) % 2 else children[1::2]
    if expr.op == "Coalesce":
        first = next((n for n, each in enumerate(children, 1) if not each.nullable), None)
        return children[:first]
    if expr.op in {"Least", "Greatest"}:
        return children
    if expr.op in {"GetArrayItem", "ElementAt", "GetMapValue"}:
        return _elements(children[0])
    if expr.op == "GetStructField" and children[0].op == "CreateNamedStruct":
        return [children[0].children[2 * expr.params["ordinal"] + 1]]
    return ()


def _elements(expr: Expr) -> Sequence[Expr]:
    if expr.op == "Literal":
        return [expr]
    return {"CreateArray": expr.children, "CreateMap": expr.children[1::2]}.get(expr.op, ())


def may_lack_power(expr: Expr) -> bool:
    """Whether Spark may be asked for the whole part of a BIGINT with more than 18 decimal places:
    it has no power of ten for that and raises ArrayIndexOutOfBoundsException."""
    return bool(expr.dtype.scale > _LONG_DIGITS) and _has_long_with_places(expr)


def _has_long_with_places(expr: Expr) -> bool:
    if expr.op in _NEVER:
        return False
    if expr.op == "Cast" and pa.types.is_decimal(expr.dtype):
        (child,) = expr.children
        if not pa.types.is_decimal(child.dtype) or not _keeps_long(expr, child):
            return False
        return _few_digits(child) or _has_long_with_places(child)
    return any(map(_has_long_with_places, expr.children))


def _keeps_long(cast: Expr, child: Expr) -> bool:
    """Whether a BIGINT stays one, if it fits: not with so many more decimal places."""
    return bool(cast.dtype.scale - child.dtype.scale <= _LONG_DIGITS)


def _is_null(expr: Expr) -> bool:
    return expr.op == "Literal" and expr.params["value"] is None


def _few_digits(expr: Expr) -> bool:
    return bool(expr.dtype.precision <= _LONG_DIGITS)
