"""Expressions over the rows of a batch, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows
from engine.expressions.tree import Expr


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
