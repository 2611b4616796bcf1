"""``round``, ``bround``, ``ceil``, ``floor``.

A DOUBLE is rounded as the decimal number that it prints as: ``round(1.005, 2)`` is 1.01, although
the DOUBLE nearest to 1.005 is a little less. (Java before 19 prints a few numbers with one digit
too many. That can tip the balance only where that digit is the one after the last that is kept.)

Source: ``RoundBase`` in ``mathExpressions.scala`` of Spark; ``java.math.BigDecimal.setScale``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions import ansi
from engine.expressions.buffers import saturated
from engine.expressions.datum import constant, constant_value
from engine.expressions.decimals import EXACT, fit
from engine.expressions.java_doubles import double_text
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.types import is_integral
from engine.expressions.vectors import on_numpy, per_row

_MODES: Final = {
    "Round": ROUND_HALF_UP,
    "BRound": ROUND_HALF_EVEN,
    "RoundCeil": ROUND_CEILING,
    "RoundFloor": ROUND_FLOOR,
}
_SCALE_MAX: Final = 350
"""No number here has a digit further away from its point, on either side."""
_FAST_SCALE_MAX: Final = 15
_FAST_VALUE_MAX: Final = 2.0**51


def _set_scale(value: Decimal, scale: int, mode: str) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale), mode, EXACT)


def _supports(expr: Expr) -> str | None:
    return None if constant(expr.children[1]) is not None else "the scale must be a constant"


def _can_fail(expr: Expr) -> bool:
    is_decimal = pa.types.is_decimal(expr.dtype)
    return is_decimal or (is_integral(expr.dtype) and bool(expr.params["ansi_enabled"]))


@strict(*_MODES, can_fail=_can_fail, supports=_supports, loop=True, reads=("ansi_enabled",))
def round_to_scale(expr: Expr, context: Context) -> ValueFunction:
    """To so many places after the point; before it if the scale is negative."""
    scale, mode, dtype = constant_value(expr.children[1]), _MODES[expr.op], expr.dtype
    if scale is None:
        return lambda value, _: pa.scalar(None, dtype)
    scale = max(-_SCALE_MAX, min(scale, _SCALE_MAX))
    if pa.types.is_floating(dtype):
        return lambda value, _: on_numpy(_round_floating(scale, mode), dtype, value)
    if is_integral(dtype):
        return _round_integral(scale, mode, dtype, bool(expr.params["ansi_enabled"]))
    # A decimal that grows too long raises in Spark with ANSI mode off too.
    return lambda value, _: per_row(
        lambda number: fit(_set_scale(number, scale, mode), dtype, ansi_mode=True), dtype, value
    )


def _round_integral(scale: int, mode: str, dtype: pa.DataType, strictly: bool) -> ValueFunction:
    if scale >= 0:
        return lambda value, _: value
    half = 2 ** (dtype.bit_width - 1)

    def compute(number: int) -> int:
        rounded = int(_set_scale(Decimal(number), scale, mode))
        if not -half <= rounded < half:
            if strictly:
                raise ansi.arithmetic_overflow(dtype)
            rounded = (rounded + half) % (2 * half) - half
        return rounded

    return lambda value, _: per_row(compute, dtype, value)


def _round_floating(scale: int, mode: str) -> Callable[[Any], Any]:
    def exactly(number: float) -> float:
        exact = Decimal(double_text(float(number)))
        exponent = exact.as_tuple().exponent
        assert isinstance(exponent, int)
        return float(exact if -exponent <= scale else _set_scale(exact, scale, mode)) + 0.0

    def compute(x: Any) -> Any:
        wide = np.atleast_1d(np.asarray(x, np.float64))
        finite = np.isfinite(wide)
        result, certain = wide.copy(), ~finite
        if 0 <= scale <= _FAST_SCALE_MAX:
            # Away from the middle between two results, and small enough to count in units of the
            # last place, the nearest result is certain and its quotient is the nearest DOUBLE.
            power = 10.0**scale
            shifted = np.abs(wide) * power
            whole = np.floor(shifted)
            distance = np.abs(shifted - whole - 0.5)
            fast = finite & (shifted < _FAST_VALUE_MAX) & (distance > shifted * 1e-15)
            nearest = np.floor(shifted + 0.5) / power
            result = np.where(fast, np.copysign(nearest, wide) + 0.0, wide)
            certain |= fast
        for row in np.flatnonzero(~certain):
            result[row] = exactly(wide[row])
        return result if np.ndim(x) else result[0]

    return compute


def _too_large_fails(expr: Expr) -> bool:
    """Spark 4.3 in ANSI mode; earlier ones do not have the parameter."""
    return bool(expr.params.get("fail_on_error")) and pa.types.is_floating(expr.children[0].dtype)


@strict("Ceil", "Floor", can_fail=_too_large_fails, loop=True, reads=("fail_on_error",))
def to_whole_number(expr: Expr, context: Context) -> ValueFunction:
    """Of DOUBLE a BIGINT, the nearest one where there is none, or an error; of DECIMAL a
    DECIMAL."""
    dtype = expr.dtype
    source = expr.children[0].dtype
    if source == dtype and is_integral(dtype):
        return lambda value: value
    if pa.types.is_decimal(source):
        mode = ROUND_CEILING if expr.op == "Ceil" else ROUND_FLOOR
        return lambda value: per_row(lambda n: _set_scale(n, 0, mode), dtype, value)
    function = np.ceil if expr.op == "Ceil" else np.floor
    failure = (lambda _: ansi.arithmetic_overflow(dtype)) if _too_large_fails(expr) else None

    def whole(x: Any) -> Any:
        rounded = function(x)
        if failure is None:
            return saturated(rounded)
        return saturated(rounded), ~((rounded < -(2.0**63)) | (rounded >= 2.0**63))

    def compute(value: Datum) -> Datum:
        return on_numpy(whole, dtype, value, failure=failure)

    return compute
