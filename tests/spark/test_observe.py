"""``df.observe``: the metrics of the rows that pass, as Spark has them."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from engine import write_stream
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import TransformError, UnsupportedQueryError
from engine.execution.observed import observed_metrics
from engine.plan.planner import plan_query
from engine.progress.counters import EpochCounters
from engine.query.handle import ContinuousQuery
from engine.task.transform import compile_steps
from engine.wire.messages import EpochCommitMessage
from tests.spark.queries import stream_of, table_of
from tests.spark.rates import await_read
from tests.spark.values import same

pytestmark = pytest.mark.spark

TABLE = pa.table(
    {
        "id": pa.array(range(7), pa.int64()),
        "b": pa.array([1, -2, None, 127, -128, 5, 5], pa.int8()),
        "n": pa.array([2**62, -(2**62), 2**62 - 1, None, 3, -7, 1], pa.int64()),
        "x": pa.array([0.1, 0.2, 0.3, None, -0.0, 1e16, 1.0], pa.float64()),
        "f": pa.array([0.1, math.nan, None, -math.inf, 2.5, 1.0, -0.0], pa.float32()),
        "s": pa.array(["b", None, "", "ß", "a", "zz", "😀"], pa.string()),
        "d": pa.array([Decimal("1.25"), None, Decimal("-0.01")] * 2 + [Decimal("999.99")],
                      pa.decimal128(5, 2)),
        "w": pa.array([Decimal(10**37), Decimal(10**37), Decimal(7), None] + [Decimal(-1)] * 3,
                      pa.decimal128(38, 0)),
        "ok": pa.array([True, False, None, True, True, False, None], pa.bool_()),
        "day": pa.array([date(2026, 3, 4), None, date(1969, 1, 1)] * 2 + [None], pa.date32()),
        "ts": pa.array([datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc), None] * 3 + [None],
                       pa.timestamp("us", "UTC")),
        "raw": pa.array([b"\x00\xff", None, b"", b"a", b"b", b"\x7f", b"ab"], pa.binary()),
    }
)  # fmt: skip


def metrics(*texts: str) -> list[Column]:
    return [F.expr(text).alias(f"m{index}") for index, text in enumerate(texts)]


def ours(
    spark: SparkSession,
    table: pa.Table,
    query: Callable[[DataFrame], DataFrame],
    tasks: int = 1,
    rows: int = 3,
) -> dict[str, dict[str, Any]]:
    """What an epoch of so many tasks tells."""
    pipelines = plan_query(query(stream_of(spark, table.schema)))
    told = []
    for pipeline in pipelines:
        counters = []
        size = -(-table.num_rows // tasks)
        for start in range(0, max(table.num_rows, 1), max(size, 1)):
            transform = compile_steps(pipeline)
            batches = table.slice(start, size).combine_chunks().to_batches(max_chunksize=rows)
            for _ in transform.stream(iter(batches)):
                pass
            counters.append(report(transform.observed()))
        told.append(counters)
    return observed_metrics(pipelines, told)


def report(observed: dict[str, Any]) -> EpochCommitMessage:
    return EpochCommitMessage("r", 0, 0, (), None, EpochCounters(observed=observed))


def theirs(
    spark: SparkSession, table: pa.Table, query: Callable[[DataFrame, Any], DataFrame]
) -> dict[str, Any]:
    observation = Observation("told")
    query(table_of(spark, table).coalesce(1), observation).collect()
    return observation.get


def plain(value: Any) -> Any:
    """As a progress report tells a value."""
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, (Decimal, date)) and not isinstance(value, datetime):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0")
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


FUNCTIONS = (
    *("count(1)", "count(*)", "count(s)", "count(b, s)", "count_if(id > 2)", "count_if(ok)"),
    *("sum(b)", "sum(id)", "sum(n)", "sum(d)", "sum(w)", "try_sum(w)", "sum(x)", "sum(f)"),
    *("avg(b)", "avg(id)", "avg(x)", "avg(d)", "mean(d * 3)", "avg(f)"),
    *("min(b)", "max(n)", "min(x)", "max(x)", "min(f)", "max(f)", "min(s)", "max(s)"),
    *("min(d)", "max(w)", "min(ok)", "max(ok)", "min(day)", "max(day)", "max(ts)", "min(raw)"),
    *("bool_and(ok)", "bool_or(id = 3)", "every(id >= 0)", "some(ok)"),
    *("sum(b) + 1", "sum(id) / count(s)", "coalesce(max(s), 'none')", "max(id) - min(id)"),
    *("7", "upper('a')", "sum(length(s) * 2)", "max(if(ok, id, -id))"),
)


@pytest.mark.parametrize("rows", [0, 7])
def test_each_function_as_in_spark(spark: SparkSession, rows: int) -> None:
    table = TABLE.slice(0, rows)
    wanted = theirs(spark, table, lambda df, o: df.observe(o, *metrics(*FUNCTIONS)))
    assert len(wanted) == len(FUNCTIONS)
    for size in (2, 7):
        query = lambda df: df.observe("told", *metrics(*FUNCTIONS))  # noqa: E731
        told = ours(spark, table, query, rows=size)["told"]
        for index, text in enumerate(FUNCTIONS):
            expected = plain(wanted[f"m{index}"])
            assert same(expected, told[f"m{index}"]), (text, expected, told[f"m{index}"])


def test_several_tasks_are_merged(spark: SparkSession) -> None:
    texts = [text for text in FUNCTIONS if "x)" not in text and "f)" not in text]
    query = lambda df: df.observe("told", *metrics(*texts))  # noqa: E731
    for tasks in (2, 3, 7):
        assert ours(spark, TABLE, query, tasks) == ours(spark, TABLE, query), tasks


def test_where_rows_pass_is_where_they_count(spark: SparkSession) -> None:
    def query(df: DataFrame) -> DataFrame:
        before = df.observe("all", F.count("*").alias("n"), F.max("id").alias("last"))
        behind = before.where("id > 3").select("id").observe("some", F.sum("id").alias("total"))
        exploded = behind.selectExpr("id", "explode(array(1, 2)) AS c")
        return exploded.where("c > 5").observe("none", F.count("*").alias("n"))

    assert ours(spark, TABLE, query) == {
        "all": {"n": 7, "last": 6},
        "some": {"total": 15},
        "none": {"n": 0},
    }


def test_behind_a_union_it_is_of_all_streams(spark: SparkSession) -> None:
    def query(df: DataFrame) -> DataFrame:
        left = df.select("id").observe("left", F.count("*").alias("n"))
        right = df.selectExpr("id + 10 AS id").where("id > 12")
        return left.union(right).observe("both", F.count("*").alias("n"), F.max("id").alias("m"))

    assert ours(spark, TABLE, query) == {"left": {"n": 7}, "both": {"n": 11, "m": 16}}


def test_a_python_function_inside(spark: SparkSession) -> None:
    double = F.udf(lambda n: n * 2, "long")
    query = lambda df: df.observe("told", F.sum(double("id")).alias("m")).select("s")  # noqa: E731
    assert ours(spark, TABLE, query) == {"told": {"m": 42}}


def test_a_sum_that_is_too_large_fails(spark: SparkSession) -> None:
    table = pa.table({"n": pa.array([2**63 - 1, 1], pa.int64())})
    query = lambda df: df.observe("told", F.sum("n").alias("m"))  # noqa: E731
    with pytest.raises(TransformError, match="ARITHMETIC_OVERFLOW"):
        ours(spark, table, query)
    tried = lambda df: df.observe("told", F.try_sum("n").alias("m"))  # noqa: E731
    assert ours(spark, table, tried) == {"told": {"m": None}}
    mean = lambda df: df.observe("told", F.avg("w").alias("m"))  # noqa: E731
    with pytest.raises(TransformError, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        ours(spark, TABLE, mean)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert ours(spark, table, query) == {"told": {"m": -(2**63)}}
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_other_functions_are_refused_by_name(spark: SparkSession) -> None:
    stream = stream_of(spark, TABLE.schema)
    for column, name in (
        (F.stddev("x"), "StddevSamp"),
        (F.approx_count_distinct("id"), "HyperLogLogPlusPlus"),
        (F.collect_list("id"), "CollectList"),
        (F.max(F.struct("id")), "max of this type"),
    ):
        with pytest.raises(UnsupportedQueryError, match=name):
            plan_query(stream.observe("told", column.alias("m"), F.count("*").alias("n")))


def test_the_progress_of_a_query_tells_them(spark: SparkSession, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate").option("rowsPerSecond", 200)
    df = rate.option("numPartitions", 2).load()
    observed = df.observe(
        "rows",
        F.count("*").alias("n"),
        F.max("value").alias("last"),
        F.avg("value").alias("mean"),
        F.sum(F.expr("CAST('NaN' AS DOUBLE)")).alias("none"),
    )
    query = (
        write_stream(observed)
        .format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(continuous="100 milliseconds")
        .start()
    )
    try:
        assert isinstance(query, ContinuousQuery)
        query.awaitEpoch(2, 60)
        await_read(query, 1)
    finally:
        query.stop()
    reports = query.recentProgress
    assert len(reports) > 2
    for report in reports:
        row = report["observedMetrics"]["rows"]
        assert row["n"] == report["numInputRows"]
    assert max(report["observedMetrics"]["rows"]["last"] or 0 for report in reports) > 0
    saved = Checkpoint(str(tmp_path / "checkpoint")).progress.read()
    assert [report["batchId"] for report in saved] == [report["batchId"] for report in reports]
    assert "NaN" in {report["observedMetrics"]["rows"]["none"] for report in saved}
