"""Items and parts of arrays and maps.

Source: ``complexTypeExtractors.scala`` and ``collectionOperations.scala`` of Spark.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from engine.expressions.ansi import failure
from engine.expressions.argument_types import Rare
from engine.expressions.collections.array_errors import (
    beyond_memory,
    index_of_zero,
    invalid_index,
    invalid_index_in_element_at,
)
from engine.expressions.collections.array_search import equal_items
from engine.expressions.lists import (
    Ints,
    Lists,
    integers,
    ints,
    on_arrays,
    ranges,
    take,
    valid,
)
from engine.expressions.logic.comparison import alike
from engine.expressions.logic.ranks import is_orderable
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.tree import Expr
from engine.expressions.types import sql_name

_LEAST: Final = -(2**31)
"""Of an INT; the only one that is negative still when its sign is taken away."""
_MOST: Final = 2**31 - 1


def _null_taken_for_index(expr: Expr) -> str | None:
    """In ANSI mode Spark takes an item of an array without NULL for one that is never NULL, of
    whatever index: its compiled code then reads a NULL as the index -1."""
    if expr.nullable or not any(child.nullable for child in expr.children):
        return None
    return "the index may be NULL, which Spark evaluates in two ways: use get(), or coalesce()"


@strict(
    "GetArrayItem",
    can_fail=lambda expr: bool(expr.params["fail_on_error"]),
    supports=_null_taken_for_index,
    reads=("fail_on_error", SPARK_VERSION),  # the latter where the clock gives the index
    takes=Rare.ALL_AND_VARIANT,
)
def get_array_item(expr: Expr, context: Context) -> ValueFunction:
    """``a[i]``, from 0, and ``get``."""
    strictly: bool = expr.params["fail_on_error"]

    def item(array: pa.Array, ordinal: pa.Array) -> pa.Array:
        lists, index = Lists.of(array), ints(ordinal)
        known = lists.valid & valid(ordinal)
        inside = known & (index >= 0) & (index < lists.lengths)
        if strictly and np.any(known & ~inside):
            row = int(np.argmax(known & ~inside))
            raise invalid_index(index[row], lists.lengths[row])
        return take(lists.items, np.where(inside, lists.starts + index, -1))

    return on_arrays(expr, item)


def _element_at_supports(expr: Expr) -> str | None:
    if expr.params.get("default_value_out_of_bound") is not None:
        return "a default value is not supported"
    is_map = pa.types.is_map(expr.children[0].dtype)
    return _key_supports(expr) if is_map else _null_taken_for_index(expr)


def _key_supports(expr: Expr) -> str | None:
    key_type, wanted = expr.children[0].dtype.key_type, expr.children[1].dtype
    if not is_orderable(key_type):
        return f"keys of the type {sql_name(key_type)} are not supported"
    return None if alike(key_type, wanted) else "the key has another type than those of the map"


def _may_be_outside(expr: Expr) -> bool:
    return bool(pa.types.is_list(expr.children[0].dtype))


@strict(
    "ElementAt",
    can_fail=_may_be_outside,
    supports=_element_at_supports,
    reads=("fail_on_error", "default_value_out_of_bound", SPARK_VERSION),
    takes=Rare.ALL,
)
def element_at(expr: Expr, context: Context) -> ValueFunction:
    """``element_at``, ``try_element_at``: the value of a key, or an item of an array, from 1 or, at
    its end, from -1."""
    if pa.types.is_map(expr.children[0].dtype):
        return get_map_value(expr, context)
    strictly: bool = expr.params["fail_on_error"]
    knows_least = is_since(expr, "4.3.0")

    def item(array: pa.Array, ordinal: pa.Array) -> pa.Array:
        lists, at = Lists.of(array), ints(ordinal)
        known = lists.valid & valid(ordinal)
        inside = known & (np.abs(at) <= lists.lengths)
        outside = known & ~inside
        if np.any(known & (at == 0)):
            raise index_of_zero()
        if not knows_least and np.any(least := known & (at == _LEAST)):
            raise beyond_memory(at[least][0], lists.lengths[least][0])
        if strictly and np.any(outside):
            row = int(np.argmax(outside))
            raise invalid_index_in_element_at(at[row], lists.lengths[row])
        index = np.where(at > 0, at - 1, lists.lengths + at)
        return take(lists.items, np.where(inside, lists.starts + index, -1))

    return on_arrays(expr, item)


@strict("GetMapValue", supports=_key_supports, takes=Rare.ALL)
def get_map_value(expr: Expr, context: Context) -> ValueFunction:
    """``m[key]``: NULL if the map has no such key."""

    def value(maps: pa.Array, key: pa.Array) -> pa.Array:
        lists = Lists.of(maps)
        keys, values = lists.items.flatten()
        found = equal_items(Lists(keys, lists.lengths, lists.valid), key)
        return take(values, lists.first(found))

    return on_arrays(expr, value)


@strict("GetArrayStructFields", reads=("ordinal",), takes=Rare.ALL)
def get_array_struct_fields(expr: Expr, context: Context) -> ValueFunction:
    """``array_of_structs.field``: the field of each item."""
    ordinal: int = expr.params["ordinal"]

    def fields(array: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        items = lists.items.flatten()[ordinal]
        return Lists(items, lists.lengths, lists.valid).array(expr.dtype)

    return on_arrays(expr, fields)


@strict("Size", reads=("legacy_size_of_null",), takes=Rare.ALL)
def size(expr: Expr, context: Context) -> ValueFunction:
    """``size``, ``cardinality``, ``array_size``: NULL has none, or (legacy) -1."""
    legacy: bool = expr.params["legacy_size_of_null"]

    def count(array: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        lengths = np.where(lists.valid, lists.lengths, -1)
        return integers(lengths, lists.valid | legacy, expr.dtype)

    return on_arrays(expr, count)


@strict("Slice", can_fail=always, reads=(SPARK_VERSION,), takes=Rare.ALL)
def array_slice(expr: Expr, context: Context) -> ValueFunction:
    """``slice``: from a position on, which is 1 or, at the end, -1. Interpreted before Spark 4.3,
    the place where it ends wraps around, and nothing is found."""
    wraps = bool(expr.params.get("interpreted")) and not is_since(expr, "4.3.0")

    def part(array: pa.Array, start: pa.Array, length: pa.Array) -> pa.Array:
        known = valid(array) & valid(start) & valid(length)
        lists = Lists.of(array).only(known)
        first, count = ints(start), ints(length)
        _check_slice(first[known], count[known])
        first = np.where(first < 0, lists.lengths + first, first - 1)
        if wraps:
            count = np.where(first + count > _MOST, 0, count)
        count = np.clip(np.minimum(count, lists.lengths - first), 0, None)
        count = np.where(known & (first >= 0), count, 0)
        items = take(lists.items, ranges(lists.starts + first, count))
        return Lists(items, count, known).array(expr.dtype)

    return on_arrays(expr, part)


def _check_slice(first: Ints, count: Ints) -> None:
    for row in range(len(first)) if np.any((first == 0) | (count < 0)) else ():
        if first[row] == 0:
            raise failure("INVALID_PARAMETER_VALUE.START", "A slice cannot start at 0.")
        if count[row] < 0:
            raise failure(
                "INVALID_PARAMETER_VALUE.LENGTH", f"A slice has no length of {count[row]}."
            )
