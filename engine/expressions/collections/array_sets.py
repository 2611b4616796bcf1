"""Arrays as sets: ``array_distinct``, ``array_union``, ``array_intersect``, ``array_except``,
``arrays_overlap``.

NULL counts as a value that equals itself. The first of equal items is kept, -0.0 becomes 0.0.

Source: ``collectionOperations.scala`` of Spark.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.collections.array_search import items_orderable
from engine.expressions.datum import to_array
from engine.expressions.lists import (
    Ints,
    Lists,
    Mask,
    booleans,
    joined,
    on_arrays,
    valid,
)
from engine.expressions.logic.comparison import alike
from engine.expressions.logic.ranks import common_ranks, normalized, ranks
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.tree import Expr


def first_of_equals(keys: Ints) -> Mask:
    """For each number whether no earlier one equals it."""
    is_first = np.full(len(keys), False)
    is_first[np.unique(keys, return_index=True)[1]] = True
    return is_first


def row_keys(lists: Lists, item_ranks: Ints, width: int) -> Ints:
    """Numbers that are equal for equal items of one row.

    :param width: more than any rank.
    """
    return lists.rows * width + item_ranks


def _supports(expr: Expr) -> str | None:
    first, second = (child.dtype for child in expr.children)
    if not alike(first, second):
        return "comparing items of different types is not supported"
    return items_orderable(expr)


@strict("ArrayDistinct", supports=items_orderable, takes=Rare.ALL)
def array_distinct(expr: Expr, context: Context) -> ValueFunction:
    """Each value once."""

    def distinct(array: pa.Array) -> pa.Array:
        return _distinct(Lists.of(array)).array(expr.dtype)

    return on_arrays(expr, distinct)


def _distinct(lists: Lists) -> Lists:
    keys = row_keys(lists, ranks(lists.items), len(lists.items) + 1)
    return _normalized(lists.where(first_of_equals(keys)))


def _normalized(lists: Lists) -> Lists:
    return Lists(normalized(lists.items), lists.lengths, lists.valid)


@strict("ArrayUnion", supports=_supports, takes=Rare.ALL)
def array_union(expr: Expr, context: Context) -> ValueFunction:
    """Each value of both once."""

    def union(left: pa.Array, right: pa.Array) -> pa.Array:
        parts = [Lists.of(to_array(side, len(side), expr.dtype)) for side in (left, right)]
        return _distinct(joined(parts)).array(expr.dtype)

    return on_arrays(expr, union)


@strict("ArrayIntersect", "ArrayExcept", supports=_supports, takes=Rare.ALL)
def array_difference(expr: Expr, context: Context) -> ValueFunction:
    """Each value of the left array once that is, or is not, in the right one."""
    wanted = expr.op == "ArrayIntersect"

    def choose(left: pa.Array, right: pa.Array) -> pa.Array:
        first, second = Lists.of(left), Lists.of(right)
        keys, others = _common_keys(first, second)
        keep = first_of_equals(keys) & (np.isin(keys, others) == wanted)
        return _normalized(first.where(keep).only(second.valid)).array(expr.dtype)

    return on_arrays(expr, choose)


def _common_keys(first: Lists, second: Lists) -> tuple[Ints, Ints]:
    one, other = common_ranks(first.items, second.items)
    width = len(one) + len(other) + 1
    return row_keys(first, one, width), row_keys(second, other, width)


@strict("ArraysOverlap", supports=_supports, takes=Rare.ALL)
def arrays_overlap(expr: Expr, context: Context) -> ValueFunction:
    """Whether they share a value that is not NULL. NULL if not, neither is empty, and one of them
    has a NULL."""

    def overlap(left: pa.Array, right: pa.Array) -> pa.Array:
        first, second = Lists.of(left), Lists.of(right)
        keys, others = _common_keys(first, second)
        known = [valid(side.items) for side in (first, second)]
        shared = first.count(known[0] & np.isin(keys, others)) > 0
        has_null = (first.count(~known[0]) > 0) | (second.count(~known[1]) > 0)
        unsure = ~shared & has_null & (first.lengths > 0) & (second.lengths > 0)
        return booleans(shared, first.valid & second.valid & ~unsure)

    return on_arrays(expr, overlap)
