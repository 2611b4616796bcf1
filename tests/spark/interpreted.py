"""Spark's own evaluation of expressions, row by row, without a query.

Needs the optimizer's rule ConvertToLocalRelation switched off, so that the optimized plan still
holds the expressions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tests.spark.analyzed import Analyzed
from tests.spark.java_classes import java_class

CONF = {
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    )
}
_SOURCE: Final = """
import java.util.ArrayList;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedMutableProjection;
import org.apache.spark.sql.catalyst.expressions.MutableProjection;
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateMutableProjection$;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.collection.immutable.Seq;

public class RowErrors {
  private final ArrayList projects = new ArrayList();
  private LocalRelation relation;

  /** An optimized plan; whether it is nothing but projections of rows. */
  public boolean of(LogicalPlan plan) {
    while (plan instanceof Project) {
      projects.add(0, plan);
      plan = ((Project) plan).child();
    }
    if (plan instanceof LocalRelation) relation = (LocalRelation) plan;
    return relation != null && !projects.isEmpty();
  }

  /** Whether an expression needs no projection but its own. */
  public boolean isAlone(int item) {
    return expression(item).references().subsetOf(relation.outputSet());
  }

  private Expression expression(int item) {
    return (Expression) ((Project) projects.get(projects.size() - 1)).projectList().apply(item);
  }

  private MutableProjection projection(Seq list, Seq input, boolean compiled) {
    MutableProjection made = compiled ? generated(list, input) : null;
    if (made == null) made = new InterpretedMutableProjection(list, input);
    made.initialize(0);
    return made;
  }

  /** Null where a constant raises that the compiler computes: Spark interprets instead. */
  private MutableProjection generated(Seq list, Seq input) {
    try {
      return GenerateMutableProjection$.MODULE$.generate(list, input, false);
    } catch (RuntimeException error) {
      if (error instanceof SparkThrowable) return null;
      throw error;
    }
  }

  private Object evaluated(int item, int row, boolean compiled) {
    InternalRow data = (InternalRow) relation.data().apply(row);
    Seq input = relation.output();
    // A new projection each time: after an error, builders of maps cannot go on.
    if (isAlone(item)) {
      ArrayList one = new ArrayList();
      one.add(expression(item));
      Seq list = org.apache.spark.api.python.PythonUtils.toSeq(one);
      return projection(list, input, compiled).apply(data);
    }
    for (int i = 0; i < projects.size(); i++) {
      Seq list = ((Project) projects.get(i)).projectList();
      data = (InternalRow) projection(list, input, compiled).apply(data);
      input = ((LogicalPlan) projects.get(i)).output();
    }
    return data;
  }

  /** The error condition of a row, its exception as a text if it has none; null for a value. */
  private String error(int item, int row, boolean compiled) {
    try {
      evaluated(item, row, compiled);
      return null;
    } catch (Throwable error) {
      String condition =
          error instanceof SparkThrowable ? ((SparkThrowable) error).getCondition() : null;
      return condition == null ? error.toString() : condition;
    }
  }

  /** Those of many rows, as JSON. */
  public String errors(int item, String numbers, boolean compiled) throws Exception {
    ArrayList found = new ArrayList();
    String[] parts = numbers.split(",");
    for (int i = 0; i < parts.length; i++) {
      found.add(error(item, Integer.parseInt(parts[i]), compiled));
    }
    return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(found);
  }
}
"""


class ErrorsOfSpark:
    """What Spark raises for single rows of expressions.

    :param numbers: these of the expressions are optimized together, if any of them is asked about;
        by itself, where it needs what Spark computes before, or if they fail together.
    """

    def __init__(self, analyzed: Analyzed, numbers: Sequence[int]) -> None:
        self._analyzed = analyzed
        self._numbers = list(numbers)
        self._by_itself: dict[int, _Optimized] = {}

    def of(self, number: int, rows: Sequence[int], *, compiled: bool) -> list[str | None]:
        """For each of the rows Spark's error condition, or None if it has a value.

        :param compiled: whether Spark compiles the expression, as it does in queries: where the
            two ways evaluate arguments in another order, another one raises.
        """
        if not rows:
            return []
        together = self._together
        if together is not None and number in self._numbers:
            place = self._numbers.index(number)
            if together.is_alone(place):
                return together.errors(place, rows, compiled)
        if number not in self._by_itself:
            self._by_itself[number] = _Optimized(self._analyzed, [number])
        return self._by_itself[number].errors(0, rows, compiled)

    @cached_property
    def _together(self) -> _Optimized | None:
        if len(self._numbers) < 2:
            return None
        try:
            return _Optimized(self._analyzed, self._numbers)
        except Py4JJavaError:
            return None


class _Optimized:
    def __init__(self, analyzed: Analyzed, numbers: Sequence[int]) -> None:
        self._always: str | None = None
        try:
            plan = analyzed.rows(numbers)._jdf.queryExecution().optimizedPlan()
        except PySparkException as error:  # it has no column, and the optimizer computed it
            self._always = error.getCondition() or _java_text(error)
            return
        self._java = java_class(analyzed.spark, "RowErrors", _SOURCE).newInstance()
        assert self._java.of(plan), plan.toString()

    def is_alone(self, place: int) -> bool:
        """Whether nothing of another expression has to do with this one."""
        return self._always is None and bool(self._java.isAlone(place))

    def errors(self, place: int, rows: Sequence[int], compiled: bool) -> list[str | None]:
        if self._always is not None:
            return [self._always] * len(rows)
        told = self._java.errors(place, ",".join(map(str, rows)), compiled)
        found: list[str | None] = json.loads(told)
        return found


def _java_text(error: Any) -> str:
    return str(error._origin.toString())
