"""Decimals: exact arithmetic, then one rounding to the type that Spark's analyzer chose.

A result with more digits than its type has is an error in ANSI mode, and null otherwise. Sums and
products are computed by Arrow in 76 digits where they surely fit; the rest row by row.

Source: ``org.apache.spark.sql.types.Decimal``; Catalyst's ``DecimalPrecision``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import TransformError
from engine.expressions import ansi
from engine.expressions.java_errors import arithmetic_exception
from engine.expressions.long_division import ARROW_DIGITS_MAX, quotients, rounded
from engine.expressions.registry import Datum, ValueFunction
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row

EXACT: Final = Context(prec=400, rounding=ROUND_HALF_UP, Emax=10_000, Emin=-10_000)
"""More digits than any result of two decimals has."""

_DIGITS_MAX: Final = 39
"""Spark asks Java for so many of a whole quotient."""
_WHOLE: Final = pa.decimal128(38, 0)
_QUOTIENT_SCALE_MIN: Final = 4
"""Arrow gives a quotient so many places at least; more, by the digits of its operands."""
_QUOTIENT_SCALE: Final = 39
"""Spark cuts a quotient off behind so many places, before it rounds to the type's."""
_QUOTIENT_UNIT: Final = Decimal(1).scaleb(-_QUOTIENT_SCALE)
_CUT: Final = Context(prec=120, rounding=ROUND_DOWN, Emax=10_000, Emin=-10_000)
"""All of these places, and of the digits in front of them."""


def arithmetic(expr: Expr) -> ValueFunction:
    """The function for a binary operation on decimals, of any precision and scale."""
    if expr.op == "IntegralDivide":
        return _integral_divide(expr)
    ansi_mode = expr.params["eval_mode"] == "ANSI"
    if expr.op in _IN_ARROW and _digits_needed(expr) <= ARROW_DIGITS_MAX:
        return _in_arrow(_IN_ARROW[expr.op], expr.dtype, ansi_mode)
    if expr.op == "Divide":
        return _divide(expr.dtype, ansi_mode)
    return _row_by_row(expr.op, expr.dtype, ansi_mode)


def _row_by_row(op: str, dtype: pa.DataType, ansi_mode: bool) -> ValueFunction:
    operation, by_zero = _ROW_BY_ROW[op]

    def compute(left: Decimal, right: Decimal) -> Decimal | None:
        if by_zero is not None and right == 0:
            if ansi_mode:
                raise by_zero()
            return None
        return fit(operation(left, right), dtype, ansi_mode)

    return lambda left, right: per_row(compute, dtype, left, right)


def fit(value: Decimal, dtype: pa.DataType, ansi_mode: bool) -> Decimal | None:
    """Round half up to the type's scale.

    :return: None if the value has too many digits.
    :raises TransformError: it has, in ANSI mode.
    """
    rounded = value.quantize(Decimal(1).scaleb(-dtype.scale), context=EXACT)
    if rounded.copy_abs() < Decimal(10) ** (dtype.precision - dtype.scale):
        return rounded
    if ansi_mode:
        raise ansi.numeric_value_out_of_range(value, dtype.precision, dtype.scale)
    return None


def fit_array(values: pa.Array, dtype: pa.DataType, ansi_mode: bool) -> pa.Array:
    """As :func:`fit`, for a column of decimals of any type.

    :raises TransformError: a value has too many digits, in ANSI mode.
    """
    scale = values.type.scale
    wide = values.cast(pa.decimal256(ARROW_DIGITS_MAX, scale))
    whole_digits = dtype.precision - dtype.scale
    rounds = scale > dtype.scale
    if rounds:
        wide = rounded(wide, dtype.scale)
    if whole_digits < values.type.precision - scale + rounds:
        unit = Decimal(1).scaleb(-wide.type.scale)
        largest = EXACT.subtract(Decimal(10) ** whole_digits, unit)
        fits = pc.less_equal(pc.abs(wide), pa.scalar(largest, wide.type))
        if pc.all(fits).as_py() is False:
            if ansi_mode:
                worst = values.filter(pc.invert(fits))[0].as_py()
                raise ansi.numeric_value_out_of_range(worst, dtype.precision, dtype.scale)
            wide = pc.if_else(fits, wide, pa.scalar(None, wide.type))
    return wide.cast(dtype)


