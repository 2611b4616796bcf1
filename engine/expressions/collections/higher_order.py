"""Functions of arrays that take a lambda: ``transform``, ``filter``, ``exists``, ``aggregate``, ...

Source: ``higherOrderFunctions.scala`` of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.argument_types import Rare
from engine.expressions.collections.arrays import aligned
from engine.expressions.datum import evaluate_where, to_array
from engine.expressions.lambdas import Lambda
from engine.expressions.lists import Lists, Mask, booleans, integers, replaced, take, valid
from engine.expressions.registry import Context, Evaluator, lazy
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.tree import Expr
from engine.expressions.types import nullable_inside, sql_name


def lists_of(expr: Expr, evaluator: Evaluator, batch: pa.RecordBatch) -> Lists:
    """The argument of a function, taken apart."""
    return Lists.of(to_array(evaluator(batch), batch.num_rows, expr.dtype))


def _positions(lists: Lists) -> pa.Array:
    every = np.full(len(lists.items), True)
    return integers(lists.positions, every, pa.int32())


@lazy("ArrayTransform", takes=Rare.ALL)
def transform(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``transform(a, x -> ...)`` or ``transform(a, (x, i) -> ...)``."""
    function = Lambda(expr.children[1], children[1])

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        lists = lists_of(expr.children[0], children[0], batch)
        items = function(batch, lists.rows, lists.items, _positions(lists))
        return Lists(items, lists.lengths, lists.valid).array(expr.dtype)

    return evaluate


@lazy("ArrayFilter", takes=Rare.ALL)
def array_filter(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``filter``, ``array_compact``: keeps the items for which the lambda is true."""
    predicate = Lambda(expr.children[1], children[1])

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        lists = lists_of(expr.children[0], children[0], batch)
        keep = predicate(batch, lists.rows, lists.items, _positions(lists))
        return lists.where(is_true(keep)).array(expr.dtype)

    return evaluate


def is_true(array: pa.Array) -> Mask:
    """False for NULL."""
    return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False))


@lazy("ArrayExists", "ArrayForAll", reads=("follow_three_valued_logic",), takes=Rare.ALL)
def quantifier(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``exists``, ``forall``: NULL if no item decides and the lambda is NULL for one.

    Items behind the first one that decides are not looked at: the lambda might raise for them.
    """
    predicate = Lambda(expr.children[1], children[1])
    decisive = expr.op == "ArrayExists"
    three_valued = bool(expr.params.get("follow_three_valued_logic", True))

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        lists = lists_of(expr.children[0], children[0], batch)
        judge = _all_at_once if context.hopeful else _one_after_the_other
        decided, unsure = judge(predicate, decisive, batch, lists)
        known = lists.valid & (decided | ~(unsure & three_valued))
        return booleans(decided == decisive, known)

    return evaluate


def _all_at_once(
    predicate: Lambda, decisive: bool, batch: pa.RecordBatch, lists: Lists
) -> tuple[Mask, Mask]:
    verdicts = predicate(batch, lists.rows, lists.items)
    known = valid(verdicts)
    decided = lists.count(known & (is_true(verdicts) == decisive)) > 0
    return decided, lists.count(~known) > 0


def _one_after_the_other(
    predicate: Lambda, decisive: bool, batch: pa.RecordBatch, lists: Lists
) -> tuple[Mask, Mask]:
    decided, unsure = np.full(len(lists), False), np.full(len(lists), False)
    for position in range(lists.lengths.max(initial=0)):
        rows = np.flatnonzero((lists.lengths > position) & ~decided)
        verdicts = predicate(batch, rows, take(lists.items, lists.starts[rows] + position))
        known = valid(verdicts)
        decided[rows] = known & (is_true(verdicts) == decisive)
        unsure[rows] |= ~known
    return decided, unsure


def _narrower(zero: pa.DataType, merged: pa.DataType) -> bool:
    """Whether NULL can be in the results of the lambda where the type of the start has none."""
    if pa.types.is_struct(zero):
        return any(
            (new.nullable and not old.nullable) or _narrower(old.type, new.type)
            for old, new in zip(zero, merged, strict=True)
        )
    if pa.types.is_map(zero):
        old, new = zero.item_field, merged.item_field
    elif pa.types.is_list(zero):
        old, new = zero.value_field, merged.value_field
    else:
        return False
    return (new.nullable and not old.nullable) or _narrower(old.type, new.type)


def _holds_undeclared_null(array: pa.Array, dtype: pa.DataType) -> bool:
    """Whether a NULL is somewhere inside where ``dtype`` has none."""
    if pa.types.is_struct(dtype):
        present = array.filter(array.is_valid())
        inner = list(zip(present.flatten(), dtype, strict=True))
    elif pa.types.is_map(dtype):
        inner = [(Lists.of(array).items.flatten()[1], dtype.item_field)]
    elif pa.types.is_list(dtype):
        inner = [(Lists.of(array).items, dtype.value_field)]
    else:
        return False
    return any(
        (items.null_count and not field.nullable) or _holds_undeclared_null(items, field.type)
        for items, field in inner
    )


def _between(expr: Expr) -> pa.DataType:
    """The type of what goes from one step to the next."""
    start = expr.children[1].dtype
    return nullable_inside(start) if is_since(expr, "4.3.0") else start


def _aggregate_can_fail(expr: Expr) -> bool:
    return _narrower(_between(expr), expr.children[2].dtype)


@lazy("ArrayAggregate", can_fail=_aggregate_can_fail, reads=(SPARK_VERSION,), takes=Rare.ALL)
def aggregate(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``aggregate``, ``reduce``: one step for the first items of all rows, one for the second, ...

    Up to 4.2 Spark takes the type of the start for that of all results. A NULL inside of one, where
    this type has none, makes it read what is not there (a 0, say): here that is an error.
    """
    argument, dtype = expr.children[0], _between(expr)
    merge = Lambda(expr.children[2], children[2])
    finish = Lambda(expr.children[3], children[3])
    minds_nulls = _aggregate_can_fail(expr)

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        lists = lists_of(argument, children[0], batch)
        given = pa.array(lists.valid)
        total = evaluate_where(children[1], batch, given, dtype)
        for position in range(lists.lengths.max(initial=0)):
            rows = np.flatnonzero(lists.lengths > position)
            items = take(lists.items, lists.starts[rows] + position)
            merged = merge(batch, rows, take(total, rows), items)
            if minds_nulls and _holds_undeclared_null(merged, dtype):
                raise TransformError(
                    f"aggregate() made a NULL inside of a {sql_name(dtype)}, whose start value"
                    " says that there is none",
                    hint="Give the start value a type with NULL, e.g. CAST(NULL AS ...) in it.",
                )
            total = replaced(total, rows, to_array(merged, len(rows), dtype))
        rows = np.flatnonzero(lists.valid)
        results = finish(batch, rows, take(total, rows))
        return replaced(pa.nulls(len(lists), expr.dtype), rows, results)

    return evaluate


@lazy("ZipWith", takes=Rare.ALL)
def zip_with(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``zip_with``: the shorter array is filled with NULL."""
    function = Lambda(expr.children[2], children[2])

    def evaluate(batch: pa.RecordBatch) -> pa.Array:
        first = lists_of(expr.children[0], children[0], batch)
        # Spark does not look at the right side where the left one is NULL.
        given = pa.array(first.valid)
        second = Lists.of(evaluate_where(children[1], batch, given, expr.children[1].dtype))
        known, (left, right) = aligned([first, second])
        items = function(batch, left.rows, left.items, right.items)
        return Lists(items, left.lengths, known).array(expr.dtype)

    return evaluate
