"""Null functions: ``isnull``, ``isnotnull``, ``isnan``, ``nanvl``, ``coalesce``, ``na.drop``.

``nvl``, ``nvl2``, ``ifnull``, ``nullif``, ``zeroifnull``, ``nullifzero`` need no kernel: Spark
defines them by these.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.argument_types import Rare
from engine.expressions.datum import only_where, to_array
from engine.expressions.registry import (
    Context,
    Datum,
    Evaluator,
    Formula,
    ValueFunction,
    lazy,
    strict,
)
from engine.expressions.tree import Expr


@strict("IsNull", takes=Rare.ALL_AND_VARIANT, formula=lambda expr: Formula("{0} is None"))
def is_null(expr: Expr, context: Context) -> ValueFunction:
    """NaN is not null."""
    return lambda value: pc.is_null(value)


@strict("IsNotNull", takes=Rare.ALL_AND_VARIANT, formula=lambda expr: Formula("{0} is not None"))
def is_not_null(expr: Expr, context: Context) -> ValueFunction:
    """NaN is not null."""
    return lambda value: pc.is_valid(value)


@strict("IsNaN")
def is_nan(expr: Expr, context: Context) -> ValueFunction:
    """False for null."""
    return lambda value: pc.fill_null(pc.is_nan(value), False)


@lazy("NaNvl", always=1)
def nanvl(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """The right side where the left one is NaN."""
    left, right = children
    guarded = only_where(expr.children[1], right)

    def choose(batch: pa.RecordBatch) -> Datum:
        first = to_array(left(batch), batch.num_rows, expr.dtype)
        nan = pc.is_nan(first)
        if context.hopeful:
            return pc.if_else(nan, right(batch), first)
        return pc.if_else(nan, guarded(batch, pc.fill_null(nan, False)), first)

    return choose


@lazy("Coalesce", takes=Rare.ALL_AND_VARIANT, always=1)
def coalesce(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """The first value that is not null; later ones are evaluated only where they are needed."""
    plain = not (pa.types.is_nested(expr.dtype) or pa.types.is_null(expr.dtype))
    if context.hopeful and plain:
        return lambda batch: pc.coalesce(*(child(batch) for child in children))
    first = children[0]
    others = [only_where(*each) for each in zip(expr.children[1:], children[1:], strict=True)]

    def in_turn(batch: pa.RecordBatch) -> Datum:
        result = to_array(first(batch), batch.num_rows, expr.dtype)
        for other in others:
            if result.null_count == 0:
                break
            missing = result.is_null()
            values = other(batch, missing)
            result = pc.if_else(missing, to_array(values, batch.num_rows, expr.dtype), result)
        return result

    return in_turn


@strict("AtLeastNNonNulls", reads=("n",), takes=Rare.ALL)
def at_least_n_non_nulls(expr: Expr, context: Context) -> ValueFunction:
    """Whether ``n`` of the values are neither null nor NaN: what ``df.na.drop`` asks."""
    n: int = expr.params["n"]

    def present(value: Datum) -> Datum:
        valid = pc.is_valid(value)
        if pa.types.is_floating(value.type):
            valid = pc.and_not(valid, pc.fill_null(pc.is_nan(value), False))
        return pc.cast(valid, pa.int32())

    def enough(*values: Datum) -> Datum:
        total: Datum = pa.scalar(0, pa.int32())
        for value in values:
            total = pc.add(total, present(value))
        return pc.greater_equal(total, n)

    return enough
