"""Spark's casts and formats on whole columns, for connectors that read or write text.

The one implementation of each is the kernel in :mod:`engine.expressions`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pyarrow as pa

from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Context
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP


@functools.cache
def caster(
    source: pa.DataType, target: pa.DataType, session_timezone: str
) -> Callable[[pa.Array], pa.Array]:
    """A function from a column of ``source`` to one of ``target``, in ANSI mode.

    :param session_timezone: the zone of timestamps whose text names none.
    :raises TransformError: (the function) a value cannot be cast.
    """
    cast = Expr("Cast", (_column(source),), target, True, {"eval_mode": "ANSI"})
    return _compiled(cast, session_timezone)


@functools.cache
def date_formatter(pattern: str, session_timezone: str) -> Callable[[pa.Array], pa.Array]:
    """``date_format(column, pattern)`` of a timestamp column."""
    literal = Expr("Literal", (), pa.string(), False, {"value": pattern})
    formatted = Expr("DateFormatClass", (_column(TIMESTAMP), literal), pa.string())
    return _compiled(formatted, session_timezone)


def _column(dtype: pa.DataType) -> Expr:
    return Expr("Column", (), dtype, True, {"ordinal": 0, "name": "value"})


def _compiled(expr: Expr, session_timezone: str) -> Callable[[pa.Array], pa.Array]:
    evaluate = compile_expression(expr, Context(session_timezone))

    def apply(values: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_arrays([values], names=["value"])
        return to_array(evaluate(batch), len(values), expr.dtype)

    return apply
