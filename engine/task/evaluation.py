"""Expressions over the rows of a batch, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from engine.expressions.compile import compile_expression, to_array
from engine.expressions.few_rows import FewRows, in_python
from engine.expressions.few_values import Values
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr


def computed(expr: Expr, context: Context) -> Callable[[Rows], pa.Array | Values]:
    """Computes an Array; Python's values of few rows, mostly."""
    evaluate, few, dtype = compile_expression(expr, context), in_python(expr, context), expr.dtype

    def compute(rows: Rows) -> pa.Array | Values:
        if few is not None and isinstance(rows, FewRows):
            values = few(rows)
            if values is not None:
                return values
        return to_array(evaluate(rows), rows.num_rows, dtype)

    return compute


def columns_of(columns: Sequence[Expr], context: Context) -> Callable[[Rows], list[pa.Array]]:
    """Computes an Array for each of the expressions."""
    evaluators = [(compile_expression(column, context), column.dtype) for column in columns]

    def compute(rows: Rows) -> list[pa.Array]:
        return [to_array(evaluate(rows), rows.num_rows, dtype) for evaluate, dtype in evaluators]

    return compute


def mask_of(condition: Expr, context: Context) -> Callable[[Rows], pa.Array]:
    """Computes booleans, which may be NULL."""
    evaluate = compile_expression(condition, context)
    return lambda rows: to_array(evaluate(rows), rows.num_rows, condition.dtype)
