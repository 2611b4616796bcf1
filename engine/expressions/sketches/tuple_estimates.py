"""``tuple_sketch_estimate_*``, ``tuple_sketch_theta_*``, ``tuple_sketch_summary_*``: with summaries
of DOUBLE and INT.

Source: ``tuplesketchesExpressions.scala``, ``TupleSketchUtils.scala`` of Spark; ``Sketch.java`` of
datasketches-java (``tuple``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engine.expressions.registry import always
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.sketches.theta_sketches import MOST
from engine.expressions.sketches.tuple_arguments import kind_of, mode_of, ops, tuple_argument
from engine.expressions.tree import Expr


@rowwise_factory(*ops("SketchEstimate"), can_fail=always)
def tuple_sketch_estimate(expr: Expr) -> RowFunction:
    """``tuple_sketch_estimate_*``: how many hashes there were, about."""
    kind = kind_of(expr)

    def get(data: bytes) -> float:
        sketch = tuple_argument(data, kind)
        count = float(len(sketch.entries))
        if not sketch.estimating:
            return count
        with np.errstate(all="ignore"):
            return float(np.float64(count) / np.float64(sketch.theta / float(MOST)))

    return get


@rowwise_factory(*ops("SketchTheta"), can_fail=always)
def tuple_sketch_theta(expr: Expr) -> RowFunction:
    """``tuple_sketch_theta_*``: which part of all hashes it holds."""
    kind = kind_of(expr)
    return lambda data: tuple_argument(data, kind).bound / float(MOST)


@rowwise_factory(*ops("SketchSummary"), can_fail=always)
def tuple_sketch_summary(expr: Expr) -> RowFunction:
    """``tuple_sketch_summary_*``: of all summaries one; 0 of none."""
    kind = kind_of(expr)

    def get(data: bytes, mode: str) -> Any:
        mode = mode_of(mode)
        values = [summary.value for _, summary in tuple_argument(data, kind).valid()]
        if mode == "alwaysone":
            return type(kind.first[mode])(len(values))
        total = values[0] if values and mode != "sum" else kind.first["sum"]
        for value in values:
            total = total + value if mode == "sum" else _extreme(total, value, mode)
        return total

    return get


def _extreme(first: Any, second: Any, mode: str) -> Any:
    """As Java's ``Math.min`` and ``Math.max``."""
    if first != first or second != second:
        return math.nan
    choose = min if mode == "min" else max
    return choose(first, second, key=lambda value: (value, math.copysign(1, value)))
