"""Joins of a stream with a table, as in Spark."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.errors import ConfigError, UnsupportedQueryError
from engine.pipeline.pipeline import StaticJoin
from engine.plan.planner import plan_query
from tests.spark.queries import assert_same_query, ours, stream_of, table_of

pytestmark = pytest.mark.spark

STREAM = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "k": pa.array([1, 2, None, 3, 2, 9, None, 1], pa.int32()),
        "s": pa.array(["a", "b", None, "ß", "", "zz", "a", None], pa.string()),
        "x": pa.array([0.0, -0.0, math.nan, None, 1.5, math.inf, -math.nan, 2.0], pa.float64()),
        "d": pa.array([Decimal("1.00"), None] * 4, pa.decimal128(5, 2)),
    }
)
TABLE = pa.table(
    {
        "k": pa.array([1, 1, 2, None, 4, 2], pa.int64()),
        "t": pa.array(["a", "a", "b", None, "x", ""], pa.string()),
        "y": pa.array([-0.0, math.nan, None, 1.5, 0.0, -math.inf], pa.float64()),
        "e": pa.array([Decimal("1.0")] * 3 + [None] * 3, pa.decimal128(4, 1)),
        "name": pa.array(["one", "eins", "two", "null", "four", None], pa.string()),
    }
)
CONDITIONS = [
    "l.k = r.k",
    "l.k <=> r.k",
    "l.k = r.k AND l.s = r.t",
    "l.k <=> r.k AND l.s <=> r.t",
    "l.x = r.y",
    "l.d = r.e",
    "l.k = r.k AND l.id > 2 AND length(r.name) > 3",
    "l.k + 1 = r.k AND r.name IS NOT NULL",
    "l.id < r.k",
    "upper(l.s) = upper(r.t) OR l.k = r.k",
]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return table_of(spark, TABLE)


@pytest.mark.parametrize("kind", ["inner", "left", "left_semi", "left_anti"])
def test_the_stream_on_the_left(spark: SparkSession, table: DataFrame, kind: str) -> None:
    for condition in CONDITIONS:
        assert_same_query(
            spark,
            STREAM,
            lambda df, on=condition: df.alias("l").join(table.alias("r"), F.expr(on), kind),
            rows=4,
        )


def test_the_stream_on_the_right(spark: SparkSession, table: DataFrame) -> None:
    for kind in ("inner", "right"):
        assert_same_query(
            spark,
            STREAM,
            lambda df, kind=kind: table.alias("r").join(df.alias("l"), F.expr(CONDITIONS[6]), kind),
        )


def test_using_and_hints_and_more_steps(spark: SparkSession, table: DataFrame) -> None:
    assert_same_query(
        spark,
        STREAM,
        lambda df: (
            df.where("id > 0")
            .join(F.broadcast(table.where("name != 'eins'")), ["k"], "left")
            .where("name IS NULL OR id < 7")
            .selectExpr("k", "concat(s, '-', name) AS both", "id * 2")
        ),
    )
    assert_same_query(spark, STREAM, lambda df: df.crossJoin(table.select("name")))
    assert_same_query(
        spark, STREAM, lambda df: df.join(table, "k").join(table.select("k", F.lit(1)), "k", "left")
    )


def test_a_table_without_rows(spark: SparkSession, table: DataFrame) -> None:
    nothing = table.where("k > 100")
    for kind in ("inner", "left", "left_semi", "left_anti"):
        assert_same_query(spark, STREAM, lambda df, kind=kind: df.join(nothing, "k", kind))


def test_the_table_has_a_limit(spark: SparkSession, table: DataFrame) -> None:
    df = stream_of(spark, STREAM.schema).join(table, "k")
    with pytest.raises(ConfigError, match="staticSideMaxBytes") as caught:
        plan_query(df, static_side_bytes_max=10)
    assert "6 rows" in str(caught.value)


def test_what_needs_the_end_of_the_stream_is_refused(spark: SparkSession, table: DataFrame) -> None:
    stream = stream_of(spark, STREAM.schema)
    for df in (
        table.join(stream, "k", "left"),
        stream.join(table, "k", "right"),
        stream.join(table, "k", "full"),
        table.join(stream, "k", "left_semi"),
    ):
        with pytest.raises(UnsupportedQueryError, match="let the stream be the side"):
            plan_query(df)


def test_a_key_of_the_table_that_is_the_present_time_is_not_frozen(
    spark: SparkSession, table: DataFrame
) -> None:
    on = "l.id = unix_seconds(current_timestamp()) + r.k AND r.k + length(current_date()) > 0"
    df = stream_of(spark, STREAM.schema).alias("l").join(table.alias("r"), F.expr(on))
    (step,) = (s for s in plan_query(df)[0].steps if isinstance(s, StaticJoin))
    assert (step.keys, step.table.num_rows) == ((), TABLE.num_rows)
    assert step.residual is not None
    assert "CurrentTimestamp" in {node.op for node in step.residual.walk()}


def test_a_directory_is_listed_again_whenever_it_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = str(tmp_path / "dims")
    spark.range(3).write.parquet(place)
    directory = spark.read.parquet(place)
    query: Callable[[DataFrame], DataFrame] = lambda df: df.join(directory, "id").select("id")  # noqa: E731
    assert ours(spark, STREAM, query)["id"].to_pylist() == [0, 1, 2]
    spark.range(3, 5).write.mode("append").parquet(place)
    assert ours(spark, STREAM, query)["id"].to_pylist() == [0, 1, 2, 3, 4]
    spark.range(5, 7).write.mode("overwrite").parquet(place)
    assert ours(spark, STREAM, query)["id"].to_pylist() == [5, 6]


def test_a_table_that_the_query_names(spark: SparkSession, table: DataFrame) -> None:
    table.createOrReplaceTempView("named_dims")
    text = """
        WITH big AS (SELECT * FROM named_dims WHERE k > 1),
             dims AS (SELECT b.k, b.name FROM big b JOIN big c ON b.k = c.k),
             events AS (SELECT * FROM {source} WHERE id < 7)
        SELECT id, dims.name, t FROM events
        JOIN dims ON events.k = dims.k JOIN big ON dims.k = big.k
    """
    assert_same_query(spark, STREAM, lambda df: spark.sql(text, source=df))


def test_conditions_on_one_side_guard_the_keys(spark: SparkSession, table: DataFrame) -> None:
    for kind in ("inner", "left_semi"):
        for on in ("l.id <> 0 AND 10 div l.id = r.k", "r.k <> 4 AND 8 div (r.k - 4) = l.id - 4"):
            assert_same_query(
                spark,
                STREAM,
                lambda df, on=on, kind=kind: df.alias("l").join(table.alias("r"), F.expr(on), kind),
            )
    on = "l.id > 0 AND r.k <> 4 AND l.id = 10 div (r.k - 4)"
    for kind in ("left", "left_anti"):
        assert_same_query(
            spark,
            STREAM,
            lambda df, kind=kind: df.alias("l").join(table.alias("r"), F.expr(on), kind),
        )


def test_a_struct_that_is_null_though_its_fields_never_are(
    spark: SparkSession, table: DataFrame
) -> None:
    text = """
        SELECT k, IF(k > 1, named_struct('a', k, 'b', array(named_struct('c', 1))), NULL) AS z
        FROM VALUES (0), (1), (2), (3) AS t(k)
    """
    dims = spark.sql(text).withColumn("z", F.col("z").withField("d", F.lit("x")))
    assert_same_query(
        spark,
        STREAM,
        lambda df: df.join(F.broadcast(dims), "k", "left").select("id", "z.d", "z.b.c", "z.a"),
    )
