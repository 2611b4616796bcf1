"""From a streaming DataFrame that keeps state to pipelines joined by exchanges."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.errors import UnsupportedQueryError
from engine.expressions.datum import constant
from engine.pipeline.pipeline import Filter, Pipeline, Project, SourceRelation, Step, Watermark
from engine.pipeline.stateful import (
    Deduplicate,
    Exchange,
    Exchanged,
    GroupRows,
    GroupSessions,
    JoinStreams,
    PartGroup,
)
from engine.plan.planner import plan_query

pytestmark = pytest.mark.spark


def minute() -> Column:
    return F.window("timestamp", "1 minute")


@pytest.fixture(scope="module")
def rate(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


@pytest.fixture(scope="module")
def timed(rate: DataFrame) -> DataFrame:
    return rate.withWatermark("timestamp", "10 seconds")


def planned(df: DataFrame, mode: str = "append", *, partial: bool = False) -> tuple[Pipeline, ...]:
    """The plan, which is whole: what is sent is received."""
    pipelines = plan_query(df, output_mode=mode, partial_aggregation=partial)
    for number, pipeline in enumerate(pipelines):
        if isinstance(pipeline.source, Exchanged):
            for side, senders in enumerate(pipeline.source.senders):
                for sender in senders:
                    sends = pipelines[sender].exchange
                    assert sends is not None
                    assert sender < number
                    assert (sends.stage, sends.side) == (number, side)
                    assert pipelines[sender].schema.equals(pipeline.source.sides[side])
    assert pickle.loads(pickle.dumps(pipelines)) == pipelines
    return pipelines


def step_of(pipelines: tuple[Pipeline, ...], kind: type[Any]) -> Any:
    (step,) = [each for pipeline in pipelines for each in pipeline.steps if type(each) is kind]
    return step


def kinds(pipeline: Pipeline) -> list[type[Step]]:
    return [type(step) for step in pipeline.steps]


def problems_of(df: DataFrame, mode: str = "append") -> str:
    with pytest.raises(UnsupportedQueryError) as caught:
        plan_query(df, output_mode=mode)
    return "; ".join(caught.value.problems)


def test_a_windowed_count(timed: DataFrame) -> None:
    df = timed.groupBy(minute(), (F.col("value") % 3).alias("k")).agg(
        F.count("*").alias("n"), (F.sum(F.col("value") * 2) + 1).alias("s")
    )
    below, above = planned(df)

    assert isinstance(below.source, SourceRelation)
    assert below.exchange == Exchange(1, (0, 1))
    assert Watermark(0, 10_000, 0) in below.steps
    assert below.schema.names == ["window", "_groupingexpression", "(value * 2L)"]
    step = above.steps[0]
    assert isinstance(step, GroupRows)
    assert (step.keys, step.event_time, step.output_mode) == ((0, 1), 0, "append")
    assert [each.function for each in step.aggregates] == ["Count", "Sum"]
    assert [len(each.arguments) for each in step.aggregates] == [0, 1]
    assert [each.eval_mode for each in step.aggregates] == ["LEGACY", "ANSI"]
    assert step.schema.types[2:] == [pa.int64(), pa.int64()]
    assert above.schema.names == ["window", "k", "n", "s"]
    assert above.schema.types[1:] == [pa.int64()] * 3


def test_rows_are_folded_in_front_of_the_exchange(timed: DataFrame) -> None:
    df = timed.groupBy(minute()).agg(F.avg("value"), F.count("*"), F.max("value"))
    below, above = planned(df, partial=True)
    folds = below.steps[-1]
    assert isinstance(folds, PartGroup)
    assert folds.schema.names[0] == "window"
    assert folds.schema.types[1:] == [pa.float64(), pa.int64(), pa.int64(), pa.int64()]
    step = step_of((above,), GroupRows)
    assert step.is_partial
    assert step.aggregates == folds.aggregates


def test_what_cannot_be_folded_is_refused(rate: DataFrame) -> None:
    listed = problems_of(
        rate.groupBy("value").agg(
            F.histogram_numeric("value", F.lit(3)), F.percentile("value", F.array(F.lit(0.5)))
        ),
        "update",
    )
    assert "histogram_numeric(value, 3): is not supported" in listed
    assert "percentile" not in listed


@pytest.mark.parametrize("function", ["max", "sum", "avg"])
def test_intervals_of_months_are_refused_by_name(timed: DataFrame, function: str) -> None:
    months = F.expr(f"{function}(int(value) * INTERVAL '1' MONTH)")
    assert "intervals of months" in problems_of(timed.groupBy(minute(), "value").agg(months))


def test_texts_are_joined_in_their_own_order(rate: DataFrame) -> None:
    def joined(order: str) -> DataFrame:
        return rate.groupBy("timestamp").agg(
            F.expr(f"listagg(string(value), '-') WITHIN GROUP (ORDER BY {order})")
        )

    (texts,) = step_of(planned(joined("string(value) DESC"), "update"), GroupRows).aggregates
    assert (len(texts.arguments), texts.params["descending"]) == (2, True)
    for order in ("value", "string(value), value"):
        assert "its own values only" in problems_of(joined(order), "update")


def test_what_spark_refuses_is_not_sent_there(rate: DataFrame, timed: DataFrame) -> None:
    for df, leads_to_spark in (
        (rate.groupBy("value").count(), False),
        (timed.groupBy(minute()).agg(F.histogram_numeric("value", F.lit(3))), True),
    ):
        with pytest.raises(UnsupportedQueryError) as caught:
            plan_query(df)
        assert ("trigger(processingTime" in str(caught.value.hint)) is leads_to_spark


def test_no_window_stays_in_complete_mode(timed: DataFrame) -> None:
    step = step_of(planned(timed.groupBy(minute()).count(), "complete"), GroupRows)
    assert (step.output_mode, step.event_time) == ("complete", None)


def test_all_rows_are_one_group(rate: DataFrame) -> None:
    below, above = planned(rate.agg(F.max("value")), "update")
    assert below.exchange == Exchange(1, ())
    assert step_of((above,), GroupRows).keys == ()


def test_sliding_windows_and_rollups_are_rows_of_their_own(timed: DataFrame) -> None:
    sliding = F.window("timestamp", "1 minute", "20 seconds")
    assert step_of(planned(timed.groupBy(sliding).count()), GroupRows).event_time == 0
    step = step_of(planned(timed.rollup(minute(), "value").count(), "update"), GroupRows)
    assert (step.keys, step.event_time) == ((0, 1, 2), 0)


def test_a_group_is_told_by_numbers_without_a_sign_of_zero(rate: DataFrame) -> None:
    df = rate.select(F.struct(F.col("value").cast("double").alias("d")).alias("s"), "value")
    pipelines = planned(df.groupBy("s", F.col("value").cast("float").alias("f")).count(), "update")
    last = pipelines[0].steps[-1]
    assert isinstance(last, Project)
    added = [each for column in last.columns for each in column.walk() if each.op == "Add"]
    assert [each.children[1].params["value"] for each in added] == [0.0, 0.0]


def test_having_and_expressions_over_aggregates(spark: SparkSession, timed: DataFrame) -> None:
    timed.createOrReplaceTempView("timed")
    df = spark.sql(
        "SELECT window.end AS at, value % 3 + 1 AS k, max(value) - min(value) AS d FROM timed "
        "GROUP BY window(timestamp, '1 minute'), value % 3 "
        "HAVING count(*) > 2 AND value % 3 > 0"
    )
    below, above = planned(df)
    spark.catalog.dropTempView("timed")
    assert [f.function for f in step_of((above,), GroupRows).aggregates] == ["Max", "Min", "Count"]
    assert Filter in kinds(below), "what is known of the key is asked in front of the exchange"
    assert above.schema.names == ["at", "k", "d"]


def test_arguments_are_computed_for_the_rows_of_their_filter(rate: DataFrame) -> None:
    df = rate.groupBy("value").agg(F.expr("sum(1 / value) FILTER (WHERE value != 0)"))
    below, above = planned(df, "update")
    last = below.steps[-1]
    assert isinstance(last, Project)
    assert last.columns[1].op == "If"
    (aggregate,) = step_of((above,), GroupRows).aggregates
    assert aggregate.condition is not None
    assert aggregate.condition.params["ordinal"] == 2


def test_what_is_constant_is_so_with_a_filter(rate: DataFrame) -> None:
    """In ANSI mode, where the cast of a constant might raise."""
    grouped = rate.groupBy("timestamp").agg(
        F.expr("percentile(CAST(value AS DOUBLE), 0.3) FILTER (WHERE value > 3)").alias("p"),
        F.expr("listagg(string(value), upper(',')) FILTER (WHERE value > 3)").alias("l"),
    )
    percentile, texts = step_of(planned(grouped, "update"), GroupRows).aggregates
    assert constant(percentile.arguments[1]).as_py() == 0.3
    assert constant(texts.arguments[1]).as_py() == ","


def test_what_an_aggregate_is_made_with(rate: DataFrame) -> None:
    df = rate.groupBy("value").agg(
        F.first("value", ignorenulls=True), F.stddev("value"), F.count_if(F.col("value") > 1)
    )
    first, deviation, count = step_of(planned(df, "update"), GroupRows).aggregates
    assert first.params["ignore_nulls"] is True
    assert deviation.function == "StddevSamp"
    assert deviation.params["null_on_divide_by_zero"] is True
    assert (count.function, len(count.arguments)) == ("Count", 1)


def test_sessions(timed: DataFrame) -> None:
    session = F.session_window("timestamp", "1 minute")
    below, above = planned(timed.groupBy("value", session).agg(F.max("timestamp")))
    step = step_of((above,), GroupSessions)
    assert below.exchange == Exchange(1, (0,))
    assert (step.keys, step.session, step.places) == ((0,), 1, (0, 1))
    assert step.has_watermark
    assert above.schema.names == ["value", "session_window", "max(timestamp)"]
    first = step_of(planned(timed.groupBy(session, "value").count()), GroupSessions)
    assert (first.keys, first.session, first.places) == ((1,), 0, (1, 0))
    assert "alone" in problems_of(timed.groupBy(session).count())


def test_sessions_with_a_watermark_are_not_shown_whole(timed: DataFrame) -> None:
    """Spark leaves late rows out of them, though it forgets none."""
    sessions = timed.groupBy(F.session_window("timestamp", "5 minutes"), "value").count()
    assert "in output mode complete" in problems_of(sessions, "complete")


def test_small_counts_are_corrected_as_spark_does(rate: DataFrame) -> None:
    counted = rate.groupBy("value").agg(F.approx_count_distinct("timestamp"))
    (function,) = step_of(planned(counted, "update"), GroupRows).aggregates
    assert function.params["threshold"] > 0
    assert len(function.params["estimates"]) == len(function.params["biases"]) > 0


def test_deduplication(timed: DataFrame) -> None:
    df = timed.selectExpr("value % 5 AS k", "timestamp", "value AS unused", "value AS v")
    below, above = planned(df.dropDuplicates(["k", "timestamp"]).select("v", "k"))
    step = step_of((above,), Deduplicate)
    assert below.schema.names == ["k", "timestamp", "v"], "what nobody uses is not sent"
    assert below.exchange == Exchange(1, (0, 1))
    assert (step.keys, step.event_time, step.within_us) == ((0, 1), 1, None)

    within = step_of(planned(df.dropDuplicatesWithinWatermark(["k"])), Deduplicate)
    assert (within.keys, within.event_time, within.within_us) == ((0,), 1, 10_000_000)
    whole = step_of(planned(timed.distinct()), Deduplicate)
    assert whole.keys == (0, 1)


def test_distinct_in_sql_is_an_aggregate(spark: SparkSession, rate: DataFrame) -> None:
    rate.createOrReplaceTempView("numbers")
    df = spark.sql("SELECT DISTINCT value % 2 AS k FROM numbers")
    step = step_of(planned(df, "update"), GroupRows)
    assert (step.keys, step.aggregates) == ((0,), ())
    assert "without watermark" in problems_of(df)
    spark.catalog.dropTempView("numbers")


def test_a_join_within_a_time(timed: DataFrame, rate: DataFrame) -> None:
    clicks = rate.withWatermark("timestamp", "5 seconds").selectExpr(
        "timestamp AS t2", "value AS v2", "value AS unused"
    )
    on = (
        "value = v2 AND t2 >= timestamp - INTERVAL 5 SECONDS "
        "AND t2 <= timestamp + INTERVAL 1 MINUTE"
    )
    left, right, above = planned(timed.join(clicks, F.expr(on), "left").select("value", "t2"))
    step = step_of((above,), JoinStreams)
    assert (left.exchange, right.exchange) == (Exchange(2, (1,), 0), Exchange(2, (1,), 1))
    assert right.schema.names == ["t2", "v2"]
    assert step.kind == "left"
    assert (step.left.keys, step.left.event_time) == ((1,), 0)
    assert step.condition is not None
    assert step.left.evicts is not None
    assert step.right.evicts is not None
    bounds = [side.evicts.children[1].params["value"] for side in (step.left, step.right)]
    assert bounds == [60_001_000, 5_001_000]
    assert [w.number for p in (left, right) for w in p.steps if isinstance(w, Watermark)] == [0, 1]
    assert step.schema.field(2).nullable
    assert above.watermark_lag_ms == 0


def test_a_join_by_windows_and_what_follows_it(timed: DataFrame) -> None:
    windows = timed.select(minute(), "value")
    other = timed.select(minute(), F.col("value").alias("v"))
    joined = windows.join(other, ["window"]).groupBy("window").count()
    *_, join, count = planned(joined)
    step = step_of((join,), JoinStreams)
    assert step.left.evicts is not None
    assert step.left.evicts.children[1].params["value"] == 0
    assert count.watermark_lag_ms == 0
    assert step_of((count,), GroupRows).event_time == 0


def test_what_comes_out_of_a_join_is_late_by_what_it_waits_for(timed: DataFrame) -> None:
    other = timed.selectExpr("timestamp AS t2", "value AS v2")
    on = "value = v2 AND t2 >= timestamp AND t2 <= timestamp + INTERVAL 1 MINUTE"
    joined = timed.join(other, F.expr(on)).select("timestamp", "value")
    *_, count = planned(joined.groupBy(minute()).count())
    assert count.watermark_lag_ms == 60_001


def test_keys_of_a_join_are_computed_once(timed: DataFrame, rate: DataFrame) -> None:
    other = rate.selectExpr("value AS v2")
    left, right, above = planned(timed.join(other, F.expr("value % 3 = v2 + 1")))
    assert left.schema.names == ["timestamp", "value", "key 1"]
    assert right.schema.names == ["v2", "key 1"]
    assert above.schema.names == ["timestamp", "value", "v2"]
    assert step_of((above,), JoinStreams).left.evicts is None


def test_several_stages_in_a_row(timed: DataFrame) -> None:
    hours = (
        timed.groupBy(minute())
        .count()
        .groupBy(F.window(F.window_time("window"), "1 hour"))
        .agg(F.sum("count"))
    )
    first, second, third = planned(hours)
    assert (first.exchange, second.exchange) == (Exchange(1, (0,)), Exchange(2, (0,)))
    assert isinstance(second.source, Exchanged)
    assert second.source.senders == ((0,),)
    names = [step_of((stage,), GroupRows).name for stage in (second, third)]
    assert names == ["aggregate-0", "aggregate-1"]
    assert "correctness" in problems_of(hours, "update")


def test_streams_of_a_union_meet_in_one_stage(timed: DataFrame, rate: DataFrame) -> None:
    both = timed.union(rate.withWatermark("timestamp", "1 second"))
    first, second, third = planned(both.groupBy(minute()).count())
    assert isinstance(third.source, Exchanged)
    assert third.source.senders == ((0, 1),)
    assert [w.delay_ms for p in (first, second) for w in p.steps if isinstance(w, Watermark)] == [
        10_000,
        1_000,
    ]
    apart = planned(timed.groupBy(minute()).count().union(timed.groupBy(minute()).count()))
    assert [each.exchange and each.exchange.stage for each in apart] == [2, 3, None, None]


@pytest.mark.parametrize(
    ("build", "mode", "text"),
    [
        (lambda df: df.groupBy("value").count(), "append", "without watermark"),
        (lambda df: df, "complete", "complete"),
        (lambda df: df.dropDuplicates(["value"]), "complete", "complete"),
        (lambda df: df.groupBy("value").agg(F.countDistinct("timestamp")), "update", "Distinct"),
        (lambda df: df.dropDuplicatesWithinWatermark(["value"]), "append", "without watermark"),
        (lambda df: df.join(df.toDF("t", "v"), F.expr("value > v")), "append", "by equalities"),
        (
            lambda df: df.join(df.toDF("t", "v"), F.expr("value = v"), "left"),
            "append",
            "watermark on the nullable side",
        ),
        (lambda df: df.groupBy("value").count().orderBy("value"), "complete", "Sort"),
    ],
)
def test_refusals(rate: DataFrame, build: Any, mode: str, text: str) -> None:
    assert text in problems_of(build(rate), mode)


def test_a_second_watermark_is_refused_with_state(timed: DataFrame) -> None:
    again = timed.selectExpr("timestamp + INTERVAL 1 SECOND AS t", "value").withWatermark(
        "t", "1 second"
    )
    assert "withWatermark" in problems_of(again.groupBy(F.window("t", "1 minute")).count())
    assert len(plan_query(again)) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.streaming.statefulOperator.allowMultiple", "false"),
        ("spark.sql.streaming.noDataMicroBatches.enabled", "false"),
    ],
)
def test_settings_that_are_not_honoured(
    spark: SparkSession, timed: DataFrame, key: str, value: str
) -> None:
    spark.conf.set(key, value)
    try:
        assert key in problems_of(timed.groupBy(minute()).count())
        plan_query(timed)
    finally:
        spark.conf.unset(key)
