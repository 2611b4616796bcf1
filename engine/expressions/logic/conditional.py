"""``IF`` and ``CASE WHEN``.

A branch is evaluated only on the rows that take it; hopefully on all rows, which is faster.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.expressions.argument_types import Rare
from engine.expressions.datum import evaluate_where, to_array
from engine.expressions.registry import Context, Datum, Evaluator, lazy
from engine.expressions.tree import Expr

_BOOL = pa.bool_()


@lazy("If", "CaseWhen", takes=Rare.ALL_AND_VARIANT)
def case_when(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``children`` are condition, value, condition, value, ... and perhaps the value of ELSE.

    A condition that is null is not met.
    """
    pairs = len(children) // 2
    conditions, values = children[0 : 2 * pairs : 2], children[1 : 2 * pairs : 2]
    otherwise = children[2 * pairs] if len(children) % 2 else None
    if not context.hopeful or pa.types.is_nested(expr.dtype) or pa.types.is_null(expr.dtype):
        return _guarded(conditions, values, otherwise, expr.dtype)
    null = pa.scalar(None, expr.dtype)
    names = [str(index) for index in range(pairs)]

    def on_all_rows(batch: pa.RecordBatch) -> Datum:
        met = pc.make_struct(*(condition(batch) for condition in conditions), field_names=names)
        choices = [_typed(value(batch), null) for value in values]
        last = null if otherwise is None else _typed(otherwise(batch), null)
        return pc.case_when(met, *choices, last)

    return on_all_rows


def _typed(datum: Datum, null: pa.Scalar) -> Datum:
    return null if isinstance(datum, pa.Scalar) and not datum.is_valid else datum


def _guarded(
    conditions: Sequence[Evaluator],
    values: Sequence[Evaluator],
    otherwise: Evaluator | None,
    dtype: pa.DataType,
) -> Evaluator:
    def row_by_row_choice(batch: pa.RecordBatch) -> Datum:
        rows = batch.num_rows
        undecided = pa.repeat(True, rows)
        result = pa.nulls(rows, dtype)
        for condition, value in zip(conditions, values, strict=True):
            met = pc.fill_null(evaluate_where(condition, batch, undecided, _BOOL), False)
            result = pc.if_else(met, evaluate_where(value, batch, met, dtype), result)
            undecided = pc.and_not(undecided, met)
            if undecided.true_count == 0:
                return result
        if otherwise is None:
            return result
        if undecided.true_count == rows:
            return to_array(otherwise(batch), rows, dtype)
        return pc.if_else(undecided, evaluate_where(otherwise, batch, undecided, dtype), result)

    return row_by_row_choice
