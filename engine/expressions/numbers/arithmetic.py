"""Arithmetic: ``+ - * / % div pmod``, unary minus and plus, ``abs``.

============ ====================== =====================
eval_mode    overflow               division by zero
============ ====================== =====================
ANSI         error                  error
TRY          null                   null
LEGACY       wraps around           null
============ ====================== =====================

Floating-point numbers never overflow, but dividing by 0.0 is a division by zero. Decimals have a
file of their own: :mod:`engine.expressions.decimals`.

Source: ``arithmetic.scala`` of Catalyst; ``MathUtils`` of Spark.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import TransformError
from engine.expressions import ansi, decimals
from engine.expressions.argument_types import Rare
from engine.expressions.buffers import values_of, with_nulls_of
from engine.expressions.datum import constant_value
from engine.expressions.numbers import checked
from engine.expressions.registry import Context, Datum, Formula, ValueFunction, strict
from engine.expressions.times.interval_arithmetic import interval_arithmetic, is_interval
from engine.expressions.tree import Expr
from engine.expressions.types import is_integral, sql_name
from engine.expressions.vectors import on_numpy, per_row

_CHECKED = {"Add": pc.add_checked, "Subtract": pc.subtract_checked, "Multiply": pc.multiply_checked}
_UNCHECKED = {"Add": pc.add, "Subtract": pc.subtract, "Multiply": pc.multiply}
_SIGNS = {"Add": "+", "Subtract": "-", "Multiply": "*"}
_NUMPY: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
}
_EXACT: dict[str, Callable[[int, int], int]] = {
    "Add": operator.add,
    "Subtract": operator.sub,
    "Multiply": operator.mul,
}


def _numeric(expr: Expr) -> str | None:
    if is_interval(expr.dtype):
        return None
    for dtype in (expr.dtype, *(child.dtype for child in expr.children)):
        if not (is_integral(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype)):
            return f"arithmetic on the type {sql_name(dtype)} is not supported"
    return None


def _ansi(expr: Expr) -> bool:
    return bool(expr.params.get("eval_mode") == "ANSI" or expr.params.get("fail_on_error"))


def _may_overflow(expr: Expr) -> bool:
    if is_interval(expr.dtype):
        return True
    return _ansi(expr) and not pa.types.is_floating(expr.dtype)


def _may_fail_to_negate(expr: Expr) -> bool:
    return _may_overflow(expr) or decimals.negation_rounds(expr.dtype)


def _may_fail_to_divide(expr: Expr) -> bool:
    divisor = constant_value(expr.children[1])
    harmless = divisor not in (None, 0, -1) and not pa.types.is_decimal(expr.children[0].dtype)
    return (_ansi(expr) and not harmless) or decimals.division_may_be_impossible(expr)


def _formula(expr: Expr) -> Formula:
    text = f"{{0}} {_SIGNS[expr.op]} {{1}}"
    return Formula(text, may_be_beyond=is_integral(expr.dtype))


@strict(
    "Add",
    "Subtract",
    "Multiply",
    supports=_numeric,
    can_fail=_may_overflow,
    loop=True,
    reads=("eval_mode",),
    takes=Rare.INTERVALS,
    formula=_formula,
)
def add_subtract_multiply(expr: Expr, context: Context) -> ValueFunction:
    """Both sides have the result's type, except for decimals."""
    dtype, mode = expr.dtype, expr.params["eval_mode"]
    if is_interval(dtype):
        return interval_arithmetic(expr)
    if pa.types.is_decimal(dtype):
        return decimals.arithmetic(expr)
    unchecked: ValueFunction = _UNCHECKED[expr.op]
    if pa.types.is_floating(dtype) or mode == "LEGACY":
        return unchecked
    each_checked, exact, on_long = _CHECKED[expr.op], _EXACT[expr.op], _NUMPY[expr.op]
    limit = 1 << (dtype.bit_width - 1)

    def in_range_or_null(left: int, right: int) -> int | None:
        result = exact(left, right)
        return int(result) if -limit <= result < limit else None

    def compute(left: Datum, right: Datum) -> Datum:
        if (result := checked.of_long(exact, on_long, dtype, left, right)) is not None:
            return result
        try:
            return each_checked(left, right)
        except pa.ArrowInvalid:
            if mode == "TRY":
                return per_row(in_range_or_null, dtype, left, right)
            raise _overflow(expr.op, dtype) from None

    return compute


def _overflow(op: str, dtype: pa.DataType) -> TransformError:
    if dtype.bit_width < 32:
        return ansi.binary_arithmetic_overflow(op.lower(), dtype)
    return ansi.arithmetic_overflow(dtype, f"try_{op.lower()}")


@strict(
    "Divide",
    supports=_numeric,
    can_fail=_may_fail_to_divide,
    loop=True,
    reads=("eval_mode",),
    formula=lambda expr: Formula("{0} / {1}"),
)
def divide(expr: Expr, context: Context) -> ValueFunction:
    """DOUBLE or decimal: Spark's analyzer casts everything else."""
    if pa.types.is_decimal(expr.dtype):
        return decimals.arithmetic(expr)
    if constant_value(expr.children[1]):
        return lambda left, right: pc.divide(left, right)
    if _ansi(expr):
        return checked.quotient

    def quotient(left: Any, right: Any) -> Any:
        return left / right, right != 0

    return lambda left, right: on_numpy(quotient, expr.dtype, left, right)


def _towards_zero(left: int, right: int) -> int:
    return left // right if (left < 0) == (right < 0) else -(-left // right)


