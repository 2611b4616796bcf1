"""``get(array(a, b), 1)``, of which Spark's optimizer evaluates the item alone.

Its rule sees what stands for ``get``; where the rules run before a plan is read, see
:mod:`engine.plan.spark_rules`, that is not there yet.

Source: ``SimplifyExtractValueOps`` of Spark.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaObject

from engine.plan.catalyst import scala_seq, simple_name

_RULE = "org.apache.spark.sql.catalyst.optimizer.SimplifyExtractValueOps"


def simplified(gateway: Any, node: JavaObject) -> JavaObject:
    """The item, or a NULL if the array has none there; the node if that is not known.

    :param node: a ``GetArrayItem``.
    """
    array, index = scala_seq(node.children())
    if simple_name(array) != "CreateArray" or simple_name(index) != "Literal":
        return node
    sql = gateway.jvm.org.apache.spark.sql
    excluded = str(sql.internal.SQLConf.get().optimizerExcludedRules().toString())
    position = index.value()
    if position is None or _RULE in excluded:
        return node
    items = list(scala_seq(array.children()))
    if position in range(len(items)):
        return items[position]
    return sql.catalyst.expressions.Literal.create(None, node.dataType())
