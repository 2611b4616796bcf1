"""``vector_*``: arrays of FLOATs as vectors. A NULL among the items gives NULL.

Sums are those of Spark, which adds the products of eight items at a time, then what is left over:
as FLOATs, since 4.3 as DOUBLEs. Until then a length that a FLOAT has in part only counted as none,
and a NaN was not the largest item.

Source: ``vectorExpressions.scala``, ``VectorFunctionImplUtils.java`` of Spark.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.expressions.ansi import failure
from engine.expressions.registry import always
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.tree import Expr

Vector = list[Any]
Reals = npt.NDArray[Any]

_AT_ONCE: Final = 8
_MIN_NORMAL: Final = float(np.finfo(np.float32).tiny)
_READS: Final = (SPARK_VERSION,)


@rowwise_factory("VectorInnerProduct", can_fail=always, reads=_READS)
def inner_product(expr: Expr) -> RowFunction:
    """``vector_inner_product``."""
    sums = _Sums(expr)

    def product(left: Vector, right: Vector) -> float | None:
        pair = sums.pair("vector_inner_product", left, right)
        return None if pair is None else _as_float(sums.of_products(*pair))

    return product


@rowwise_factory("VectorCosineSimilarity", can_fail=always, reads=_READS)
def cosine_similarity(expr: Expr) -> RowFunction:
    """``vector_cosine_similarity``: NULL if a vector has no direction."""
    sums = _Sums(expr)

    def similarity(left: Vector, right: Vector) -> float | None:
        pair = sums.pair("vector_cosine_similarity", left, right)
        if pair is None or not left:
            return None
        squares = [sums.of_products(side, side) for side in pair]
        with np.errstate(all="ignore"):
            length = sums.real(math.sqrt(squares[0] * squares[1]))
            if sums.is_none(length):
                return None
            return _as_float(sums.of_products(*pair) / length)

    return similarity


@rowwise_factory("VectorL2Distance", can_fail=always, reads=_READS)
def distance(expr: Expr) -> RowFunction:
    """``vector_l2_distance``."""
    sums = _Sums(expr)

    def between(left: Vector, right: Vector) -> float | None:
        pair = sums.pair("vector_l2_distance", left, right)
        if pair is None:
            return None
        with np.errstate(all="ignore"):
            difference = pair[0] - pair[1]
        return _as_float(math.sqrt(sums.of_products(difference, difference)))

    return between


@rowwise_factory("VectorNorm", can_fail=always, reads=_READS)
def norm(expr: Expr) -> RowFunction:
    """``vector_norm``: of degree 1, 2 or infinity."""
    sums = _Sums(expr)

    def length(vector: Vector, degree: float) -> float | None:
        found = sums.norm("vector_norm", vector, degree)
        return None if found is None else _as_float(found)

    return length


@rowwise_factory("VectorNormalize", can_fail=always, reads=_READS)
def normalize(expr: Expr) -> RowFunction:
    """``vector_normalize``: NULL if the vector has no direction."""
    sums = _Sums(expr)

    def normalized(vector: Vector, degree: float) -> list[float] | None:
        length = sums.norm("vector_normalize", vector, degree)
        if length is None or not vector:
            return None if length is None else []
        if sums.is_none(length):
            return None
        with np.errstate(all="ignore"):
            return [_as_float(item) for item in sums.items(vector) / sums.real(length)]

    return normalized


class _Sums:
    """:ivar real: what is computed with."""

    def __init__(self, expr: Expr) -> None:
        self.real: Any = np.float64 if is_since(expr, "4.3.0") else np.float32

    def is_none(self, length: float) -> bool:
        """Whether a vector of this length has no direction."""
        return length == 0 if self.real is np.float64 else length < _MIN_NORMAL

    def pair(self, name: str, left: Vector, right: Vector) -> tuple[Reals, Reals] | None:
        if len(left) != len(right):
            raise failure(
                "VECTOR_DIMENSION_MISMATCH",
                f"The vectors of {name} have {len(left)} and {len(right)} items.",
            )
        if None in left or None in right:
            return None
        return self.items(left), self.items(right)

    def norm(self, name: str, vector: Vector, degree: float) -> Any:
        if degree not in (1, 2, math.inf):
            raise failure(
                "INVALID_VECTOR_NORM_DEGREE",
                f"The degree of {name} is 1, 2 or infinity, and not {degree}.",
            )
        if None in vector:
            return None
        items = self.items(vector)
        if degree == 1:
            return self.of(np.abs(items))
        if degree == 2:
            return self.real(math.sqrt(self.of_products(items, items)))
        largest = np.maximum if self.real is np.float64 else np.fmax
        return largest.reduce(np.abs(items), initial=self.real(0))

    def items(self, vector: Vector) -> Reals:
        return np.array(vector, self.real)

    def of_products(self, left: Reals, right: Reals) -> Any:
        with np.errstate(all="ignore"):
            return self.of(left * right)

    def of(self, terms: Reals) -> Any:
        """In Spark's order: it matters where numbers are rounded."""
        whole = len(terms) // _AT_ONCE * _AT_ONCE
        blocks = terms[:whole].reshape(-1, _AT_ONCE)
        with np.errstate(all="ignore"):
            summed = np.add.accumulate(blocks, axis=1)[:, -1]
            parts = np.concatenate([np.zeros(1, self.real), summed, terms[whole:]])
            return np.add.accumulate(parts)[-1]


def _as_float(value: Any) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(value))
