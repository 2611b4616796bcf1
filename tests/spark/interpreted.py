"""Spark's own evaluation of one expression, row by row, without a query.

Needs the optimizer's rule ConvertToLocalRelation switched off, so that the optimized plan still
holds the expression.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tests.spark.java_classes import java_class

CONF = {
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    )
}
_SOURCE: Final = """
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedMutableProjection;
import org.apache.spark.sql.catalyst.expressions.MutableProjection;
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateMutableProjection$;

public class RowErrors {
  private boolean compiled;
  private final java.util.ArrayList lists = new java.util.ArrayList();
  private final java.util.ArrayList inputs = new java.util.ArrayList();
  private scala.collection.Seq rows;

  public void step(scala.collection.immutable.Seq list, scala.collection.immutable.Seq input) {
    lists.add(list);
    inputs.add(input);
  }

  public void rows(scala.collection.Seq rows) { this.rows = rows; }

  public void compiled(boolean compiled) { this.compiled = compiled; }

  private MutableProjection projection(int step) {
    scala.collection.immutable.Seq list = (scala.collection.immutable.Seq) lists.get(step);
    scala.collection.immutable.Seq input = (scala.collection.immutable.Seq) inputs.get(step);
    MutableProjection made = compiled
        ? GenerateMutableProjection$.MODULE$.generate(list, input, false)
        : new InterpretedMutableProjection(list, input);
    made.initialize(0);
    return made;
  }

  /** The error condition of a row, its exception as a text if it has none; null for a value. */
  public String error(int row) {
    try {
      InternalRow data = (InternalRow) rows.apply(row);
      for (int i = 0; i < lists.size(); i++) {
        // A new one each time: after an error, builders of maps cannot go on.
        data = (InternalRow) projection(i).apply(data);
      }
      return null;
    } catch (Throwable error) {
      String condition =
          error instanceof SparkThrowable ? ((SparkThrowable) error).getCondition() : null;
      return condition == null ? error.toString() : condition;
    }
  }

  /** Those of many rows, as JSON. */
  public String errors(String numbers) throws Exception {
    java.util.ArrayList found = new java.util.ArrayList();
    String[] parts = numbers.split(",");
    for (int i = 0; i < parts.length; i++) found.add(error(Integer.parseInt(parts[i])));
    return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(found);
  }
}
"""


class ExpressionOfSpark:
    """A SQL expression over the rows of a local DataFrame.

    :param compiled: whether Spark compiles it, as it does in queries: where the two ways evaluate
        arguments in another order, another one raises.
    """

    def __init__(self, frame: DataFrame, text: str, *, compiled: bool = False) -> None:
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
        self._java = java_class(frame.sparkSession, "RowErrors", _SOURCE).newInstance()
        self._java.rows(plan.data())
        self._java.compiled(compiled)
        for step in reversed(steps):
            self._java.step(step.projectList(), step.child().output())

    def errors(self, rows: Sequence[int]) -> list[str | None]:
        """For each of the rows Spark's error condition, or None if it has a value."""
        if self._always is not None:
            return [self._always] * len(rows)
        if not rows:
            return []
        found: list[str | None] = json.loads(self._java.errors(",".join(map(str, rows))))
        return found


def _java_text(error: Any) -> str:
    return str(error._origin.toString())
