"""Functions of texts that also take BINARY: ``lpad rpad startswith endswith contains``.

Source: ``BinaryPad`` and ``BinaryPredicate`` in ``stringExpressions.scala`` of Spark;
``ByteArray.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.expressions.java_errors import java_error
from engine.expressions.registry import always
from engine.expressions.releases import SPARK_VERSION, is_since
from engine.expressions.rowwise import RowFunction, rowwise_factory
from engine.expressions.tree import Expr

_PREDICATES: Final[dict[str, Callable[[bytes, bytes], bool]]] = {
    "startswith": bytes.startswith,
    "endswith": bytes.endswith,
    "contains": lambda value, part: part in value,
}


@rowwise_factory("BinaryPredicate", reads=("pretty_name",))
def predicate(expr: Expr) -> RowFunction:
    """Whether bytes are found in others."""
    name = next(str(v) for v in expr.params.values() if str(v).lower() in _PREDICATES).lower()
    return _PREDICATES[name]


@rowwise_factory("BinaryPad", can_fail=always, reads=("func_name", SPARK_VERSION), unbounded=True)
def pad(expr: Expr) -> RowFunction:
    """``lpad`` and ``rpad``: cuts what is longer. Of a negative length nothing is left,
    since Spark 4.1.4, 4.2.1 and 4.3.0."""
    left = expr.params["func_name"] == "lpad"
    is_at_least_0 = is_since(expr, "4.1.4", "4.2.1", "4.3.0")

    def padded(value: bytes, length: int, with_: bytes) -> bytes:
        if length < 0:
            if is_at_least_0:
                return b""
            raise java_error("java.lang.NegativeArraySizeException", str(length))
        missing = length - len(value)
        if missing <= 0 or not with_:
            return value[:length]
        more = (with_ * (missing // len(with_) + 1))[:missing]
        return more + value if left else value + more

    return padded
