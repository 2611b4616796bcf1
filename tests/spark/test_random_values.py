"""Random values with a seed: those of a batch of Spark with the same rows in the same partition."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.plan.planner import plan_query
from engine.task.transform import compile_steps
from tests.spark.queries import stream_of

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": pa.array(range(1_500), pa.int64())})
EXPRESSIONS = [
    "rand(42)",
    "rand(-7)",
    "rand(CAST(NULL AS INT))",
    "rand(40 + 2)",
    "random(9223372036854775807)",
    "randn(0)",
    "randn(123456789012)",
    "randstr(5, 3)",
    "randstr(0, 3)",
    "uniform(-10, 10, 5)",
    "uniform(0.0f, 1.5, 5)",
    "if(id % 3 = 0, rand(1), -1.0)",
    "CASE WHEN id % 5 = 0 THEN randn(1) WHEN id > 700 THEN rand(1) END",
    "coalesce(nullif(id % 2, 0), rand(8))",
    "rand(1) + rand(1)",
    "id % 2 = 0 AND rand(5) < 0.5",
    "transform(array(id, 2), v -> v + rand(3))",
    "shuffle(sequence(0, id % 40), 42)",
    "shuffle(array(id, id + 1, NULL, 7), -1)",
    "shuffle(array('a', cast(id AS STRING)), 9223372036854775807)",
    "shuffle(if(id % 3 = 0, NULL, array(1, 2, 3, 4, 5)), 0)",
    "if(id % 3 = 0, shuffle(array(1, 2, 3), 7), array(id))",
    "concat(shuffle(array(1, 2, 3), 7), shuffle(array(id, 2, 3), 7))",
]


ONCE = [
    "rand(5) BETWEEN 0.2 AND 0.4",
    "nullif(CAST(rand(5) * 5 AS INT), 2)",
    "nullif(rand(1) < 0.5, rand(2) < 0.5)",
    "CAST(rand(5) * 5 AS INT) IN (1, 3, id % 5)",
    "CAST(rand(5) * 5 AS INT) IN (1, 3)",
    "CASE CAST(rand(5) * 3 AS INT) WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END",
]
"""What is drawn stands there once, and is looked at twice."""


def parts_of(query: DataFrame) -> list[list[object]]:
    """The first column, by partition."""
    return [[row[0] for row in part] for part in query.rdd.glom().collect()]


def ours(stream: DataFrame, partition: int, rows: pa.Table) -> list[object]:
    """The first column of what a task makes of the rows, in batches of uneven lengths."""
    (pipeline,) = plan_query(stream)
    transform = compile_steps(pipeline, None, partition)
    cuts = [0, 1, 7, 300, 301, 400, rows.num_rows]
    batches = [
        batch
        for start, end in pairwise(cuts)
        for batch in rows.slice(start, end - start).combine_chunks().to_batches()
    ]
    return [value for batch in transform.stream(iter(batches)) for value in batch[0].to_pylist()]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_values(spark: SparkSession, text: str) -> None:
    assert_same_values(spark, text)


@pytest.mark.parametrize("text", ONCE)
def test_a_random_value_in_between_nullif_or_in_is_drawn_once(
    spark: SparkSession, text: str
) -> None:
    assert_same_values(spark, text)


def assert_same_values(spark: SparkSession, text: str) -> None:
    batch = spark.range(0, 3_000, 1, 2).selectExpr(text)
    stream = stream_of(spark, ROWS.schema).selectExpr(text)
    for partition, theirs in enumerate(parts_of(batch)):
        start = partition * 1_500
        rows = pa.table({"id": pa.array(range(start, start + 1_500), pa.int64())})
        assert ours(stream, partition, rows) == theirs


def test_the_seed_of_the_dataframe_api(spark: SparkSession) -> None:
    expression = F.randn()
    (theirs,) = parts_of(spark.range(0, 1_500, 1, 1).select(expression))
    assert ours(stream_of(spark, ROWS.schema).select(expression), 0, ROWS) == theirs


def test_only_rows_that_pass_a_filter_take_a_value(spark: SparkSession) -> None:
    def query(rows: DataFrame) -> DataFrame:
        return rows.where("id % 7 < 3").selectExpr("rand(4) AS r", "id").where("r < 0.5")

    (theirs,) = parts_of(query(spark.range(0, 1_500, 1, 1)))
    assert ours(query(stream_of(spark, ROWS.schema)), 0, ROWS) == theirs
