"""``get(array(a, b), 1)``, of which Spark's optimizer evaluates the item alone, and
``get(array(a, b), NULL)``, of which it evaluates nothing.

Its rules see what stands for ``get``; where they run before a plan is read, see
:mod:`engine.plan.spark_rules`, that is not there yet.

Source: ``SimplifyExtractValueOps``, ``NullPropagation`` of Spark.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaObject

from engine.plan.catalyst import scala_seq, simple_name

_RULES = "org.apache.spark.sql.catalyst.optimizer."


def simplified(gateway: Any, node: JavaObject) -> JavaObject:
    """The item, or a NULL if the array has none there; the node if that is not known.

    :param node: a ``GetArrayItem``.
    """
    array, index = scala_seq(node.children())
    sql = gateway.jvm.org.apache.spark.sql
    excluded = str(sql.internal.SQLConf.get().optimizerExcludedRules().toString())
    nothing = sql.catalyst.expressions.Literal.create(None, node.dataType())
    if any(map(_is_null, (array, index))):
        return node if f"{_RULES}NullPropagation" in excluded else nothing
    if simple_name(array) != "CreateArray" or simple_name(index) != "Literal":
        return node
    if f"{_RULES}SimplifyExtractValueOps" in excluded:
        return node
    position, items = index.value(), list(scala_seq(array.children()))
    return items[position] if position in range(len(items)) else nothing


def _is_null(node: JavaObject) -> bool:
    return simple_name(node) == "Literal" and node.value() is None
