"""The state of a query as a table of Spark's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.checkpoint.checkpoint import Checkpoint
from engine.query.registration import register
from tests.unit.test_state_retention import Query

pytestmark = pytest.mark.spark


@pytest.fixture
def query(tmp_path: Path) -> Query:
    """Has committed 10 epochs, in two tasks."""
    checkpoint = Checkpoint(str(tmp_path / "one"))
    checkpoint.create_or_read_query_id("query")
    query = Query(checkpoint)
    query.count(10)
    return query


def test_a_table_of_state(spark: SparkSession, query: Query) -> None:
    register(spark)
    reader = spark.read.format("continuous_state").option("path", query.checkpoint.url)
    table = reader.load()
    assert table.columns == ["key", "value", "key_group"]
    rows = table.selectExpr("key.word", "key.until", "value.count", "key_group").collect()
    assert {(row[0], row[1], row[2]) for row in rows} == {(str(n), None, 9 + n) for n in range(9)}
    assert table.rdd.getNumPartitions() == 2
    earlier = reader.option("epoch", 4).option("stage", 1).option("table", "counts").load()
    assert earlier.where("key.word = '3'").select("value.count").collect() == [(7,)]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("stage", "2", "Stage 2 of .* keeps no state"),
        ("table", "rows", "There are: stage 1, operator shelf, table counts"),
        ("epoch", "99", "Epoch 99 is not among"),
        ("epochs", "9", "has no option 'epochs'"),
    ],
)
def test_what_is_not_there(
    spark: SparkSession, query: Query, name: str, value: str, reason: str
) -> None:
    register(spark)
    reader = spark.read.format("continuous_state").option("path", query.checkpoint.url)
    with pytest.raises(Exception, match=reason):
        reader.option(name, value).load()
