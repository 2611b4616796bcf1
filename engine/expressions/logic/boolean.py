"""Three-valued logic: ``AND``, ``OR``, ``NOT``.

Spark does not evaluate the right side where the left one decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

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

_BOOL = pa.bool_()


@lazy("And", "Or", always=1, formula=lambda expr: Formula(f"{{0}} {expr.op.lower()} {{1}}"))
def connective(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """False decides AND, true decides OR; null decides nothing."""
    left, right = children
    combine = pc.and_kleene if expr.op == "And" else pc.or_kleene
    if context.hopeful:
        return lambda batch: combine(left(batch), right(batch))
    decisive = expr.op == "Or"
    guarded_right = only_where(expr.children[1], right)

    def guarded(batch: pa.RecordBatch) -> Datum:
        first = to_array(left(batch), batch.num_rows, _BOOL)
        open_rows = pc.fill_null(pc.not_equal(first, decisive), True)
        return combine(first, guarded_right(batch, open_rows))

    return guarded


@strict("Not", formula=lambda expr: Formula("not {0}"))
def negation(expr: Expr, context: Context) -> ValueFunction:
    """Null stays null."""
    return lambda value: pc.invert(value)
