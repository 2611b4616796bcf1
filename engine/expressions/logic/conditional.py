"""``IF`` and ``CASE WHEN``.

A branch is evaluated only on the rows that take it; hopefully on all rows, which is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.argument_types import Rare
from engine.expressions.buffers import chosen
from engine.expressions.datum import is_harmless, only_where, to_array
from engine.expressions.registry import Context, Datum, Evaluator, Formula, lazy
from engine.expressions.tree import Expr

_BOOL = pa.bool_()


def _formula(expr: Expr) -> Formula | None:
    last = len(expr.children) - 1
    if last % 2:  # without ELSE it may be NULL
        return None
    pairs = (f"{{{value}}} if {{{value - 1}}} else " for value in range(1, last, 2))
    return Formula(f"{''.join(pairs)}{{{last}}}")


@lazy("If", "CaseWhen", takes=Rare.ALL_AND_VARIANT, always=1, formula=_formula)
def case_when(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``children`` are condition, value, condition, value, ... and perhaps the value of ELSE.

    A condition that is null is not met.
    """
    pairs = len(children) // 2
    has_else = len(children) % 2 == 1
    typed = _typed(expr.dtype)
    if context.hopeful and not pa.types.is_nested(expr.dtype):
        conditions, values = children[0 : 2 * pairs : 2], children[1 : 2 * pairs : 2]

        def on_all_rows(batch: pa.RecordBatch) -> Datum:
            rows = batch.num_rows
            result = typed(children[-1](batch) if has_else else None, rows)
            for condition, value in zip(reversed(conditions), reversed(values), strict=True):
                met = to_array(_met(condition(batch)), rows, _BOOL)
                result = _chosen(met, typed(value(batch), rows), result)
            return result

        return on_all_rows
    # A column or a constant is taken as it is: no row need be told from those that want it.
    last = expr.children[-1]
    is_plain = not has_else or (not last.children and is_harmless(last))
    guarded = [only_where(*each) for each in zip(expr.children, children, strict=True)]
    branches = list(zip(guarded[0 : 2 * pairs : 2], guarded[1 : 2 * pairs : 2], strict=True))

    def on_its_rows(batch: pa.RecordBatch) -> Datum:
        rows, undecided = batch.num_rows, None
        taken: list[tuple[pa.Array, Datum]] = []
        for number, (condition, value) in enumerate(branches, 1):
            met = to_array(_met(condition(batch, undecided)), rows, _BOOL)
            if undecided is not None:
                met = pc.and_(met, undecided)
            taken.append((met, typed(value(batch, met), rows)))
            if is_plain and number == pairs:
                break
            undecided = pc.invert(met) if undecided is None else pc.and_not(undecided, met)
            if undecided.true_count == 0:
                break
        is_open = is_plain or (undecided is not None and undecided.true_count > 0)
        result = typed(guarded[-1](batch, undecided) if has_else and is_open else None, rows)
        for met, value_of_branch in reversed(taken):
            result = _chosen(met, value_of_branch, result)
        return result

    return on_its_rows


def _met(condition: Datum) -> Datum:
    if isinstance(condition, pa.Array) and condition.null_count == 0:
        return condition
    return pc.fill_null(condition, False)


def _chosen(met: pa.Array, value: Datum, otherwise: Datum) -> Datum:
    if value.type != otherwise.type:
        return pc.if_else(met, value, otherwise)
    return chosen(met, value, otherwise)


def _typed(dtype: pa.DataType) -> Callable[[Any, int], Datum]:
    """Makes a value of a branch, None for NULL, one that can be chosen among others."""
    null = pa.scalar(None, dtype)
    if pa.types.is_nested(dtype) or pa.types.is_null(dtype):
        return lambda datum, rows: to_array(null if datum is None else datum, rows, dtype)

    def typed(datum: Any, rows: int) -> Datum:
        is_null = datum is None or (isinstance(datum, pa.Scalar) and not datum.is_valid)
        return null if is_null else datum

    return typed
