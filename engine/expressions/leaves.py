"""Where a tree ends: columns and literals."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.expressions.argument_types import Rare
from engine.expressions.datum import constant
from engine.expressions.registry import Context, Evaluator, lazy
from engine.expressions.tree import Expr
from engine.expressions.types import sql_name


@lazy("Column", takes=Rare.VARIANT)
def column(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """A column of the batch, by position."""
    ordinal: int = expr.params["ordinal"]
    return lambda batch: batch.column(ordinal)


def _literal_supports(expr: Expr) -> str | None:
    try:
        constant(expr)
    except (pa.ArrowException, TypeError):
        return f"a constant of the type {sql_name(expr.dtype)} is not supported"
    return None


@lazy("Literal", supports=_literal_supports, reads=("value",), takes=Rare.VARIANT)
def literal(expr: Expr, children: Sequence[Evaluator], context: Context) -> Evaluator:
    """A constant."""
    value: pa.Scalar | None = constant(expr)
    return lambda batch: value
