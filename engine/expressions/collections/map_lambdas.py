"""Functions of maps that take a lambda.

Source: ``higherOrderFunctions.scala`` of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.collections.array_sets import first_of_equals, row_keys
from engine.expressions.collections.higher_order import is_true, lists_of
from engine.expressions.collections.maps import (
    BUILDERS_PRESUME,
    BUILDERS_READ,
    build_maps,
    may_have_bad_keys,
)
from engine.expressions.datum import evaluate_where, to_array
from engine.expressions.lambdas import Lambda
from engine.expressions.lists import Ints, Lists, entries, take
from engine.expressions.logic.comparison import alike
from engine.expressions.logic.ranks import common_ranks, normalized
from engine.expressions.registry import Context, Evaluator, lazy
from engine.expressions.tree import Expr


@lazy("MapFilter", takes=Rare.ALL)
def map_filter(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``map_filter``: keeps the entries for which the lambda is true."""
    predicate = Lambda(expr.children[1], children[1])

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        lists = lists_of(expr.children[0], children[0], batch)
        keep = predicate(batch, lists.rows, *lists.items.flatten())
        return lists.where(is_true(keep)).array(expr.dtype)

    return evaluate


@lazy("TransformValues", takes=Rare.ALL)
def transform_values(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``transform_values``: the keys stay as they are."""
    function = Lambda(expr.children[1], children[1])

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        lists = lists_of(expr.children[0], children[0], batch)
        keys, values = lists.items.flatten()
        changed = function(batch, lists.rows, keys, values)
        return Lists(entries(keys, changed), lists.lengths, lists.valid).array(expr.dtype)

    return evaluate


@lazy(
    "TransformKeys",
    can_fail=may_have_bad_keys,
    reads=BUILDERS_READ,
    presumes=BUILDERS_PRESUME,
    takes=Rare.ALL,
)
def transform_keys(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``transform_keys``."""
    function = Lambda(expr.children[1], children[1])

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        lists = lists_of(expr.children[0], children[0], batch)
        keys, values = lists.items.flatten()
        changed = function(batch, lists.rows, keys, values)
        return build_maps(expr, Lists(changed, lists.lengths, lists.valid), values)

    return evaluate


def _zip_supports(expr: Expr) -> str | None:
    left, right = (child.dtype for child in expr.children[:2])
    return None if alike(left.key_type, right.key_type) else "the keys are of different types"


@lazy("MapZipWith", supports=_zip_supports, takes=Rare.ALL)
def map_zip_with(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``map_zip_with``: the keys of the left map, then those that only the right one has."""
    function = Lambda(expr.children[2], children[2])
    key_type = expr.dtype.key_type

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        left = lists_of(expr.children[0], children[0], batch)
        # Spark does not look at the right side where the left one is NULL.
        given = pa.array(left.valid)
        right = Lists.of(evaluate_where(children[1], batch, given, expr.children[1].dtype))
        left = left.only(right.valid)
        keys, values = zip(left.items.flatten(), right.items.flatten(), strict=True)
        one, other = common_ranks(*keys)
        width = len(one) + len(other) + 1
        names = row_keys(left, one, width), row_keys(right, other, width)
        both, rows = np.concatenate(names), np.concatenate([left.rows, right.rows])
        chosen = np.flatnonzero(first_of_equals(both))
        chosen = chosen[np.argsort(rows[chosen], kind="stable")]
        united = take(
            pa.concat_arrays([to_array(side, len(side), key_type) for side in keys]), chosen
        )
        if pa.types.is_floating(key_type):
            united = normalized(united)
        found = (
            take(side, _index(both[chosen], name)) for side, name in zip(values, names, strict=True)
        )
        results = function(batch, rows[chosen], united, *found)
        lengths = np.bincount(rows[chosen], minlength=len(left)).astype(np.int64)
        return Lists(entries(united, results), lengths, left.valid).array(expr.dtype)

    return evaluate


def _index(wanted: Ints, among: Ints) -> Ints:
    """Where each number is first found, -1 if it is not."""
    known, first = np.unique(among, return_index=True)
    if len(known) == 0:
        return np.full(len(wanted), -1)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, first[place], -1)
