"""``format_number``: groups of three digits, and so many places.

Source: ``FormatNumber`` in ``stringExpressions.scala`` of Spark; ``java.text.DecimalFormat``.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Decimal

import pyarrow as pa

from engine.expressions.decimals import EXACT
from engine.expressions.rowwise import rowwise
from engine.expressions.tree import Expr


def _supports(expr: Expr) -> str | None:
    if pa.types.is_string(expr.children[1].dtype):
        return "a pattern is not supported: give the number of places"
    return None


@rowwise("FormatNumber", supports=_supports, unbounded=True)
def format_number(number: int | float | Decimal, places: int) -> str | None:
    """``format_number``: rounds half to even; NULL for a negative number of places."""
    if places < 0:
        return None
    if isinstance(number, float):
        return _of_double(number, places)
    exact = Decimal(number)
    negative = exact < 0
    return ("-" if negative else "") + _grouped(exact.copy_abs(), places)


def _of_double(number: float, places: int) -> str:
    if math.isnan(number):
        return "NaN"
    sign = "-" if math.copysign(1, number) < 0 else ""
    if math.isinf(number):
        return f"{sign}\u221e"
    shortest = abs(Decimal(repr(number)))
    # Java rounds the digits that it would print; of two equally near results it takes the one that
    # is nearer to the exact value.
    exponent = shortest.as_tuple().exponent
    assert isinstance(exponent, int)
    value = Decimal(number).copy_abs() if -exponent > places else shortest
    return sign + _grouped(value, places)


def _grouped(value: Decimal, places: int) -> str:
    return f"{value.quantize(Decimal(1).scaleb(-places, EXACT), ROUND_HALF_EVEN, EXACT):,f}"
