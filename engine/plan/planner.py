"""Analyzed plan of a streaming DataFrame → the :class:`Pipeline` of each stream and stage.

Spark's analyzer has resolved every name, inserted every cast and chosen the evaluation modes.
Rules of its optimizer that show have been run (:mod:`engine.plan.spark_rules`). What is left is to
walk the tree from the sources to the top (:mod:`engine.plan.walk`), and to ask Spark whether it
would run it as a stream at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.base.options import EngineOptions
from engine.base.output_modes import APPEND
from engine.errors import UnsupportedQueryError
from engine.pipeline.optimizer import optimize
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.stage_pruning import prune_stages
from engine.plan.event_time import refused_by_spark, refused_settings
from engine.plan.refusals import HINT, HINT_REFUSED_BY_SPARK, TOO_DEEP
from engine.plan.scope import Scope
from engine.plan.session_settings import active
from engine.plan.spark_rules import optimized, with_grouping_columns
from engine.plan.walk import Walk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def plan_query(
    df: DataFrame,
    static_side_bytes_max: int = EngineOptions.static_side_max_bytes,
    exact_math: bool = EngineOptions.exact_math,
    output_mode: str = APPEND,
    partial_aggregation: bool = EngineOptions.partial_aggregation,
    keys_stay: bool = EngineOptions.keys_stay_in_partitions,
) -> tuple[Pipeline, ...]:
    """Turn a streaming DataFrame into a plan that needs no JVM. Tables that it is joined with are
    read here.

    :param static_side_bytes_max: how large such a table may be, in Arrow's memory.
    :param exact_math: see :class:`engine.expressions.registry.Context`.
    :param output_mode: ``append``, ``update`` or ``complete``.
    :param partial_aggregation: whether rows are folded before they are sent to where their groups
        are, too.
    :param keys_stay: whether the rows of a key are all in one partition of the source.
    :return: one pipeline for each stream that the query reads, in the order of the query's text;
        then one for each stage, behind those that send to it. Those that send to none have the
        same schema.
    :raises ConfigError: a table is larger than that.
    :raises UnsupportedQueryError: it is no stream, or holds what cannot run continuously, or what
        Spark refuses of any stream; ``problems`` names every such node and expression.
    """
    if not df.isStreaming:
        raise UnsupportedQueryError(
            ["this DataFrame is not a stream"],
            hint="Read it with spark.readStream, or write it with df.write.",
        )
    with active(df.sparkSession):
        try:
            walk = _walked(df, static_side_bytes_max, output_mode, partial_aggregation, keys_stay)
        except RecursionError:
            raise UnsupportedQueryError([f"an expression {TOO_DEEP}"], hint=HINT) from None
    scope = walk.scope
    pipelines = scope.drafts.pipelines(
        scope.schema,
        session_timezone=scope.context.session_timezone,
        exact_math=exact_math,
        zone_rules=walk.zone_rules,
    )
    return prune_stages(tuple(optimize(pipeline) for pipeline in pipelines))


def _walked(
    df: DataFrame,
    static_side_bytes_max: int,
    output_mode: str,
    partial_aggregation: bool,
    keys_stay: bool,
) -> Walk:
    """The plan, read.

    :raises UnsupportedQueryError: something of it cannot run.
    """
    spark = df.sparkSession
    analyzed = df._jdf.queryExecution().analyzed()
    walk = Walk(
        df,
        static_side_bytes_max,
        output_mode,
        partial_aggregation=partial_aggregation,
        keys_stay=keys_stay,
    )
    walk.visit(optimized(spark, analyzed))
    scope = walk.scope
    problems = [*scope.problems, *_of_state(scope)]
    refused = refused_by_spark(scope.gateway, analyzed, output_mode)
    if scope.problems or not scope.open:
        told = Walk(  # in its own words
            df, static_side_bytes_max, output_mode, keys_stay=keys_stay, rewritten=False
        )
        told.visit(with_grouping_columns(spark, analyzed))
        problems = [*(told.scope.problems or scope.problems)]
    if refused is not None:
        problems.append(refused)
    if problems or not scope.open:
        raise UnsupportedQueryError(
            dict.fromkeys(problems), hint=HINT if refused is None else HINT_REFUSED_BY_SPARK
        )
    return walk


def _of_state(scope: Scope) -> list[str]:
    """What is in the way of a query because it keeps state."""
    if not scope.drafts.keep_state:
        return []
    problems = refused_settings(scope.gateway)
    if scope.drafts.redefines_watermark:
        problems.append(
            "withWatermark on rows that have a watermark: in a query that keeps state, rows have "
            "one; define it once"
        )
    return problems
