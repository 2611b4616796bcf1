"""Subqueries over tables, as the joins that they are.

Spark's optimizer turns ``IN (SELECT ...)``, ``EXISTS`` and what is correlated into joins, and so it
does here (:mod:`engine.plan.spark_rules`): semi, anti and existence joins, outer ones for scalar
subqueries. What is left is a scalar subquery that does not depend on the row, and an ``EXISTS`` of
that kind, which is such a one: its value is computed by Spark, when the query starts, and is a
column behind the stream's own (:class:`~engine.pipeline.pipeline.StaticJoin` with one row).

Source: Spark's ``RewriteNonCorrelatedExists``, ``PullupCorrelatedPredicates``,
``RewriteCorrelatedScalarSubquery``, ``RewritePredicateSubquery``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.java_gateway import JavaObject, is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from engine.errors import ConfigError
from engine.pipeline.pipeline import StaticJoin
from engine.plan.catalyst import scala_seq, simple_name
from engine.plan.static_join import collected, refresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUBQUERY = "org.apache.spark.sql.catalyst.expressions.SubqueryExpression"
_EXPRESSION = "org.apache.spark.sql.catalyst.expressions.Expression"

Rewrite = Callable[[JavaObject], JavaObject]


def has_subqueries(spark: SparkSession, node: JavaObject) -> bool:
    """Whether a plan, or an expression, has any."""
    patterns = _patterns(spark)
    return bool(node.containsPattern(patterns.PLAN_EXPRESSION()))


def with_plans(spark: SparkSession, plan: JavaObject, rewrite: Rewrite) -> JavaObject:
    """The plan with other plans in its subqueries; those of these are left to ``rewrite``.

    :param rewrite: from a subquery's plan to the one that takes its place.
    """
    return _Rewriting(spark, rewrite).plan(plan)


def independent_scalars(spark: SparkSession, nodes: Sequence[JavaObject]) -> Iterator[JavaObject]:
    """The scalar subqueries in these expressions that have the same value for every row."""
    pattern = _patterns(spark).SCALAR_SUBQUERY()
    for node in nodes:
        if simple_name(node) == "ScalarSubquery":
            if not node.isCorrelated():
                yield node
        elif node.containsPattern(pattern):
            yield from independent_scalars(spark, list(scala_seq(node.children())))


def scalar_join(spark: SparkSession, node: JavaObject, width: int, bytes_max: int) -> StaticJoin:
    """The step that appends the value of a scalar subquery.

    :param width: how many columns are before it.
    :raises ConfigError: the value needs more memory than ``bytes_max``; or Spark cannot compute it,
        for example because there is more than one row.
    """
    from pyspark.sql import Column

    jvm: Any = spark._jvm
    refresh(node.plan())
    value = Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(node))
    try:
        table = collected(spark.range(1).select(value.alias("scalar")), bytes_max)
    except (PySparkException, Py4JJavaError) as exc:
        raise ConfigError(f"A scalar subquery has no value: {_reason(exc)}") from exc
    table = table.cast(pa.schema([table.schema.field(0).with_nullable(True)]))
    return StaticJoin("inner", (), (), (), None, table, width)


def _reason(exc: PySparkException | Py4JJavaError) -> str:
    if isinstance(exc, PySparkException):
        return str(exc)
    cause = exc.java_exception
    while (deeper := cause.getCause()) is not None:
        cause = deeper
    return str(cause.getMessage())


def _patterns(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.catalyst.trees.TreePattern


class _Rewriting:
    """Makes trees anew from the subqueries up: py4j has no functions for Spark's ``transform``."""

    def __init__(self, spark: SparkSession, rewrite: Rewrite) -> None:
        self._spark = spark
        self._gateway: Any = spark.sparkContext._gateway
        self._rewrite = rewrite

    def plan(self, plan: JavaObject) -> JavaObject:
        if not has_subqueries(self._spark, plan):
            return plan
        plan = self._with_children(plan, self.plan)
        arguments = [plan.productElement(index) for index in range(plan.productArity())]
        changed = [self._argument(each) for each in arguments]
        if all(new is old for new, old in zip(changed, arguments, strict=True)):
            return plan
        array = self._gateway.new_array(self._gateway.jvm.java.lang.Object, len(changed))
        for index, each in enumerate(changed):
            array[index] = each
        copy: JavaObject = plan.makeCopy(array)
        return copy

    def _argument(self, value: Any) -> Any:
        """An argument of a plan's constructor: an expression, several, or something else."""
        if self._is_a(value, _EXPRESSION):
            return self._expression(value)
        if self._is_a(value, "scala.collection.immutable.Seq"):
            items = list(scala_seq(value))
            changed = [self._argument(each) for each in items]
            if any(new is not old for new, old in zip(changed, items, strict=True)):
                return self._seq(changed)
        return value

    def _expression(self, expr: JavaObject) -> JavaObject:
        if not has_subqueries(self._spark, expr):
            return expr
        expr = self._with_children(expr, self._expression)
        if self._is_a(expr, _SUBQUERY):
            changed: JavaObject = expr.withNewPlan(self._rewrite(expr.plan()))
            return changed
        return expr

    def _with_children(self, node: JavaObject, rewrite: Rewrite) -> JavaObject:
        children = list(scala_seq(node.children()))
        changed = [rewrite(each) for each in children]
        if all(new is old for new, old in zip(changed, children, strict=True)):
            return node
        copy: JavaObject = node.withNewChildren(self._seq(changed))
        return copy

    def _seq(self, items: list[Any]) -> Any:
        # A sequence of Scala's own kind that nobody can change: that of a Java list could be.
        return self._gateway.jvm.PythonUtils.toSeq(items)

    def _is_a(self, value: Any, class_name: str) -> bool:
        return isinstance(value, JavaObject) and is_instance_of(self._gateway, value, class_name)
