"""Functions of texts that also take BINARY: ``lpad rpad startswith endswith contains``.

Source: ``BinaryPad`` and ``BinaryPredicate`` in ``stringExpressions.scala`` of Spark;
``ByteArray.java``.
"""

from __future__ import annotations

from typing import Final

from engine.expressions.java_errors import java_error
from engine.expressions.registry import Context, ValueFunction, strict
from engine.expressions.tree import Expr
from engine.expressions.vectors import per_row

_PREDICATES: Final = {
    "startswith": bytes.startswith,
    "endswith": bytes.endswith,
    "contains": lambda value, part: part in value,
}


@strict("BinaryPredicate", loop=True, reads=("pretty_name",))
def predicate(expr: Expr, context: Context) -> ValueFunction:
    """Whether bytes are found in others."""
    name = next(str(v) for v in expr.params.values() if str(v).lower() in _PREDICATES).lower()
    return lambda value, part: per_row(_PREDICATES[name], expr.dtype, value, part)


@strict("BinaryPad", can_fail=lambda expr: True, loop=True, reads=("func_name",))
def pad(expr: Expr, context: Context) -> ValueFunction:
    """``lpad`` and ``rpad``: cuts what is longer."""
    left = expr.params["func_name"] == "lpad"

    def padded(value: bytes, length: int, with_: bytes) -> bytes:
        if length < 0:
            raise java_error("java.lang.NegativeArraySizeException", str(length))
        missing = length - len(value)
        if missing <= 0 or not with_:
            return value[:length]
        more = (with_ * (missing // len(with_) + 1))[:missing]
        return more + value if left else value + more

    return lambda *values: per_row(padded, expr.dtype, *values)
