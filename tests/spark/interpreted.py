"""Spark's own evaluation of one expression on one row, without a query: about a millisecond.

Needs the optimizer's rule ConvertToLocalRelation switched off, so that the optimized plan still
holds the expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import py4j.java_gateway
import py4j.protocol
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

CONF = {
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    )
}


class InterpretedExpression:
    """A SQL expression over the rows of a local DataFrame."""

    def __init__(self, frame: DataFrame, text: str) -> None:
        jvm: Any = frame.sparkSession._jvm
        catalyst = jvm.org.apache.spark.sql.catalyst.expressions
        self._always: str | None = None
        try:
            plan = frame.selectExpr(text)._jdf.queryExecution().optimizedPlan()
        except PySparkException as error:  # it has no column, and the optimizer computed it
            self._always = error.getCondition() or _java_text(error)
            return
        steps = []
        while plan.nodeName() == "Project":
            steps.append(plan)
            plan = plan.child()
        assert plan.nodeName() == "LocalRelation", f"{text}: {plan.toString()}"
        self._rows = plan.data()
        self._steps = steps[::-1]
        self._projection = catalyst.InterpretedMutableProjection

    def error(self, row: int) -> str | None:
        """Spark's error condition for this row, or None if it has a value."""
        if self._always is not None:
            return self._always
        with _plain_java_errors():
            try:
                data = self._rows.apply(row)
                for step in self._steps:
                    # A new one each time: after an error, builders of maps cannot go on.
                    projection = self._projection(step.projectList(), step.child().output())
                    data = projection.apply(data)
            except py4j.protocol.Py4JJavaError as error:
                return _condition(error.java_exception)
        return None


def _java_text(error: Any) -> str:
    return str(error._origin.toString())


def _condition(exception: Any) -> str:
    try:
        return str(exception.getCondition())
    except (py4j.protocol.Py4JError, PySparkException):
        return str(exception.toString())


@contextmanager
def _plain_java_errors() -> Iterator[None]:
    """Without PySpark's translation of errors, which takes tens of milliseconds."""
    translated = py4j.java_gateway.get_return_value
    py4j.java_gateway.get_return_value = py4j.protocol.get_return_value
    try:
        yield
    finally:
        py4j.java_gateway.get_return_value = translated