def _digits_needed(expr: Expr) -> int:
    """The precision that Arrow gives to the exact result."""
    left, right = (child.dtype for child in expr.children)
    if expr.op == "Multiply":
        return int(left.precision + right.precision + 1)
    integral = max(left.precision - left.scale, right.precision - right.scale)
    return int(integral + max(left.scale, right.scale) + 1)


_IN_ARROW: Final = {"Add": pc.add, "Subtract": pc.subtract, "Multiply": pc.multiply}


def _in_arrow(
    operation: Callable[[Any, Any], Any], dtype: pa.DataType, ansi_mode: bool
) -> ValueFunction:
    def widen(value: Datum) -> Datum:
        return value.cast(pa.decimal256(value.type.precision, value.type.scale))

    def compute(left: Datum, right: Datum) -> Datum:
        result = operation(widen(left), widen(right))
        if isinstance(result, pa.Scalar):
            return fit_array(pa.array([result.as_py()], result.type), dtype, ansi_mode)[0]
        return fit_array(result, dtype, ansi_mode)

    return compute


def _wider_dividend(left: Any, right: Any, result: Any) -> pa.DataType | None:
    """What the dividend has to be for a quotient with a place more than the result has; None if
    Arrow has no such type. Arrow cuts off what is behind, so that one rounding follows.

    :param left: the type of the dividend; ``right`` of the divisor, ``result`` of the result.
    """
    wanted, own = result.scale + 1, left.scale + right.precision - right.scale + 1
    more = wanted - own if max(own, _QUOTIENT_SCALE_MIN) < wanted else 0
    scale = max(own + more, _QUOTIENT_SCALE_MIN)
    digits = left.precision - left.scale + right.scale + scale
    if max(digits, left.precision + more) > ARROW_DIGITS_MAX:
        return None
    return pa.decimal256(left.precision + more, left.scale + more)


def _divide(dtype: pa.DataType, ansi_mode: bool) -> ValueFunction:
    row_by_row = _row_by_row("Divide", dtype, ansi_mode)

    def compute(left: Datum, right: Datum) -> Datum:
        if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
            return compute(pa.repeat(left, 1), right)[0]
        wider = _wider_dividend(left.type, right.type, dtype)
        if wider is None:  # by their types; most values have fewer digits
            left, right = _narrowed(left), _narrowed(right)
            wider = _wider_dividend(left.type, right.type, dtype)
        if wider is None:
            return row_by_row(left, right)
        is_zero = pc.equal(right, pa.scalar(Decimal(0), right.type))
        if ansi_mode and _is_any(pc.and_(is_zero, pc.is_valid(left))):
            raise ansi.divide_by_zero()
        right = right.cast(pa.decimal256(right.type.precision, right.type.scale))
        divisor = pc.if_else(is_zero, pa.scalar(None, right.type), right)
        return fit_array(quotients(left.cast(wider), divisor), dtype, ansi_mode)

    return compute


def _narrowed(values: Datum) -> Datum:
    """The same numbers in a type of so many digits as they have."""
    largest = pc.max(pc.abs(pa.repeat(values, 1) if isinstance(values, pa.Scalar) else values))
    digits = len(largest.as_py().as_tuple().digits) if largest.is_valid else 1
    return values.cast(pa.decimal128(max(digits, values.type.scale, 1), values.type.scale))


def _is_any(mask: Datum) -> bool:
    return bool(mask.as_py() if isinstance(mask, pa.Scalar) else pc.any(mask).as_py())


