"""Arrays from values and from other arrays.

Source: ``complexTypeCreator.scala`` and ``collectionOperations.scala`` of Spark.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.argument_types import Rare
from engine.expressions.collections.array_errors import LENGTH_MAX, index_of_zero, too_long
from engine.expressions.datum import to_array
from engine.expressions.lists import (
    Lists,
    booleans,
    ints,
    joined,
    on_arrays,
    ranges,
    take,
    valid,
)
from engine.expressions.registry import Context, ValueFunction, always, strict
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.tree import Expr


@strict("CreateArray", takes=Rare.ALL_AND_VARIANT)
def create_array(expr: Expr, context: Context) -> ValueFunction:
    """``array``."""
    width, inner = len(expr.children), expr.dtype.value_type

    def make(*columns: pa.Array) -> pa.Array:
        if not columns:
            return pa.array([[]], expr.dtype)
        rows = len(columns[0])
        items = pa.concat_arrays([to_array(column, rows, inner) for column in columns])
        order = np.arange(width * rows).reshape(width, rows).T.ravel()
        lengths = np.full(rows, width)
        return Lists(take(items, order), lengths, np.full(rows, True)).array(expr.dtype)

    return on_arrays(expr, make)


@strict("KnownNotContainsNull", takes=Rare.ALL)
def known_not_contains_null(expr: Expr, context: Context) -> ValueFunction:
    """The same array, of a type without NULL."""
    return on_arrays(expr, lambda array: array)


@strict("ArrayRepeat", can_fail=always, unbounded=True, takes=Rare.ALL)
def array_repeat(expr: Expr, context: Context) -> ValueFunction:
    """``array_repeat``: empty for a count below 1."""

    def make(element: pa.Array, count: pa.Array) -> pa.Array:
        lengths = np.maximum(ints(count), 0)
        if np.any(lengths > LENGTH_MAX):
            raise too_long("array_repeat", lengths.max())
        parents = ranges(np.arange(len(lengths)), np.minimum(lengths, 1))
        items = take(element, np.repeat(parents, lengths[lengths > 0]))
        return Lists(items, lengths, valid(count)).array(expr.dtype)

    return on_arrays(expr, make)


def concat_arrays(expr: Expr) -> ValueFunction:
    """``concat`` of arrays: NULL if any of them is."""

    def make(*columns: pa.Array) -> pa.Array:
        parts = [Lists.of(to_array(column, len(column), expr.dtype)) for column in columns]
        return joined(parts).array(expr.dtype)

    return on_arrays(expr, make)


def reverse_array(expr: Expr) -> ValueFunction:
    """``reverse`` of an array."""

    def make(array: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        ends = np.repeat(2 * lists.starts + lists.lengths - 1, lists.lengths)
        return lists.taken(ends - np.arange(len(lists.items))).array(expr.dtype)

    return on_arrays(expr, make)


@strict("Flatten", takes=Rare.ALL)
def flatten(expr: Expr, context: Context) -> ValueFunction:
    """``flatten``: NULL if any of the inner arrays is."""

    def make(array: pa.Array) -> pa.Array:
        outer = Lists.of(array)
        inner = Lists.of(outer.items)
        whole = outer.valid & (outer.count(~inner.valid) == 0)
        inner = inner.only(np.repeat(whole, outer.lengths))
        lengths = np.bincount(outer.rows, inner.lengths, len(outer)).astype(np.int64)
        return Lists(inner.items, lengths, whole).array(expr.dtype)

    return on_arrays(expr, make)


@strict(
    "ArrayInsert", can_fail=always, reads=("legacy_negative_index",), unbounded=True, takes=Rare.ALL
)
def array_insert(expr: Expr, context: Context) -> ValueFunction:
    """``array_insert``, ``array_append``, ``array_prepend``: gaps are filled with NULL.

    Beyond the start, the new item comes first, then the gap. A negative position counts from behind
    the last item, before it where ``legacy_negative_index`` is set.
    """
    legacy = int(bool(expr.params.get("legacy_negative_index")))

    def make(array: pa.Array, position: pa.Array, item: pa.Array) -> pa.Array:
        known = valid(array) & valid(position)
        lists, at = Lists.of(array).only(known), ints(position)
        if np.any(known & (at == 0)):
            raise index_of_zero()
        before = (at < 0) & (-at > lists.lengths)
        index = np.where(at > 0, at - 1, np.where(before, 0, at + lists.lengths + 1 - legacy))
        lengths = np.where(
            before, -at + legacy, np.maximum(lists.lengths, np.where(before, 0, index)) + 1
        )
        lengths = np.where(known, lengths, 0)
        if np.any(lengths > LENGTH_MAX):
            raise too_long("array_insert", lengths.max())
        gap = np.where(before, lengths - 1 - lists.lengths, 0)
        # Where each item of the result comes from: the array, the new items behind it, or nowhere.
        places = ranges(np.zeros_like(lengths), lengths)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        source = places - gap[rows] - (places > index[rows])
        inside = (source >= 0) & (source < lists.lengths[rows])
        new = places == index[rows]
        chosen = np.where(inside, lists.starts[rows] + source, -1)
        chosen = np.where(new, len(lists.items) + rows, chosen)
        inner = expr.dtype.value_type
        both = pa.concat_arrays([to_array(a, len(a), inner) for a in (lists.items, item)])
        return Lists(take(both, chosen), lengths, known).array(expr.dtype)

    return on_arrays(expr, make)


@strict("ArraysZip", takes=Rare.ALL)
def arrays_zip(expr: Expr, context: Context) -> ValueFunction:
    """``arrays_zip``: as long as the longest, shorter ones are filled with NULL."""
    struct = expr.dtype.value_type

    def make(*columns: pa.Array) -> pa.Array:
        if not columns:
            return pa.array([[]], expr.dtype)
        known, parts = aligned([Lists.of(column) for column in columns])
        fields = [
            to_array(part.items, len(part.items), field.type)
            for part, field in zip(parts, struct, strict=True)
        ]
        items = pa.StructArray.from_arrays(fields, fields=list(struct))
        return Lists(items, parts[0].lengths, known).array(expr.dtype)

    return on_arrays(expr, make)


def aligned(parts: list[Lists]) -> tuple[np.ndarray, list[Lists]]:
    """Columns of arrays made equally long with NULL, and where none of them is NULL."""
    known = np.logical_and.reduce([part.valid for part in parts])
    longest = np.maximum.reduce([part.lengths for part in parts])
    lengths = np.where(known, longest, 0)
    places = ranges(np.zeros_like(lengths), lengths)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    filled = []
    for part in parts:
        inside = places < part.lengths[rows]
        items = take(part.items, np.where(inside, part.starts[rows] + places, -1))
        filled.append(Lists(items, lengths, known))
    return known, filled


def _replacement_alone_may_be_null(expr: Expr) -> str | None:
    """What Spark 4.1 compiles never says then that there is a result."""
    if len(expr.children) < 3 or is_since(expr, "4.2.0"):
        return None
    array, delimiter, replacement = expr.children
    if not replacement.nullable or array.nullable or delimiter.nullable:
        return None
    return (
        "Spark 4.1 returns NULL always if only the replacement may be NULL: use coalesce() for it"
    )


@strict("ArrayJoin", supports=_replacement_alone_may_be_null, reads=(SPARK_VERSION,))
def array_join(expr: Expr, context: Context) -> ValueFunction:
    """``array_join``: leaves out NULL, unless there is a text for it."""

    def make(array: pa.Array, delimiter: pa.Array, *replacement: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        known = lists.valid & valid(delimiter)
        if replacement:
            known = known & valid(replacement[0])
            filled = pc.coalesce(lists.items, take(replacement[0], lists.rows))
            lists = Lists(filled, lists.lengths, lists.valid)
        lists = lists.where(valid(lists.items))
        # Arrow drops rows where a column of delimiters is NULL.
        texts = pc.binary_join(lists.array(pa.list_(pa.string())), delimiter.fill_null(""))
        return pc.if_else(booleans(known, np.full(len(known), True)), texts, None)

    return on_arrays(expr, make)
