"""``hll_sketch_estimate``, ``hll_union``.

Estimates out of a sketch's coupons, or of registers without an order, go by tables of the package
``datasketches``, which computes them as the library of Java does.

Source: ``datasketchesExpressions.scala`` of Spark; ``Union.java`` of datasketches-java (``hll``).
"""

from __future__ import annotations

import importlib.util
import math
import struct
from dataclasses import replace
from functools import lru_cache
from typing import Final

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.registry import always
from engine.expressions.rowwise import rowwise
from engine.expressions.sketches.hll_bytes import check_lg_slots, read_hll
from engine.expressions.sketches.hll_coupons import Coupons
from engine.expressions.sketches.hll_registers import Registers
from engine.expressions.sketches.memory import SketchError, bad_argument
from engine.expressions.sketches.theta import rounded
from engine.expressions.tree import Expr

HllSketch = Coupons | Registers
_COUPONS_MOST: Final = 10_200_000


def _needs_package(expr: Expr) -> str | None:
    if importlib.util.find_spec("datasketches") is None:
        return "needs the package datasketches: pip install 'airflow-provider-continuous[sketches]'"
    return None


@rowwise("HllSketchEstimate", can_fail=always, supports=_needs_package)
def hll_sketch_estimate(data: bytes) -> int:
    """``hll_sketch_estimate``: how many values there were, about."""
    sketch = _argument(data)
    if isinstance(sketch, Registers) and not sketch.out_of_order:
        return rounded(sketch.running)
    try:
        if isinstance(sketch, Coupons):
            return rounded(_estimate_of_coupons(sketch.count))
        return rounded(_estimate_of_registers(sketch))
    except SketchError as error:
        raise _invalid(error) from error


@rowwise("HllUnion", can_fail=always, supports=_needs_package)
def hll_union(left: bytes, right: bytes, different: bool) -> bytes:
    """``hll_union``: a sketch of the values of both; of as few slots as one of them has."""
    first, second = _argument(left), _argument(right)
    if not different and first.lg_slots != second.lg_slots:
        raise failure(
            "HLL_UNION_DIFFERENT_LG_K",
            f"The sketches have the lgConfigK {first.lg_slots} and {second.lg_slots}.",
            "Set allowDifferentLgConfigK to true.",
        )
    lg_slots = min(first.lg_slots, second.lg_slots)
    check_lg_slots(lg_slots)
    united: HllSketch = Coupons(lg_slots)
    for sketch in (first, second):
        united = _united(united, sketch)
    return united.to_bytes()


def _united(united: HllSketch, sketch: HllSketch) -> HllSketch:
    if isinstance(sketch, Coupons):
        if sketch.count == 0:
            return united
        nothing = isinstance(united, Coupons) and not united.count
        if sketch.hashed and nothing and sketch.lg_slots == united.lg_slots:
            return sketch.copy()
        return _with_coupons(united, sketch)
    if isinstance(united, Coupons):
        return _with_coupons(sketch.rebuilt(united.lg_slots), united)
    united.merge(sketch)
    return united


def _with_coupons(united: HllSketch, coupons: Coupons) -> HllSketch:
    for coupon in coupons.coupons():
        if coupon >> 26:
            if isinstance(united, Registers):
                united.take(coupon)
            elif united.take(coupon):
                united = united.grown(_estimate_of_coupons)
    return united


@lru_cache(maxsize=1024)
def _estimate_of_coupons(count: int) -> float:
    """It depends on their number alone.

    :raises SketchError: no sketch has so many.
    """
    if not 0 <= count <= _COUPONS_MOST:
        raise bad_argument(f"X value out of range: {count}")
    lg_size = max(count.bit_length(), 5)
    start = struct.pack("<8Bi", 3, 1, 7, 21, lg_size, 0, 0, 9, count)
    return _estimate(start + bytes(4 << lg_size))


def _estimate_of_registers(sketch: Registers) -> float:
    """:raises SketchError: the number of those that are 0 matters, and is below 0."""
    if sketch.least or sketch.at_least >= 0:
        return _estimate(sketch.to_bytes())
    found = _estimate(replace(sketch, at_least=0).to_bytes())
    is_far = found == 0 or found > 3 * len(sketch.values)
    if is_far and not math.isnan(sketch.low + sketch.high):
        return found
    raise bad_argument(f"So many registers are 0: {sketch.at_least}")


def _estimate(data: bytes) -> float:
    from datasketches import hll_sketch

    try:
        return float(hll_sketch.deserialize(data).get_estimate())
    except ValueError as error:
        raise bad_argument(str(error)) from error


def _argument(data: bytes) -> HllSketch:
    try:
        return read_hll(data)
    except SketchError as error:
        if error.name in ("SketchesArgumentException", "ArrayIndexOutOfBoundsException"):
            raise _invalid(error) from error
        raise


def _invalid(error: SketchError) -> TransformError:
    return failure("HLL_INVALID_INPUT_SKETCH_BUFFER", f"This is no HLL sketch: {error.text}")
