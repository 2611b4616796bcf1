"""``kll_sketch_get_n_*``, ``_get_quantile_*``, ``_get_rank_*``, ``_to_string_*``, ``_merge_*``: of
BIGINT, DOUBLE and FLOAT.

Source: ``kllExpressions.scala`` of Spark; ``LongsSketchSortedView.java``, ``QuantilesUtil.java``,
``KllHelper.java`` of datasketches-java.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.java_doubles import PLAIN_HIGH, PLAIN_LOW, double_text, java_text
from engine.expressions.registry import always
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.sketches.kll_merging import merged, write_kll
from engine.expressions.sketches.kll_sketches import KllSketch, read_kll
from engine.expressions.sketches.memory import SketchError, as_int, bad_argument
from engine.expressions.sketches.theta import rounded
from engine.expressions.tree import Expr

_DTYPES: Final = {"Bigint": "<i8", "Double": "<f8", "Float": "<f4"}
_NAMES: Final = {"<i8": "Longs", "<f8": "Doubles", "<f4": "Floats"}


def _float_text(value: np.float32) -> str:
    plain = value == 0 or PLAIN_LOW <= abs(value) < PLAIN_HIGH
    return str(value) if plain else java_text(str(value), is_float=True)


_TEXTS: Final[dict[str, Callable[[Any], str]]] = {
    "<i8": str,
    "<f8": lambda value: double_text(float(value)),
    "<f4": _float_text,
}
_ROUNDED: Final = 1e7
"""Ranks among at most so many values are rounded, to one of so many."""


def _ops(what: str) -> tuple[str, ...]:
    return tuple(f"KllSketch{what}{of}" for of in _DTYPES)


def _dtype(expr: Expr) -> str:
    return next(dtype for of, dtype in _DTYPES.items() if expr.op.endswith(of))


@rowwise_factory(*_ops("GetN"), can_fail=always)
def kll_sketch_get_n(expr: Expr) -> RowFunction:
    """``kll_sketch_get_n_*``: how many values it has seen."""
    dtype = _dtype(expr)
    return lambda data: _argument(data, dtype).n


@rowwise_factory(*_ops("GetQuantile"), can_fail=always)
def kll_sketch_get_quantile(expr: Expr) -> RowFunction:
    """``kll_sketch_get_quantile_*``: the least value that so large a part of all does not exceed;
    for an array of ranks an array of them."""
    dtype = _dtype(expr)

    def get(data: bytes, ranks: float | list[float]) -> Any:
        sketch = _argument(data, dtype, wrapped=True)
        _values(sketch)
        if isinstance(ranks, list):
            return [_quantile(sketch, rank) for rank in ranks]
        return _quantile(sketch, ranks)

    return get


@rowwise_factory(*_ops("GetRank"), can_fail=always)
def kll_sketch_get_rank(expr: Expr) -> RowFunction:
    """``kll_sketch_get_rank_*``: which part of all does not exceed the value; for an array of
    values an array of them."""
    dtype = _dtype(expr)

    def get(data: bytes, values: Any) -> Any:
        if not isinstance(values, list):
            return _rank(_argument(data, dtype, wrapped=True), values)
        return [_rank(_argument(data, dtype, wrapped=True), value) for value in values]

    return get


@rowwise_factory(*_ops("Merge"), can_fail=always)
def kll_sketch_merge(expr: Expr) -> RowFunction:
    """``kll_sketch_merge_*``: of the values of both."""
    dtype = _dtype(expr)

    def merge(left: bytes, right: bytes) -> bytes:
        sketches = _argument(left, dtype), _argument(right, dtype, wrapped=True)
        try:
            return write_kll(merged(*sketches))
        except (SketchError, ValueError) as error:
            raise _invalid(error) from error

    return merge


@rowwise_factory(*_ops("ToString"), can_fail=always)
def kll_sketch_to_string(expr: Expr) -> RowFunction:
    """``kll_sketch_to_string_*``: a summary of it."""
    dtype = _dtype(expr)

    def write(data: bytes) -> str:
        return _summary(_argument(data, dtype), dtype)

    return write


def _argument(data: bytes, dtype: str, *, wrapped: bool = False) -> KllSketch:
    try:
        return read_kll(data, dtype, wrapped=wrapped)
    except (SketchError, ValueError) as error:
        raise _invalid(error) from error


def _values(sketch: KllSketch) -> tuple[Any, Any]:
    try:
        return sketch.weighted
    except (SketchError, ValueError) as error:
        raise _invalid(error) from error


def _quantile(sketch: KllSketch, rank: float) -> Any:
    items, sums = _values(sketch)
    if rank < 0 or rank > 1:
        raise failure(
            "KLL_SKETCH_INVALID_QUANTILE_RANGE", f"A rank must be from 0 to 1, and is {rank}."
        )
    natural = rank * sketch.n
    if sketch.n <= _ROUNDED:
        natural = rounded(natural * _ROUNDED) / _ROUNDED
    wanted = 0 if math.isnan(natural) else math.ceil(natural)
    index = int(np.searchsorted(sums, wanted))
    return items[min(index, len(items) - 1)].item()


def _rank(sketch: KllSketch, value: Any) -> float:
    items, sums = _values(sketch)
    if value != value:
        raise _invalid(bad_argument("Input v must not be NaN."))
    index = _last_up_to(items, items.dtype.type(value))
    return 0.0 if index is None else float(sums[index]) / float(sketch.n)


def _last_up_to(items: Any, value: Any) -> int | None:
    """The index of the last item that does not exceed the value; of items that are not ascending,
    the one that the library's search comes to."""
    low, high = 0, len(items) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if value < items[middle]:
            high = middle
        elif items[middle + 1] <= value:
            low = middle + 1
        else:
            return middle
    return next((index for index in (high, low) if value >= items[index]), None)


