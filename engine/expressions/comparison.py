"""Comparison: ``=  <=>  <  <=  >  >=``.

As in Spark, NaN equals NaN and is larger than any other number, and -0.0 equals 0.0. Text and
binary data are compared byte by byte, which is what Arrow does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.datum import constant
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.types import YEAR_MONTH_INTERVAL, sql_name
from engine.expressions.vectors import on_numpy

Compare = Callable[[Datum, Datum], Datum]

_NULL = pa.scalar(None, pa.bool_())
_FALSE = pa.scalar(False)


def _nan_equal(left: Datum, right: Datum) -> Datum:
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _nan_less(left: Datum, right: Datum) -> Datum:
    larger = pc.and_not(pc.is_nan(right), pc.is_nan(left))
    return pc.or_(pc.less(left, right), larger)


def _nan_less_equal(left: Datum, right: Datum) -> Datum:
    return pc.or_(pc.less_equal(left, right), pc.is_nan(right))


_PLAIN: dict[str, Compare] = {
    "EqualTo": pc.equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
}
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": np.equal,
    "LessThan": np.less,
    "LessThanOrEqual": np.less_equal,
    "GreaterThan": np.greater,
    "GreaterThanOrEqual": np.greater_equal,
}
_WITH_NAN: dict[str, Compare] = {
    "EqualTo": _nan_equal,
    "LessThan": _nan_less,
    "LessThanOrEqual": _nan_less_equal,
    "GreaterThan": lambda left, right: _nan_less(right, left),
    "GreaterThanOrEqual": lambda left, right: _nan_less_equal(right, left),
}
_RIGHT_IS_NUMBER: dict[str, Compare] = {
    # Against a constant that is not NaN only these have to care for a NaN on the left.
    **_PLAIN,
    "GreaterThan": lambda left, right: pc.or_(pc.greater(left, right), pc.is_nan(left)),
    "GreaterThanOrEqual": lambda left, right: pc.or_(
        pc.greater_equal(left, right), pc.is_nan(left)
    ),
}


def compare(op: str, dtype: pa.DataType, right: Any = None) -> Compare:
    """The function for one of Spark's comparisons of values of ``dtype``.

    :param right: the right side's value where it is a constant, else None.
    """
    if pa.types.is_null(dtype):
        return lambda left, right: _NULL
    if dtype == YEAR_MONTH_INTERVAL:
        ordered = _NUMPY[op]
        return lambda left, right: on_numpy(ordered, pa.bool_(), left, right)
    if pa.types.is_floating(dtype):
        if right is not None and not math.isnan(right):
            return _RIGHT_IS_NUMBER[op]
        return _WITH_NAN[op]
    return _PLAIN[op]


def comparable(expr: Expr) -> str | None:
    """Why values of this node's arguments cannot be compared, or None."""
    for child in expr.children:
        if pa.types.is_nested(child.dtype):
            return f"comparing values of the type {sql_name(child.dtype)} is not supported"
    if len({child.dtype for child in expr.children}) > 1:
        return "comparing values of different types is not supported"
    return None


@strict(*_PLAIN, supports=comparable)
def comparison(expr: Expr, context: Context) -> ValueFunction:
    """Null if either side is."""
    left, right = expr.children
    scalar = constant(right)
    return compare(expr.op, left.dtype, None if scalar is None else scalar.as_py())


@strict("EqualNullSafe", supports=comparable)
def equal_null_safe(expr: Expr, context: Context) -> ValueFunction:
    """``<=>``: never null; two nulls are equal."""
    dtype = expr.children[0].dtype
    equal = compare("EqualTo", dtype)

    def both(left: Datum, right: Datum) -> Datum:
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both_null, pc.fill_null(equal(left, right), _FALSE))

    return both
