"""Spark's casts on whole columns, for connectors that read or write text.

The one implementation is the kernel of ``CAST(... AS ...)`` in :mod:`engine.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from engine.expressions.compile import compile_expression, to_array
from engine.expressions.registry import Context
from engine.expressions.tree import Expr


def caster(
    source: pa.DataType, target: pa.DataType, session_timezone: str
) -> Callable[[pa.Array], pa.Array]:
    """A function from a column of ``source`` to one of ``target``, in ANSI mode.

    :param session_timezone: the zone of timestamps whose text names none.
    :raises TransformError: (the function) a value cannot be cast.
    """
    column = Expr("Column", (), source, True, {"ordinal": 0, "name": "value"})
    cast = Expr("Cast", (column,), target, True, {"eval_mode": "ANSI"})
    evaluate = compile_expression(cast, Context(session_timezone))

    def apply(values: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_arrays([values], names=["value"])
        return to_array(evaluate(batch), len(values), target)

    return apply
