"""Comparison: ``=  <=>  <  <=  >  >=``.

As in Spark, NaN equals NaN and is larger than any other number, and -0.0 equals 0.0. Text and
binary data are compared byte by byte, which is what Arrow does. Arrays and structs are compared by
their ranks, see :mod:`engine.expressions.logic.ranks`; in there, NULL equals NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.argument_types import Rare
from engine.expressions.buffers import values_of
from engine.expressions.datum import constant_value, to_array, to_scalar
from engine.expressions.logic.ranks import common_ranks, is_orderable
from engine.expressions.registry import Context, Datum, Formula, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.types import YEAR_MONTH_INTERVAL, sql_name
from engine.expressions.vectors import on_numpy

Compare = Callable[[Datum, Datum], Datum]

_LONG = 10_000
_BOOL = pa.bool_()
_NULL = pa.scalar(None, _BOOL)
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
_OF_RANKS: dict[str, Callable[..., Any]] = {
    "EqualTo": np.equal,
    "LessThan": np.less,
    "LessThanOrEqual": np.less_equal,
    "GreaterThan": np.greater,
    "GreaterThanOrEqual": np.greater_equal,
}


def _compare_nested(op: str, dtype: pa.DataType) -> Compare:
    function = _OF_RANKS[op]

    def both(left: Datum, right: Datum) -> Datum:
        sizes = [len(side) for side in (left, right) if not isinstance(side, pa.Scalar)]
        rows = sizes[0] if sizes else 1
        first, second = common_ranks(to_array(left, rows, dtype), to_array(right, rows, dtype))
        is_null = (first == 0) | (second == 0)
        result = pa.array(function(first, second), pa.bool_(), mask=is_null)
        return result if sizes else to_scalar(result)

    return both


def compare(op: str, dtype: pa.DataType, right: float | None = None) -> Compare:
    """The function for one of Spark's comparisons of values of ``dtype``.

    :param right: the right side's value where it is a constant of a floating type, else None.
    """
    if pa.types.is_null(dtype):
        return lambda left, right: _NULL
    if pa.types.is_nested(dtype):
        return _compare_nested(op, dtype)
    if dtype == YEAR_MONTH_INTERVAL:
        ordered = _NUMPY[op]
        return lambda left, right: on_numpy(ordered, pa.bool_(), left, right)
    if pa.types.is_floating(dtype):
        if right is not None and not math.isnan(right):
            return _RIGHT_IS_NUMBER[op]
        return _WITH_NAN[op]
    return _of_integers(op) if pa.types.is_integer(dtype) else _PLAIN[op]


def _of_integers(op: str) -> Compare:
    plain, function = _PLAIN[op], _NUMPY[op]

    def both(left: Datum, right: Datum) -> Datum:
        """Long columns without NULL by NumPy, in half the time."""
        if not isinstance(left, pa.Array) or len(left) < _LONG or left.null_count:
            return plain(left, right)
        if isinstance(right, pa.Scalar):
            other = right.as_py()
        else:
            other = None if right.null_count else values_of(right)
        if other is None:
            return plain(left, right)
        bits = np.packbits(function(values_of(left), other), bitorder="little")
        return pa.Array.from_buffers(_BOOL, len(left), [None, pa.py_buffer(bits)], 0)

    return both


def comparable(expr: Expr) -> str | None:
    """Why values of this node's arguments cannot be compared, or None."""
    first = expr.children[0].dtype
    if not is_orderable(first):
        return f"comparing values of the type {sql_name(first)} is not supported"
    if not all(alike(first, child.dtype) for child in expr.children):
        return "comparing values of different types is not supported"
    return None


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types differ only in the names of fields and in what may be null."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return one.num_fields == other.num_fields and all(
            alike(a.type, b.type) for a, b in zip(one, other, strict=True)
        )
    if pa.types.is_map(one) and pa.types.is_map(other):
        return alike(one.key_type, other.key_type) and alike(one.item_type, other.item_type)
    if pa.types.is_list(one) and pa.types.is_list(other):
        return alike(one.value_type, other.value_type)
    return bool(one == other)


_SIGNS = {
    "EqualTo": "==",
    "EqualNullSafe": "==",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}


def _formula(expr: Expr) -> Formula | None:
    """Texts are in the same order by characters as by bytes of UTF-8."""
    if pa.types.is_floating(expr.children[0].dtype):
        return None
    return Formula(f"{{0}} {_SIGNS[expr.op]} {{1}}")


@strict(*_PLAIN, supports=comparable, takes=Rare.ALL, formula=_formula)
def comparison(expr: Expr, context: Context) -> ValueFunction:
    """Null if either side is."""
    left, right = expr.children
    # Only floats: Python has no dates beyond the year 9999.
    number = constant_value(right) if pa.types.is_floating(right.dtype) else None
    return compare(expr.op, left.dtype, number)


@strict("EqualNullSafe", supports=comparable, takes=Rare.ALL, formula=_formula)
def equal_null_safe(expr: Expr, context: Context) -> ValueFunction:
    """``<=>``: never null; two nulls are equal."""
    dtype = expr.children[0].dtype
    equal = compare("EqualTo", dtype)

    def both(left: Datum, right: Datum) -> Datum:
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both_null, pc.fill_null(equal(left, right), _FALSE))

    return both
