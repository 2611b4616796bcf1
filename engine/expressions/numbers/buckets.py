"""``width_bucket``, and where a number is in Spark's bitmaps.

Source: ``mathExpressions.scala``, ``bitmapExpressions.scala``, ``BitmapExpressionUtils`` of
Spark.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from engine.expressions.buffers import saturated
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.rowwise import rowwise
from engine.expressions.tree import Expr
from engine.expressions.vectors import on_numpy

_BITS: Final = 8 * 4096
"""Of one bitmap."""


def _width_bucket_supports(expr: Expr) -> str | None:
    if any(pa.types.is_floating(child.dtype) for child in expr.children[:3]):
        return None
    return "it takes DOUBLEs here"


@strict("WidthBucket", supports=_width_bucket_supports)
def width_bucket(expr: Expr, context: Context) -> ValueFunction:
    """``width_bucket``: NULL where the borders are equal or not finite."""

    def compute(value: Any, low: Any, high: Any, count: Any) -> Any:
        defined = (count > 0) & (count < np.iinfo(np.int64).max) & ~np.isnan(value)
        defined &= (low != high) & np.isfinite(low) & np.isfinite(high)
        rising = low < high
        lower, upper = np.minimum(low, high), np.maximum(low, high)
        distance = np.where(rising, value - lower, upper - value)
        inside = saturated(np.asarray(count, np.float64) * distance / (upper - lower)) + 1
        before = np.where(rising, value < lower, value > upper)
        behind = np.where(rising, value >= upper, value <= lower)
        return np.where(before, 0, np.where(behind, count + 1, inside)), defined

    return lambda *values: on_numpy(compute, expr.dtype, *values)


@strict("BitmapBitPosition")
def bitmap_bit_position(expr: Expr, context: Context) -> ValueFunction:
    """``bitmap_bit_position``."""
    return lambda value: on_numpy(
        lambda n: np.where(n > 0, np.fmod(n - 1, _BITS), np.fmod(-n, _BITS)), expr.dtype, value
    )


@strict("BitmapBucketNumber")
def bitmap_bucket_number(expr: Expr, context: Context) -> ValueFunction:
    """``bitmap_bucket_number``."""
    return lambda value: on_numpy(
        lambda n: np.where(n > 0, 1 + (n - 1) // _BITS, (n - np.fmod(n, _BITS)) // _BITS),
        expr.dtype,
        value,
    )


@rowwise("BitmapCount")
def bitmap_count(octets: bytes) -> int:
    """``bitmap_count``: the bits that are set."""
    return int.from_bytes(octets, "big").bit_count()
