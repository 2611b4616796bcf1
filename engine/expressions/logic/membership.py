"""``value IN (a, b, ...)``: null if the value is, or if it is not found and the list has a null.

An empty list (``isin([])``) has nothing, not even for null, and nobody looks at the value; without
ANSI mode the value is looked at, and null stays null.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.argument_types import Rare
from engine.expressions.datum import constant, evaluate_where, to_array
from engine.expressions.lambdas import with_variable
from engine.expressions.logic.comparison import comparable
from engine.expressions.registry import KERNELS, Context, Datum, Evaluator, lazy
from engine.expressions.tree import Expr
from engine.expressions.types import YEAR_MONTH_INTERVAL

_NULL = pa.scalar(None, pa.bool_())


_ANSI = "spark.sql.ansi.enabled"
_NULL_STAYS = "spark.sql.legacy.nullInEmptyListBehavior"


def _null_stays(expr: Expr) -> bool:
    """Whether NULL in an empty list is NULL: if it is not set, by the mode."""
    said, ansi = (str(expr.params[key]).lower() for key in (_NULL_STAYS, _ANSI))
    return said == "true" if said in ("true", "false") else ansi == "false"


def _in_nothing(expr: Expr, value: Evaluator) -> Evaluator:
    if not _null_stays(expr):
        return lambda batch: pa.scalar(False)
    return lambda batch: pc.if_else(pc.is_valid(value(batch)), pa.scalar(False), _NULL)


@lazy("In", supports=comparable, reads=(_ANSI, _NULL_STAYS), takes=Rare.ALL)
def is_in(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """Constants are looked up in a hash table; anything else is compared one by one."""
    if len(expr.children) == 1:
        return _in_nothing(expr, children[0])
    dtype = expr.children[0].dtype
    constants = [scalar for item in expr.children[1:] if (scalar := constant(item)) is not None]
    if (
        len(constants) < len(expr.children) - 1
        or pa.types.is_floating(dtype)
        or pa.types.is_nested(dtype)
        or pa.types.is_null(dtype)
        or dtype == YEAR_MONTH_INTERVAL
    ):
        return _any_equal(expr, children, context)
    value, has_null = children[0], any(not item.is_valid for item in constants)
    known = [pa.repeat(item, 1) for item in constants if item.is_valid]
    items = pa.concat_arrays(known) if known else pa.nulls(0, dtype)

    def look_up(batch: pa.RecordBatch) -> Datum:
        datum = value(batch)
        found = pc.is_in(datum, value_set=items)
        certain = pc.and_(found, pc.is_valid(datum)) if has_null else pc.is_valid(datum)
        return pc.if_else(certain, found, _NULL)

    return look_up


def _any_equal(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``v = a OR v = b OR ...``, which is what IN means. The value is computed once."""
    value, *items = expr.children
    name = f"IN {id(expr)}"
    variable = Expr("NamedLambdaVariable", (), value.dtype, value.nullable, {"name": name})
    tests: list[tuple[Expr, Evaluator]] = []
    for item, child in zip(items, children[1:], strict=True):
        equal = Expr("EqualTo", (variable, item), pa.bool_())
        sides = (lambda batch: batch.column(name), child)
        tests.append((equal, KERNELS["EqualTo"].factory(equal, sides, context)))
    while len(tests) > 1:  # halves of halves, for a list may be longer than calls may be deep
        pairs = [tests[at : at + 2] for at in range(0, len(tests), 2)]
        tests = [_or(pair, context) if len(pair) > 1 else pair[0] for pair in pairs]
    any_equal = tests[0][1]

    def compare(batch: pa.RecordBatch) -> Datum:
        found = to_array(children[0](batch), batch.num_rows, value.dtype)
        bound = with_variable(batch, name, found)
        if context.hopeful:
            return any_equal(bound)
        return evaluate_where(any_equal, bound, pc.is_valid(found), _NULL.type)

    return compare


def _or(tests: Sequence[tuple[Expr, Evaluator]], context: Context) -> tuple[Expr, Evaluator]:
    tree = Expr("Or", tuple(expr for expr, _ in tests), pa.bool_())
    return tree, KERNELS["Or"].factory(tree, [evaluate for _, evaluate in tests], context)
