"""``get(array(a, b), 1)``, of which Spark's optimizer evaluates the item alone;
``get(array(a, b), NULL)`` and ``aes_encrypt(a, NULL)``, of which it evaluates nothing.

Its rules see what stands for these functions; where they run before a plan is read, see
:mod:`engine.plan.spark_rules`, that is not there yet.

Source: ``SimplifyExtractValueOps``, ``NullPropagation`` of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from py4j.java_gateway import JavaObject

from engine.expressions.tree import Expr
from engine.plan.catalyst import is_excluded, scala_seq, simple_name


def simplified(gateway: Any, node: JavaObject) -> JavaObject:
    """The item, or a NULL if the array has none there; the node if that is not known.

    :param node: a ``GetArrayItem``.
    """
    array, index = scala_seq(node.children())
    sql = gateway.jvm.org.apache.spark.sql
    nothing = sql.catalyst.expressions.Literal.create(None, node.dataType())
    if any(map(_is_null, (array, index))):
        return node if is_excluded(gateway, "NullPropagation") else nothing
    if simple_name(array) != "CreateArray" or simple_name(index) != "Literal":
        return node
    if is_excluded(gateway, "SimplifyExtractValueOps"):
        return node
    position, items = index.value(), list(scala_seq(array.children()))
    return items[position] if position in range(len(items)) else nothing


def propagates_constant_null(gateway: Any, arguments: Iterable[Expr]) -> bool:
    """Whether the optimizer takes away a call that NULL in any argument makes NULL."""
    if not any(map(_is_constant_null, arguments)):
        return False
    return not is_excluded(gateway, "NullPropagation")


def _is_constant_null(expr: Expr) -> bool:
    while expr.op == "Cast":
        (expr,) = expr.children
    return expr.op == "Literal" and expr.params["value"] is None


def _is_null(node: JavaObject) -> bool:
    return simple_name(node) == "Literal" and node.value() is None