def _quotient(left: Decimal, right: Decimal) -> Decimal:
    return _CUT.divide(left, right).quantize(_QUOTIENT_UNIT, ROUND_DOWN, EXACT)


def _whole_quotient(left: Decimal, right: Decimal) -> Decimal:
    """The quotient without its fraction.

    :raises TransformError: it has more digits than Java has been asked for, and they are not all 0.
    """
    quotient = EXACT.divide_int(left, right)
    more = quotient.adjusted() + 1 - _DIGITS_MAX
    if more > 0 and int(quotient) % 10**more:
        raise arithmetic_exception("Division impossible")
    return quotient


def division_may_be_impossible(expr: Expr) -> bool:
    """Whether a whole quotient may have so many digits that Java gives up, in any mode."""
    left, right = (child.dtype for child in expr.children)
    is_whole = expr.op in ("Remainder", "Pmod", "IntegralDivide") and pa.types.is_decimal(left)
    return is_whole and left.precision - left.scale + right.scale > _DIGITS_MAX


def _remainder(left: Decimal, right: Decimal) -> Decimal:
    if left.adjusted() - right.adjusted() >= _DIGITS_MAX:
        _whole_quotient(left, right)
    return EXACT.remainder(left, right)


def _positive_remainder(left: Decimal, right: Decimal) -> Decimal:
    rest = _remainder(left, right)
    return EXACT.remainder(EXACT.add(rest, right), right) if rest < 0 else rest


_ROW_BY_ROW: Final[
    dict[str, tuple[Callable[[Decimal, Decimal], Decimal], Callable[[], TransformError] | None]]
] = {
    "Add": (EXACT.add, None),
    "Subtract": (EXACT.subtract, None),
    "Multiply": (EXACT.multiply, None),
    "Divide": (_quotient, ansi.divide_by_zero),
    "Remainder": (_remainder, ansi.remainder_by_zero),
    "Pmod": (_positive_remainder, ansi.remainder_by_zero),
}


_NEGATED: Final = Context(prec=34, rounding=ROUND_HALF_EVEN, Emax=10_000, Emin=-10_000)


def negation_rounds(dtype: pa.DataType) -> bool:
    """Whether values of this type may be too long to be negated exactly."""
    return bool(pa.types.is_decimal(dtype) and dtype.precision > _NEGATED.prec)


def negation(expr: Expr) -> ValueFunction:
    """``-`` and ``abs`` of long decimals: Scala rounds what it negates to 34 digits. If then it has
    too many digits it is an error, with ANSI mode off too."""
    dtype, is_abs = expr.dtype, expr.op == "Abs"
    limit = pa.scalar(Decimal(10) ** (_NEGATED.prec - dtype.scale), pa.decimal256(76, dtype.scale))

    def compute(value: Decimal) -> Decimal | None:
        if is_abs and value >= 0:
            return value
        return fit(_NEGATED.minus(value), dtype, ansi_mode=True)

    def function(value: Datum) -> Datum:
        array = value if isinstance(value, pa.Array) else pa.repeat(value, 1)
        size = pc.abs(array.cast(limit.type))
        if pc.all(pc.less(size, limit)).as_py() is not False:
            return pc.abs(value) if is_abs else pc.negate(value)
        return per_row(compute, dtype, value)

    return function


def _integral_divide(expr: Expr) -> ValueFunction:
    ansi_mode = expr.params["eval_mode"] == "ANSI"

    def compute(left: Decimal, right: Decimal) -> int | None:
        if right == 0:
            if ansi_mode:
                raise ansi.divide_by_zero()
            return None
        quotient = fit(_whole_quotient(left, right), _WHOLE, ansi_mode)
        return None if quotient is None else low_64_bits(int(quotient))

    return lambda left, right: per_row(compute, expr.dtype, left, right)


def low_64_bits(value: int) -> int:
    """As Java's ``longValue`` of a big number: the rest is cut off."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
