"""``greatest`` and ``least``: nulls are skipped, NaN is the largest number."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.argument_types import Rare
from engine.expressions.datum import to_array
from engine.expressions.lists import on_arrays
from engine.expressions.logic.comparison import comparable, compare
from engine.expressions.registry import Context, Datum, ValueFunction, strict
from engine.expressions.tree import Expr


@strict("Greatest", "Least", supports=comparable, takes=Rare.ALL)
def extreme(expr: Expr, context: Context) -> ValueFunction:
    """Of equal values (0.0 and -0.0) the first one."""
    better = compare("GreaterThan" if expr.op == "Greatest" else "LessThan", expr.dtype)

    def choose(best: Datum, value: Datum) -> Datum:
        replace = pc.or_kleene(pc.is_null(best), pc.fill_null(better(value, best), False))
        return pc.if_else(pc.and_(replace, pc.is_valid(value)), value, best)

    if pa.types.is_nested(expr.dtype):
        # They may differ in what can be NULL inside of them.
        return on_arrays(
            expr,
            lambda *columns: reduce(choose, [to_array(c, len(c), expr.dtype) for c in columns]),
        )
    return lambda *values: reduce(choose, values)
