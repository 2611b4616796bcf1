"""``raise_error`` and what takes errors back: ``tryeval``, which is inside of many ``try_*``.

Source: ``misc.scala`` (``RaiseError``), ``TryEval.scala`` of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.errors import TransformError
from engine.expressions.ansi import failure
from engine.expressions.argument_types import Rare
from engine.expressions.datum import constant_value, to_array, to_scalar
from engine.expressions.malformed import value_of
from engine.expressions.registry import Context, Datum, Evaluator, always, lazy
from engine.expressions.tree import Expr


def _is_user_error(expr: Expr) -> str | None:
    if constant_value(expr.children[0]) == "USER_RAISED_EXCEPTION":
        return None
    return "only errors of the class USER_RAISED_EXCEPTION can be raised"


@lazy(
    "RaiseError",
    can_fail=always,
    supports=_is_user_error,
    presumes=("spark.sql.legacy.raiseErrorWithoutErrorClass",),
)
def raise_error(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """``raise_error``, ``assert_true``: fails for every row that reaches it."""
    message = children[1]

    def evaluate(batch: pa.RecordBatch) -> Datum:
        if batch.num_rows:
            text = value_of(to_scalar(message(batch)))
            raise failure("USER_RAISED_EXCEPTION", "null" if text is None else text)
        return pa.nulls(0, expr.dtype)

    return evaluate


@lazy("TryEval", takes=Rare.ALL)
def try_eval(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """NULL for the rows for which its argument raises; they are found by halving the batch."""
    (child,) = children

    def evaluate(batch: pa.RecordBatch) -> Datum:
        try:
            return to_array(child(batch), batch.num_rows, expr.dtype)
        except TransformError:
            if batch.num_rows <= 1:
                return pa.nulls(batch.num_rows, expr.dtype)
        half = batch.num_rows // 2
        return pa.concat_arrays([evaluate(batch.slice(0, half)), evaluate(batch.slice(half))])

    return evaluate
