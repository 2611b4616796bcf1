"""Steps with state where the source is read: option ``keysStayInPartitions``."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.errors import UnsupportedQueryError
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.pipeline.pruning import prune
from engine.pipeline.stateful import Deduplicate, Exchange, GroupRows, GroupSessions, PartGroup
from engine.plan.planner import plan_query

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def timed(spark: SparkSession) -> DataFrame:
    rate = spark.readStream.format("rate").load().withColumn("k", F.col("value") % 3)
    return rate.withWatermark("timestamp", "10 seconds")


def planned(df: DataFrame, mode: str = "append") -> tuple[Pipeline, ...]:
    return plan_query(df, output_mode=mode, keys_stay=True)


def problems_of(df: DataFrame, mode: str = "append") -> str:
    with pytest.raises(UnsupportedQueryError) as caught:
        planned(df, mode)
    problems = "; ".join(caught.value.problems)
    assert "the option keysStayInPartitions: " in problems
    return problems


def test_a_windowed_count_is_one_pipeline(timed: DataFrame) -> None:
    df = timed.groupBy(F.window("timestamp", "1 minute"), "k").count().filter("count > 1")
    (pipeline,) = planned(df.select("window.start", "k", "count"))
    assert isinstance(pipeline.source, SourceRelation)
    assert pipeline.exchange is None
    assert isinstance(pipeline.kept, GroupRows)
    assert not pipeline.kept.is_partial
    assert not any(isinstance(step, PartGroup) for step in pipeline.steps)
    assert pipeline.schema.names == ["start", "k", "count"]
    assert "Keys stay in their partitions: no exchange" in pipeline.descriptions
    plan_query(df)  # nor is it asked for without the option


def test_columns_that_nobody_uses_are_not_read(timed: DataFrame) -> None:
    (pipeline,) = planned(timed.withColumn("v", F.col("value") * 2).dropDuplicates(["k"]))
    step = pipeline.kept
    assert isinstance(step, Deduplicate)
    (narrow,) = planned(timed.dropDuplicates(["k"]).select("k"))
    pruned = prune(narrow, [0, 1])
    assert isinstance(pruned.kept, Deduplicate)
    assert pruned.schema.names == ["k"]


def test_other_steps_with_state(timed: DataFrame) -> None:
    (sessions,) = planned(timed.groupBy(F.session_window("timestamp", "1 minute"), "k").count())
    assert isinstance(sessions.kept, GroupSessions)
    (unique,) = planned(timed.dropDuplicatesWithinWatermark(["k"]))
    assert isinstance(unique.kept, Deduplicate)
    assert unique.kept.within_us == 10_000_000
    (counted,) = planned(timed.groupBy("k").count(), "update")
    assert isinstance(counted.kept, GroupRows)


def test_the_next_step_has_an_exchange(timed: DataFrame) -> None:
    df = timed.dropDuplicates(["k", "timestamp"])
    below, above = planned(df.groupBy(F.window("timestamp", "1 minute")).count())
    assert isinstance(below.kept, Deduplicate)
    assert isinstance(below.steps[-1], PartGroup)
    assert below.exchange == Exchange(1, (0,))
    assert isinstance(above.kept, GroupRows)
    assert above.kept.is_partial
    # Which tells all it knows, and hears from those that send whether there is something new.
    planned(timed.dropDuplicates(["k"]).groupBy("value").count(), "complete")


def test_what_is_in_no_partition_is_refused(timed: DataFrame) -> None:
    window = F.window("timestamp", "1 minute")
    assert "without keys" in problems_of(timed.agg(F.count("*")), "update")
    assert "rows of the same window" in problems_of(timed.groupBy(window).count())
    assert "rows of the same window" in problems_of(timed.dropDuplicates(["timestamp"]))
    both = timed.union(timed).groupBy(window, "k").count()
    assert "a union has partitions of several streams" in problems_of(both)
    assert "output mode complete" in problems_of(timed.groupBy(window, "k").count(), "complete")
    other = timed.select(F.col("k").alias("k2"), F.col("timestamp").alias("at"))
    joined = timed.join(other, F.expr("k = k2 AND at BETWEEN timestamp AND timestamp"))
    assert "a join of two streams" in problems_of(joined)


def test_functions_that_hold_rows_back_are_refused_in_front(timed: DataFrame) -> None:
    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    @F.pandas_udf("long")
    def twice(series: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for each in series:
            yield each * 2

    mapped = timed.mapInArrow(same, timed.schema).dropDuplicates(["k"])
    assert "a function over an iterator" in problems_of(mapped)
    called = timed.withColumn("twice", twice("value")).dropDuplicates(["k"])
    assert "a function over an iterator" in problems_of(called)
    behind = timed.dropDuplicates(["k"]).select("k").mapInArrow(same, "k long")
    (pipeline,) = planned(behind)
    assert isinstance(pipeline.kept, Deduplicate)
