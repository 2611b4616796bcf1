"""Maps: making them, and what they consist of.

A key is there once: a second one is an error, or (``LAST_WIN``) its value replaces the first one's.
As keys, 0.0 and -0.0 are the same. Which of them is stored differs from function to function, and
for ``map`` between Spark's compiled and interpreted evaluation.

Source: ``ArrayBasedMapBuilder``, ``complexTypeCreator.scala``, ``collectionOperations.scala`` of
Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.argument_types import Rare
from engine.expressions.collections.array_errors import different_lengths, duplicated_key, null_key
from engine.expressions.collections.array_sets import first_of_equals, row_keys
from engine.expressions.datum import to_array
from engine.expressions.lists import Lists, entries, joined, on_arrays, take, valid
from engine.expressions.logic.ranks import has_floats, normalized, ranks
from engine.expressions.registry import (
    ALL,
    Context,
    Datum,
    Evaluator,
    ValueFunction,
    lazy,
    strict,
)
from engine.expressions.tree import Expr

DEDUPLICATION: Final = "spark.sql.mapKeyDedupPolicy"
BUILDERS_READ: Final = (DEDUPLICATION,)
BUILDERS_PRESUME: Final = ("spark.sql.legacy.disableMapKeyNormalization",)
"""What every kernel that calls :func:`build_maps` declares."""


def may_have_bad_keys(expr: Expr) -> bool:
    """Every node that makes maps of other keys may raise."""
    return True


def build_maps(
    expr: Expr, keys: Lists, values: pa.Array, *, positive_zeros: bool = False
) -> pa.Array:
    """A column of maps, as ``expr`` says.

    :param values: of each key.
    :param positive_zeros: 0.0 is stored for -0.0; otherwise only in maps that had duplicates.
    :raises TransformError: ``NULL_MAP_KEY``, ``DUPLICATED_MAP_KEY``.
    """
    same = row_keys(keys, ranks(keys.items), len(keys.items) + 1)
    null, first = ~valid(keys.items), first_of_equals(same)
    last_wins = expr.params[DEDUPLICATION].upper() == "LAST_WIN"
    bad = null if last_wins else null | ~first
    if bad.any():
        index = int(np.argmax(bad))
        raise null_key() if null[index] else duplicated_key(keys.items[index])
    lists = keys
    if pa.types.is_floating(keys.items.type):  # within a struct they stay as they are
        again = (keys.count(~first) > 0)[keys.rows]
        items = pc.if_else(pa.array(again | positive_zeros), normalized(keys.items), keys.items)
        lists = Lists(items, keys.lengths, keys.valid)
    kept = lists.where(first)
    if not first.all():
        _, groups = np.unique(same, return_inverse=True)
        last = np.zeros(len(same), np.int64)
        last[groups] = np.arange(len(same))  # of several, the last assignment counts
        values = take(values, last[groups[first]])
    dtype = expr.dtype
    pairs = entries(
        to_array(kept.items, len(values), dtype.key_type),
        to_array(values, len(values), dtype.item_type),
    )
    return Lists(pairs, kept.lengths, kept.valid).array(dtype)


def _create_map_supports(expr: Expr) -> str | None:
    if has_floats(expr.dtype.key_type):
        return "keys with floating-point numbers depend on how Spark evaluates it"
    return None


@strict(
    "CreateMap",
    can_fail=may_have_bad_keys,
    reads=BUILDERS_READ,
    presumes=BUILDERS_PRESUME,
    supports=_create_map_supports,
    takes=Rare.ALL,
)
def create_map(expr: Expr, context: Context) -> ValueFunction:
    """``map(key, value, key, value, ...)``. All of them are evaluated before a key that is NULL is
    an error, as in Spark's compiled code."""
    dtype = expr.dtype

    def make(*columns: pa.Array) -> pa.Array:
        if not columns:
            return pa.array([[]], dtype)
        width, rows = len(columns) // 2, len(columns[0])
        order = np.arange(width * rows).reshape(width, rows).T.ravel()
        keys, values = (
            take(pa.concat_arrays([to_array(column, rows, inner) for column in part]), order)
            for part, inner in ((columns[0::2], dtype.key_type), (columns[1::2], dtype.item_type))
        )
        lists = Lists(keys, np.full(rows, width), np.full(rows, True))
        return build_maps(expr, lists, values)

    return on_arrays(expr, make)


