"""Functions of DOUBLE: roots, logarithms, powers, angles.

Spark computes most of them by Java's ``StrictMath``, whose results are not always the nearest
DOUBLE. By default NumPy computes those here that it brings within one unit in the last place of
Spark's, some fifty times as fast. With the option ``exactMath`` they are computed as Java does it,
bit for bit; all others always are.

``sin``, ``cos`` and ``tan`` may differ by one unit in any case, and ``cot``, ``sec`` and ``csc``,
which are made of them, by two: Java leaves them to the processor it runs on.

Source: ``mathExpressions.scala`` of Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.numbers import strict_angles, strict_math, strict_powers
from engine.expressions.registry import Context, Evaluator, ValueFunction, lazy, strict
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.tree import Expr
from engine.expressions.vectors import on_numpy

_LN_2: Final = math.log(2)
_Function = Callable[..., Any]


def _signum(x: Any) -> Any:
    return np.where(x == 0, x, np.sign(x))


def _atan2(y: Any, x: Any) -> Any:
    # Spark makes -0.0 a 0.0 first.
    return strict_angles.atan2(y + 0.0, x + 0.0)


def _log(base: Any, x: Any) -> Any:
    return strict_math.log(x) / strict_math.log(base), ~((base <= 0) | (x <= 0))


def _defined_above(limit: float, function: _Function) -> _Function:
    """NULL for arguments that are not greater than ``limit``; NaN stays NaN."""
    return lambda x: (function(x), ~(x <= limit))


def _pow(x: Any, y: Any) -> Any:
    power = np.power(x, y)
    if np.isfinite(y).all():
        return power
    # 1 to the power of something undefined or infinite is 1 in C, and undefined in Java.
    return np.where((np.abs(x) == 1) & ~np.isfinite(y), np.nan, power)


def _cbrt(x: Any) -> Any:
    """Where a processor has no instructions that NumPy knows for it, the C library computes it:
    GNU's is off by up to 3 last places, which one of Newton's steps mends."""
    root = np.cbrt(x)
    nearer = root - (root - x / (root * root)) / 3
    return np.where(np.isfinite(nearer), nearer, root)


_EXACT: Final[dict[str, _Function]] = {
    "Sqrt": np.sqrt,
    "Cbrt": strict_math.cbrt,
    "Exp": strict_math.exp,
    "Expm1": strict_math.expm1,
    "Log": _defined_above(0, strict_math.log),
    "Log10": _defined_above(0, strict_math.log10),
    "Log2": _defined_above(0, lambda x: strict_math.log(x) / _LN_2),
    "Log1p": _defined_above(-1, strict_math.log1p),
    "Logarithm": _log,
    "Pow": strict_powers.pow,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Cot": lambda x: 1.0 / np.tan(x),
    "Sec": lambda x: 1.0 / np.cos(x),
    "Csc": lambda x: 1.0 / np.sin(x),
    "Asin": strict_angles.asin,
    "Acos": strict_angles.acos,
    "Atan": strict_angles.atan,
    "Atan2": _atan2,
    "Sinh": strict_math.sinh,
    "Cosh": strict_math.cosh,
    "Tanh": strict_math.tanh,
    "Asinh": strict_math.asinh,
    "Acosh": strict_math.acosh,
    "Atanh": lambda x: 0.5 * (strict_math.log1p(x) - strict_math.log1p(-x)),
    "ToDegrees": np.degrees,
    "ToRadians": np.radians,
    "Signum": _signum,
    "Hypot": strict_powers.hypot,
    "Rint": np.rint,
}
_SINCE_4_2: Final = {"Asinh", "Acosh"}
_NEAR: Final[dict[str, _Function]] = {
    "Cbrt": _cbrt,
    "Exp": np.exp,
    "Expm1": np.expm1,
    "Log": _defined_above(0, np.log),
    "Log1p": _defined_above(-1, np.log1p),
    "Pow": _pow,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Hypot": np.hypot,
}


def _refused_release(expr: Expr) -> str | None:
    if is_since(expr, "4.2.0"):
        return None
    return "Spark before 4.2 computes it by another formula, which is less exact"


@strict(*_SINCE_4_2, reads=(SPARK_VERSION,), supports=_refused_release)
@strict(*(_EXACT.keys() - _SINCE_4_2), takes=Rare.INTERVALS)  # of which signum tells the sign
def of_double(expr: Expr, context: Context) -> ValueFunction:
    """A function of one or two DOUBLEs."""
    exact = _EXACT[expr.op]
    function = exact if context.exact_math else _NEAR.get(expr.op, exact)
    return lambda *values: on_numpy(function, expr.dtype, *values)


@lazy("Pi", "EulerNumber")
def number(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``pi()`` and ``e()``."""
    value = pa.scalar(math.pi if expr.op == "Pi" else math.e, expr.dtype)
    return lambda batch: value
