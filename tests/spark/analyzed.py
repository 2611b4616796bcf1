"""SQL expressions over the columns of a local DataFrame, which Spark parses and analyzes once.

Queries of some of them, and with something around them, are made of what it has resolved.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from tests.spark.java_classes import java_class

_SOURCE: Final = """
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkThrowable;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import scala.collection.immutable.Seq;

public class ResolvedExpressions {
  private final ArrayList nodes = new ArrayList();

  /** Parses a list of texts, as JSON, and keeps what they are under the next numbers; for each the
   *  error condition, or null. */
  public String parse(ParserInterface parser, String json) throws Exception {
    List texts = (List) new ObjectMapper().readValue(json, List.class);
    ArrayList errors = new ArrayList();
    for (int i = 0; i < texts.size(); i++) {
      try {
        nodes.add(parser.parseExpression((String) texts.get(i) + " AS _" + nodes.size()));
        errors.add(null);
      } catch (Throwable error) {
        String condition =
            error instanceof SparkThrowable ? ((SparkThrowable) error).getCondition() : null;
        nodes.add(null);
        errors.add(condition == null ? error.getClass().getSimpleName() : condition);
      }
    }
    return new ObjectMapper().writeValueAsString(errors);
  }

  /** Keeps others in their place; which of them are resolved: 1 for each that is, 0 for others. */
  public String replace(String numbers, Seq expressions) {
    String[] parts = numbers.split(",");
    StringBuilder resolved = new StringBuilder();
    for (int i = 0; i < parts.length; i++) {
      Expression node = (Expression) expressions.apply(i);
      nodes.set(Integer.parseInt(parts[i]), node);
      resolved.append(node.resolved() ? '1' : '0');
    }
    return resolved.toString();
  }

  /** Expressions as numbers with commas between them; one that is followed by colons and numbers of
   *  rows is NULL there, and not evaluated. */
  public Seq of(String wanted, Attribute row) {
    ArrayList found = new ArrayList();
    String[] parts = wanted.split(",");
    for (int i = 0; i < parts.length; i++) {
      String[] numbers = parts[i].split(":");
      Expression node = (Expression) nodes.get(Integer.parseInt(numbers[0]));
      found.add(numbers.length == 1 ? node : without(node, numbers, row));
    }
    return PythonUtils.toSeq(found);
  }

  private Expression without(Expression alias, String[] numbers, Attribute row) {
    ArrayList rows = new ArrayList();
    for (int i = 1; i < numbers.length; i++) rows.add(Integer.valueOf(numbers[i]));
    Expression elsewhere = new Not(new InSet(row, PythonUtils.toSeq(rows).toSet()));
    ArrayList branches = new ArrayList();
    branches.add(new scala.Tuple2(elsewhere, alias.children().apply(0)));
    ArrayList children = new ArrayList();
    children.add(new CaseWhen(PythonUtils.toSeq(branches), scala.Option.empty()));
    return (Expression) alias.withNewChildren(PythonUtils.toSeq(children));
  }
}
"""


class Analyzed:
    """Resolved expressions, by number.

    :param frame: the DataFrame; its last column is the number of the row, an INT.
    """

    def __init__(self, frame: DataFrame) -> None:
        self.spark: SparkSession = frame.sparkSession
        jvm: Any = self.spark._jvm
        self._session: Any = self.spark._jsparkSession
        self._logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        self._datasets = jvm.org.apache.spark.sql.classic.Dataset
        self._input_frame = frame
        self._input = frame._jdf.queryExecution().analyzed()
        self._row = self._input.output().last()
        self._nodes = java_class(self.spark, "ResolvedExpressions", _SOURCE).newInstance()
        self._count = 0

    @classmethod
    def of(cls, frame: DataFrame, texts: Sequence[str]) -> Analyzed:
        """With these expressions, whose numbers are their positions.

        :raises PySparkException: as :meth:`DataFrame.selectExpr`.
        """
        made = cls(frame)
        made.add(texts)
        return made

    def add(self, texts: Sequence[str]) -> list[int]:
        """The numbers of more expressions.

        :raises PySparkException: as :meth:`DataFrame.selectExpr`.
        """
        numbers, errors = self.parse(texts)
        if any(errors):  # to have it told as Spark tells it
            self._input_frame.selectExpr(*texts)
            raise AssertionError(f"Spark parses {errors} after all")
        self.check(numbers)
        return numbers

    def parse(self, texts: Sequence[str]) -> tuple[list[int], list[str | None]]:
        """The numbers of expressions, and for each the error condition if it is none of SQL."""
        parser = self._session.sessionState().sqlParser()
        errors: list[str | None] = json.loads(self._nodes.parse(parser, json.dumps(texts)))
        first, self._count = self._count, self._count + len(errors)
        return list(range(first, self._count)), errors

    def resolve(self, numbers: Sequence[int]) -> list[bool]:
        """Which of parsed expressions the analyzer resolves.

        :raises PySparkException: a rule of it fails at once; so does a Py4JJavaError.
        """
        wanted = ",".join(map(str, numbers))
        plan = self._logical.Project(self._nodes.of(wanted, self._row), self._input)
        analyzed = self._session.sessionState().analyzer().execute(plan)
        return [each == "1" for each in self._nodes.replace(wanted, analyzed.projectList())]

    def check(self, numbers: Collection[int]) -> None:
        """Resolve expressions, of which the analyzer looks at more when all are.

        :raises PySparkException: it refuses one of them at least; so does a Py4JJavaError.
        """
        wanted = ",".join(map(str, numbers))
        plan = self._logical.Project(self._nodes.of(wanted, self._row), self._input)
        analyzed = self._datasets.ofRows(self._session, plan).queryExecution().analyzed()
        self._nodes.replace(wanted, analyzed.projectList())

    def expression(self, number: int) -> JavaObject:
        """The resolved expression."""
        node: JavaObject = self._nodes.of(str(number), self._row).head()
        return node

    def plan(
        self, numbers: Collection[int], without: Mapping[int, Collection[int]] | None = None
    ) -> JavaObject:
        """A projection of these expressions, which have been checked, and of the row's number.

        :param without: number of an expression → rows where it is NULL, and not evaluated.
        """
        rows = without or {}
        wanted = ",".join(":".join(map(str, (n, *rows.get(n, ())))) for n in numbers)
        made = self._nodes.of(wanted, self._row).appended(self._row)
        plan: JavaObject = self._logical.Project(made, self._input)
        self._session.sessionState().analyzer().checkAnalysis(plan)
        return plan

    def rows(
        self, numbers: Collection[int], without: Mapping[int, Collection[int]] | None = None
    ) -> DataFrame:
        """The DataFrame of :meth:`plan`."""
        plan = self.plan(numbers, without)
        return DataFrame(self._datasets.ofRows(self._session, plan), self.spark)
