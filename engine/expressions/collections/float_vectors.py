"""``vector_*``: arrays of FLOATs as vectors. A NULL among the items gives NULL.

Sums are those of Spark, which adds the products of eight items at a time, then what is left over.

Source: ``vectorExpressions.scala``, ``VectorFunctionImplUtils.java`` of Spark.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.expressions.ansi import failure
from engine.expressions.registry import always
from engine.expressions.rowwise import rowwise

Vector = list[Any]
Floats = npt.NDArray[np.float32]

_AT_ONCE: Final = 8
_MIN_NORMAL: Final = float(np.finfo(np.float32).tiny)


@rowwise("VectorInnerProduct", can_fail=always)
def inner_product(left: Vector, right: Vector) -> float | None:
    """``vector_inner_product``."""
    pair = _pair("vector_inner_product", left, right)
    return None if pair is None else _sum_of_products(*pair)


@rowwise("VectorCosineSimilarity", can_fail=always)
def cosine_similarity(left: Vector, right: Vector) -> float | None:
    """``vector_cosine_similarity``: NULL if a vector has no direction."""
    pair = _pair("vector_cosine_similarity", left, right)
    if pair is None or not left:
        return None
    squares = [np.float32(_sum_of_products(side, side)) for side in pair]
    with np.errstate(all="ignore"):
        length = np.float32(math.sqrt(squares[0] * squares[1]))
        if length < _MIN_NORMAL:
            return None
        return float(np.float32(_sum_of_products(*pair)) / length)


@rowwise("VectorL2Distance", can_fail=always)
def distance(left: Vector, right: Vector) -> float | None:
    """``vector_l2_distance``."""
    pair = _pair("vector_l2_distance", left, right)
    if pair is None:
        return None
    with np.errstate(all="ignore"):
        difference = pair[0] - pair[1]
    return _root(_sum_of_products(difference, difference))


@rowwise("VectorNorm", can_fail=always)
def norm(vector: Vector, degree: float) -> float | None:
    """``vector_norm``: of degree 1, 2 or infinity."""
    return _norm("vector_norm", vector, degree)


@rowwise("VectorNormalize", can_fail=always)
def normalize(vector: Vector, degree: float) -> list[float] | None:
    """``vector_normalize``: NULL if the vector has no direction."""
    length = _norm("vector_normalize", vector, degree)
    if length is None or not vector:
        return None if length is None else []
    if length < _MIN_NORMAL:
        return None
    with np.errstate(all="ignore"):
        return [float(item) for item in _floats(vector) / np.float32(length)]


def _norm(name: str, vector: Vector, degree: float) -> float | None:
    if degree not in (1, 2, math.inf):
        raise failure(
            "INVALID_VECTOR_NORM_DEGREE",
            f"The degree of {name} is 1, 2 or infinity, and not {degree}.",
        )
    if None in vector:
        return None
    items = _floats(vector)
    if degree == 1:
        return _sum(np.abs(items))
    if degree == 2:
        return _root(_sum_of_products(items, items))
    return float(np.fmax.reduce(np.abs(items), initial=np.float32(0)))


def _pair(name: str, left: Vector, right: Vector) -> tuple[Floats, Floats] | None:
    if len(left) != len(right):
        raise failure(
            "VECTOR_DIMENSION_MISMATCH",
            f"The vectors of {name} have {len(left)} and {len(right)} items.",
        )
    if None in left or None in right:
        return None
    return _floats(left), _floats(right)


def _floats(vector: Vector) -> Floats:
    return np.array(vector, np.float32)


def _sum_of_products(left: Floats, right: Floats) -> float:
    with np.errstate(all="ignore"):
        return _sum(left * right)


def _sum(terms: Floats) -> float:
    """In Spark's order: it matters where FLOATs are rounded."""
    whole = len(terms) // _AT_ONCE * _AT_ONCE
    blocks = terms[:whole].reshape(-1, _AT_ONCE)
    with np.errstate(all="ignore"):
        summed = np.add.accumulate(blocks, axis=1)[:, -1]
        parts = np.concatenate([np.zeros(1, np.float32), summed, terms[whole:]])
        return float(np.add.accumulate(parts)[-1])


def _root(square: float) -> float:
    return float(np.float32(math.sqrt(square)))
