"""Spark's casts and formats on whole columns, for connectors that read or write text.

Each is the kernel of the expression; there is no other implementation. All of these raise
:class:`~engine.errors.ConfigError` for types or a zone that the kernel does not take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from engine.errors import ConfigError
from engine.expressions.compile import compile_expression, to_array, unsupported
from engine.expressions.registry import Context
from engine.expressions.times.current_time import outside_of_batches
from engine.expressions.times.zone_rules import cached_by_rules
from engine.expressions.tree import Expr
from engine.expressions.types import TIMESTAMP

Convert = Callable[[pa.Array], pa.Array]


@cached_by_rules
def caster(source: pa.DataType, target: pa.DataType, session_timezone: str) -> Convert:
    """``CAST(column AS target)`` in ANSI mode.

    :param session_timezone: the zone of timestamps whose text names none.
    :raises TransformError: (the function) a value cannot be cast.
    """
    return _compiled("Cast", target, session_timezone, _column(source), eval_mode="ANSI")


@cached_by_rules
def date_formatter(pattern: str, session_timezone: str) -> Convert:
    """``date_format(column, pattern)`` of a timestamp column."""
    literal = Expr("Literal", (), pa.string(), False, {"value": pattern})
    return _compiled("DateFormatClass", pa.string(), session_timezone, _column(TIMESTAMP), literal)


@cached_by_rules
def json_writer(dtype: pa.DataType, session_timezone: str) -> Convert:
    """``to_json(column)``."""
    return _compiled("StructsToJson", pa.string(), session_timezone, _column(dtype), options={})


def _column(dtype: pa.DataType) -> Expr:
    return Expr("Column", (), dtype, True, {"ordinal": 0, "name": "value"})


def _compiled(
    op: str, dtype: pa.DataType, session_timezone: str, *children: Expr, **params: Any
) -> Convert:
    expr = Expr(op, children, dtype, True, params)
    context = Context(session_timezone)
    if reasons := unsupported(expr, context):
        raise ConfigError(f"{'; '.join(reasons)}.")
    evaluate = compile_expression(expr, context)

    def convert(values: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_arrays([values], names=["value"])
        with outside_of_batches():
            return to_array(evaluate(batch), len(values), dtype)

    return convert
