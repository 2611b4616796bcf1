"""Where in a template its columns stand, as Spark's own parser sees it.

A word of the text is a hole if the parser made a name of it and a column has that name: functions,
fields, quoted texts, units and the variables of lambdas are none.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cache
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from tests.parity.invented.columns import lambda_variables
from tests.spark.java_classes import java_class

_SOURCE: Final = """
import java.util.ArrayList;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnresolvedNamedLambdaVariable;

public class Names {
  /** The names in an expression that may be those of columns, as JSON: [first part, where]. */
  public String of(Expression parsed) throws Exception {
    ArrayList found = new ArrayList();
    scala.collection.Iterator leaves = parsed.collectLeaves().iterator();
    while (leaves.hasNext()) {
      Expression leaf = (Expression) leaves.next();
      scala.collection.Seq parts = null;
      if (leaf instanceof UnresolvedAttribute) {
        parts = ((UnresolvedAttribute) leaf).nameParts();
      } else if (leaf instanceof UnresolvedNamedLambdaVariable) {
        // In the body of a lambda the parser takes every name for a variable.
        parts = ((UnresolvedNamedLambdaVariable) leaf).nameParts();
      }
      if (parts == null) continue;
      found.add(Arrays.asList(new Object[] {parts.head(), leaf.origin().startIndex().get()}));
    }
    return new com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(found);
  }
}
"""


class Span(NamedTuple):
    """A hole's place: from ``start`` to before ``end``; the name of its column."""

    start: int
    end: int
    name: str


def holes(spark: SparkSession, text: str, columns: Collection[str]) -> list[Span]:
    """The holes of an expression, from left to right."""
    known = set(columns) - lambda_variables(text)
    spans = {
        Span(start, start + len(name), name) for name, start in _names(spark, text) if name in known
    }
    for span in spans:
        if text[span.start : span.end] != span.name:
            raise AssertionError(f"{text}: {span.name} is not at {span.start}")
    return sorted(spans)


@cache
def _names(spark: SparkSession, text: str) -> list[tuple[str, int]]:
    """What may be names of columns, and where it begins."""
    session: Any = spark._jsparkSession
    parsed = session.sessionState().sqlParser().parseExpression(text)
    names: list[tuple[str, int]] = json.loads(
        java_class(spark, "Names", _SOURCE).newInstance().of(parsed)
    )
    return names