@lazy(
    "MapInTurn",
    can_fail=may_have_bad_keys,
    reads=BUILDERS_READ,
    presumes=BUILDERS_PRESUME,
    supports=_create_map_supports,
    takes=Rare.ALL,
    always=ALL,
)
def map_in_turn(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``map(...)`` where Spark interprets it: each key is looked at before what is behind it is
    evaluated."""
    widths = range(2, len(children) + 1, 2)
    make = {n: create_map(replace(expr, children=expr.children[:n]), context) for n in widths}

    def evaluate(batch: pa.RecordBatch) -> Datum:
        columns: list[pa.Array] = []
        for child, evaluator in zip(expr.children, children, strict=True):
            if len(columns) in make:
                make[len(columns)](*columns)  # which raises for keys so far
            columns.append(to_array(evaluator(batch), batch.num_rows, child.dtype))
        return make[len(columns)](*columns)

    return evaluate


@strict(
    "MapFromArrays",
    can_fail=may_have_bad_keys,
    reads=BUILDERS_READ,
    presumes=BUILDERS_PRESUME,
    takes=Rare.ALL,
)
def map_from_arrays(expr: Expr, context: Context) -> ValueFunction:
    """``map_from_arrays``."""

    def make(keys: pa.Array, values: pa.Array) -> pa.Array:
        known = valid(keys) & valid(values)
        first, second = (Lists.of(side).only(known) for side in (keys, values))
        if np.any(first.lengths != second.lengths):
            raise different_lengths()
        return build_maps(expr, first, second.items)

    return on_arrays(expr, make)


@strict(
    "MapFromEntries",
    can_fail=may_have_bad_keys,
    reads=BUILDERS_READ,
    presumes=BUILDERS_PRESUME,
    takes=Rare.ALL,
)
def map_from_entries(expr: Expr, context: Context) -> ValueFunction:
    """``map_from_entries``: NULL if one of the entries is."""

    def make(array: pa.Array) -> pa.Array:
        lists = Lists.of(array)
        lists = lists.only(lists.count(~valid(lists.items)) == 0)
        keys, values = lists.items.flatten()
        parted = Lists(keys, lists.lengths, lists.valid)
        return build_maps(expr, parted, values, positive_zeros=True)

    return on_arrays(expr, make)


@strict(
    "MapConcat",
    can_fail=may_have_bad_keys,
    reads=BUILDERS_READ,
    presumes=BUILDERS_PRESUME,
    takes=Rare.ALL,
)
def map_concat(expr: Expr, context: Context) -> ValueFunction:
    """``map_concat``: NULL if one of the maps is."""

    def make(*columns: pa.Array) -> pa.Array:
        if not columns:
            return pa.array([[]], expr.dtype)
        maps = [to_array(column, len(column), expr.dtype) for column in columns]
        lists = joined([Lists.of(column) for column in maps])
        keys, values = lists.items.flatten()
        parted = Lists(keys, lists.lengths, lists.valid)
        return build_maps(expr, parted, values, positive_zeros=True)

    return on_arrays(expr, make)


@strict("MapKeys", "MapValues", takes=Rare.ALL)
def map_part(expr: Expr, context: Context) -> ValueFunction:
    """``map_keys``, ``map_values``."""
    index = 0 if expr.op == "MapKeys" else 1

    def part(maps: pa.Array) -> pa.Array:
        lists = Lists.of(maps)
        items = lists.items.flatten()[index]
        return Lists(items, lists.lengths, lists.valid).array(expr.dtype)

    return on_arrays(expr, part)


@strict("MapEntries", takes=Rare.ALL)
def map_entries(expr: Expr, context: Context) -> ValueFunction:
    """``map_entries``: an array of structs of ``key`` and ``value``."""
    return on_arrays(expr, lambda maps: Lists.of(maps).array(expr.dtype))
