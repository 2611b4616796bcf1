"""Where in a template its columns stand, as Spark's own parser sees it.

A word of the text is a hole if the parser made a name of it and a column has that name: functions,
fields, quoted texts, units and the variables of lambdas are none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from engine.plan.catalyst import scala_seq, simple_name
from tests.parity.invented.columns import lambda_variables


class Span(NamedTuple):
    """A hole's place: from ``start`` to before ``end``; the name of its column."""

    start: int
    end: int
    name: str


def holes(spark: SparkSession, text: str, columns: Collection[str]) -> list[Span]:
    """The holes of an expression, from left to right."""
    session: Any = spark._jsparkSession
    parsed = session.sessionState().sqlParser().parseExpression(text)
    return sorted(set(_spans(parsed, text, set(columns) - lambda_variables(text))))


def _spans(parsed: Any, text: str, columns: set[str]) -> Iterator[Span]:
    for leaf in scala_seq(parsed.collectLeaves()):
        # In the body of a lambda the parser takes every name for a variable.
        if simple_name(leaf) not in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable"):
            continue
        name = str(leaf.nameParts().apply(0))
        if name not in columns:
            continue
        start = leaf.origin().startIndex().get()
        span = Span(start, start + len(name), name)
        if text[span.start : span.end] != name:
            raise AssertionError(f"{text}: {name} is not at {span.start}")
        yield span
