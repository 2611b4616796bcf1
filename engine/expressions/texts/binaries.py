"""Functions of texts that also take BINARY: ``startswith endswith contains``.

Source: ``BinaryPredicate`` in ``stringExpressions.scala`` of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

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