def _summary(sketch: KllSketch, dtype: str) -> str:
    size, count = np.dtype(dtype).itemsize, len(sketch.levels) - 1
    free, room = sketch.levels[0], sketch.levels[-1]
    kept = as_int(room - free)
    compact = as_int(20 + 4 * count + (2 + kept) * size)
    if sketch.n in (0, 1):
        compact = 8 + sketch.n * size
    ends = [
        "NaN" if sketch.n == 0 else _TEXTS[dtype](end) for end in (sketch.least, sketch.largest)
    ]
    lines = {
        "K": sketch.k,
        "Dynamic min K": sketch.k_least,
        "M": sketch.m,
        "N": sketch.n,
        "Epsilon": _percent(2.296, sketch.k_least, 0.9723),
        "Epsilon PMF": _percent(2.446, sketch.k_least, 0.9433),
        "Empty": _flag(sketch.n == 0),
        "Estimation Mode": _flag(count > 1),
        "Levels": count,
        "Level 0 Sorted": _flag(sketch.sorted),
        "Capacity Items": room,
        "Retained Items": kept,
        "Free Space": free,
        "ReadOnly": "false",
        "Updatable Storage Bytes": 20 + 4 * (count + 1) + (2 + room) * size,
        "Compact Storage Bytes": compact,
        "Min Item": ends[0],
        "Max Item": ends[1],
    }
    text = "".join(f"   {name:23}: {value}\n" for name, value in lines.items())
    return f"\n### KllKll{_NAMES[dtype]}Sketch Summary:\n{text}### End sketch summary\n"


def _percent(error: float, k: int, power: float) -> str:
    return f"{error / k**power * 100:.3f}%" if k else "Infinity%"


def _flag(value: bool) -> str:
    return str(value).lower()


def _invalid(why: Exception) -> TransformError:
    return failure("KLL_INVALID_INPUT_SKETCH_BUFFER", f"This is no KLL sketch: {why}")
