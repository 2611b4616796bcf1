"""Analyzed plan of a streaming DataFrame → :class:`Pipeline`.

Spark's analyzer has resolved every name, inserted every cast and chosen the evaluation modes.
Rules of its optimizer that show have been run (:mod:`engine.plan.spark_rules`). What is left is to
walk the tree from the source to the top (:mod:`engine.plan.walk`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.base.options import EngineOptions
from engine.errors import UnsupportedQueryError
from engine.pipeline.optimizer import optimize
from engine.pipeline.pipeline import Pipeline
from engine.plan.refusals import HINT, TOO_DEEP
from engine.plan.session_settings import active
from engine.plan.spark_rules import optimized
from engine.plan.walk import Walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def plan_query(
    df: DataFrame,
    static_side_bytes_max: int = EngineOptions.static_side_max_bytes,
    exact_math: bool = EngineOptions.exact_math,
) -> tuple[Pipeline, ...]:
    """Turn a streaming DataFrame into a plan that needs no JVM. Tables that it is joined with are
    read here.

    :param static_side_bytes_max: how large such a table may be, in Arrow's memory.
    :param exact_math: see :class:`engine.expressions.registry.Context`.
    :return: one pipeline for each stream that the query reads, in the order of the query's text;
        all have the same schema.
    :raises ConfigError: a table is larger than that.
    :raises UnsupportedQueryError: it is no stream, or holds what cannot run continuously;
        ``problems`` names every such node and expression.
    """
    if not df.isStreaming:
        raise UnsupportedQueryError(
            ["this DataFrame is not a stream"],
            hint="Read it with spark.readStream, or write it with df.write.",
        )
    with active(df.sparkSession):
        try:
            walk = _walked(df, static_side_bytes_max)
        except RecursionError:
            raise UnsupportedQueryError([f"an expression {TOO_DEEP}"], hint=HINT) from None
    return tuple(
        optimize(
            Pipeline(
                source=stream.source,
                steps=tuple(stream.steps),
                schema=walk.schema,
                session_timezone=walk.context.session_timezone,
                exact_math=exact_math,
                descriptions=tuple(stream.descriptions),
                zone_rules=walk.zone_rules,
            )
        )
        for stream in walk.streams
    )


def _walked(df: DataFrame, static_side_bytes_max: int) -> Walk:
    analyzed = df._jdf.queryExecution().analyzed()
    walk = Walk(df, static_side_bytes_max)
    walk.visit(optimized(df.sparkSession, analyzed))
    if walk.problems or not walk.streams:
        told = Walk(df, static_side_bytes_max, rewritten=False)  # in the query's own words
        told.visit(analyzed)
        raise UnsupportedQueryError(dict.fromkeys(told.problems or walk.problems), hint=HINT)
    return walk
