"""Looking for items in arrays: ``array_contains``, ``array_position``, ``array_max``, ...

Items are compared as ``=`` compares them: see :mod:`engine.expressions.logic.comparison`.

Source: ``collectionOperations.scala`` of Spark.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.argument_types import Rare
from engine.expressions.lists import (
    Lists,
    Mask,
    booleans,
    integers,
    on_arrays,
    take,
    valid,
)
from engine.expressions.logic.comparison import alike, compare
from engine.expressions.logic.ranks import is_orderable, ranks
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.types import sql_name


def items_orderable(expr: Expr) -> str | None:
    """Why the items of the node's arrays cannot be compared, or None."""
    inner = expr.children[0].dtype.value_type
    if not is_orderable(inner):
        return f"comparing values of the type {sql_name(inner)} is not supported"
    return None


def _value_supports(expr: Expr) -> str | None:
    if not alike(expr.children[0].dtype.value_type, expr.children[1].dtype):
        return "the value has another type than the items of the array"
    return items_orderable(expr)


def equal_items(lists: Lists, value: pa.Array) -> Mask:
    """Which items equal the value of their row. NULL equals nothing."""
    equal = compare("EqualTo", lists.items.type)(lists.items, take(value, lists.rows))
    if isinstance(equal, pa.Scalar):  # of items that are all NULL
        return np.full(len(lists.items), False)
    return np.asarray(pc.fill_null(equal, False).to_numpy(zero_copy_only=False))


@strict("ArrayContains", supports=_value_supports, takes=Rare.ALL)
def array_contains(expr: Expr, context: Context) -> ValueFunction:
    """NULL if it is not found and an item is NULL."""

    def contains(array: pa.Array, value: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        found = lists.count(equal_items(lists, value)) > 0
        has_null = lists.count(~valid(lists.items)) > 0
        return booleans(found, lists.valid & valid(value) & (found | ~has_null))

    return on_arrays(expr, contains)


@strict("ArrayPosition", supports=_value_supports, takes=Rare.ALL)
def array_position(expr: Expr, context: Context) -> ValueFunction:
    """From 1; 0 if it is not found."""

    def position(array: pa.Array, value: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        first = lists.first(equal_items(lists, value))
        found = np.where(first < 0, 0, first - lists.starts + 1)
        return integers(found, lists.valid & valid(value), expr.dtype)

    return on_arrays(expr, position)


@strict("ArrayRemove", supports=_value_supports, takes=Rare.ALL)
def array_remove(expr: Expr, context: Context) -> ValueFunction:
    """Removes equal items; NULL items stay."""

    def remove(array: pa.Array, value: pa.Array) -> pa.Array:
        lists = Lists.of(array).only(valid(value))
        return lists.where(~equal_items(lists, value)).array(expr.dtype)

    return on_arrays(expr, remove)


@strict("ArrayMax", "ArrayMin", supports=items_orderable, takes=Rare.ALL)
def array_extreme(expr: Expr, context: Context) -> ValueFunction:
    """NULL items are skipped; of equal items the first one; NaN is the largest number."""
    sign = 1 if expr.op == "ArrayMax" else -1

    def extreme(array: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        keys = ranks(lists.items)
        known = keys > 0
        keys = sign * keys
        best = np.full(len(lists), np.iinfo(np.int64).min)
        np.maximum.at(best, lists.rows[known], keys[known])
        return take(lists.items, lists.first(known & (keys == best[lists.rows])))

    return on_arrays(expr, extreme)