@strict(
    "IntegralDivide",
    supports=_numeric,
    can_fail=_may_fail_to_divide,
    loop=True,
    reads=("eval_mode",),
    formula=lambda expr: Formula("{quotient}({0}, {1})", True, {"quotient": _towards_zero}),
)
def integral_divide(expr: Expr, context: Context) -> ValueFunction:
    """Towards zero; the result is BIGINT."""
    if pa.types.is_decimal(expr.children[0].dtype):
        return decimals.arithmetic(expr)
    if constant_value(expr.children[1]) not in (None, 0, -1):
        return lambda left, right: pc.divide(left, right)
    lowest = np.iinfo(np.int64).min
    wraps = expr.params["eval_mode"] == "LEGACY"

    def quotient(left: Any, right: Any) -> Any:
        floor = left // right
        towards_zero = floor + ((floor < 0) & (floor * right != left))
        return towards_zero, (right != 0) & (wraps | (left != lowest) | (right != -1))

    def failure(left: int, right: int) -> TransformError:
        if right == 0:
            return ansi.divide_by_zero()
        return ansi.arithmetic_overflow(expr.dtype, "try_divide")

    raises = failure if _ansi(expr) else None

    def compute(left: Datum, right: Datum) -> Datum:
        if raises is not None:
            with suppress(pa.ArrowInvalid):
                return pc.divide_checked(left, right)
        return on_numpy(quotient, expr.dtype, left, right, failure=raises)

    return compute


def _remainder(left: int, right: int) -> int:
    return left % right if (left < 0) == (right < 0) else -(-left % right)


@strict(
    "Remainder",
    supports=_numeric,
    can_fail=_may_fail_to_divide,
    loop=True,
    reads=("eval_mode",),
    formula=lambda expr: (
        Formula("{remainder}({0}, {1})", names={"remainder": _remainder})
        if is_integral(expr.dtype)
        else None
    ),
)
def remainder(expr: Expr, context: Context) -> ValueFunction:
    """The sign is that of the left side, as in Java."""
    if pa.types.is_decimal(expr.dtype):
        return decimals.arithmetic(expr)
    failure = (lambda *_: ansi.remainder_by_zero()) if _ansi(expr) else None

    def rest(left: Any, right: Any) -> Any:
        return np.fmod(left, right), right != 0

    def compute(left: Datum, right: Datum) -> Datum:
        return on_numpy(rest, expr.dtype, left, right, failure=failure)

    divisor = constant_value(expr.children[1])
    if divisor and is_integral(expr.dtype):
        by_constant = _remainder_by_constant(divisor, expr.dtype)
        return lambda left, right: (
            compute(left, right) if isinstance(left, pa.Scalar) else by_constant(left)
        )
    return compute


def _remainder_by_constant(divisor: int, dtype: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    is_power_of_two = divisor > 0 and divisor & (divisor - 1) == 0
    numpy_divisor = dtype.to_pandas_dtype()(divisor)
    numpy_mask = dtype.to_pandas_dtype()(divisor - 1 if is_power_of_two else 0)

    def rest(left: pa.Array) -> pa.Array:
        values = values_of(left)
        if is_power_of_two and len(values) and values.min() >= 0:
            return with_nulls_of(left, values & numpy_mask, dtype)
        return with_nulls_of(left, np.fmod(values, numpy_divisor), dtype)

    return rest


@strict("Pmod", supports=_numeric, can_fail=_may_fail_to_divide, loop=True, reads=("eval_mode",))
def pmod(expr: Expr, context: Context) -> ValueFunction:
    """The positive remainder (for a positive divisor)."""
    if pa.types.is_decimal(expr.dtype):
        return decimals.arithmetic(expr)
    failure = (lambda *_: ansi.remainder_by_zero()) if _ansi(expr) else None
    # Java computes with 32 bits at least, and wraps around.
    width = expr.dtype.to_pandas_dtype() if expr.dtype.bit_width >= 32 else np.int32

    def rest(left: Any, right: Any) -> Any:
        first = np.fmod(left, right)
        second = np.fmod((first + right).astype(width), right)
        return np.where(first < 0, second, first), right != 0

    return lambda left, right: on_numpy(rest, expr.dtype, left, right, failure=failure)


@strict(
    "UnaryMinus",
    supports=_numeric,
    can_fail=_may_fail_to_negate,
    loop=True,
    reads=("fail_on_error",),
    takes=Rare.INTERVALS,
)
def unary_minus(expr: Expr, context: Context) -> ValueFunction:
    """The lowest integer has no negative."""
    return _unary(expr, pc.negate, pc.negate_checked)


@strict(
    "Abs",
    supports=_numeric,
    can_fail=_may_fail_to_negate,
    loop=True,
    reads=("fail_on_error",),
    takes=Rare.INTERVALS,
)
def absolute(expr: Expr, context: Context) -> ValueFunction:
    """The lowest integer has no absolute value."""
    return _unary(expr, pc.abs, pc.abs_checked)


def _unary(expr: Expr, unchecked: ValueFunction, checked: ValueFunction) -> ValueFunction:
    if is_interval(expr.dtype):
        return interval_arithmetic(expr)
    if decimals.negation_rounds(expr.dtype):
        return decimals.negation(expr)
    if not is_integral(expr.dtype) or not _ansi(expr):
        return unchecked

    def compute(value: Datum) -> Datum:
        try:
            return checked(value)
        except pa.ArrowInvalid:
            raise ansi.arithmetic_overflow(expr.dtype) from None

    return compute


@strict("UnaryPositive", supports=_numeric, takes=Rare.INTERVALS)
def unary_plus(expr: Expr, context: Context) -> ValueFunction:
    """Nothing happens."""
    return lambda value: value
