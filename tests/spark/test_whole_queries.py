"""Whole queries in both engines over the same input; see :mod:`tests.spark.every_query`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.every_query import QUERIES, static_tables
from tests.spark.queries import assert_same_query
from tests.spark.since import since

pytestmark = pytest.mark.spark
_NEW = {"buckets of time": since("4.2", "buckets of time")}


@pytest.fixture(scope="module", autouse=True)
def _tables(spark: SparkSession) -> Iterator[None]:
    with static_tables(spark):
        yield


@pytest.mark.sampled(1 / 3)
@pytest.mark.parametrize("name", [pytest.param(name, marks=_NEW.get(name, ())) for name in QUERIES])
def test_as_in_spark(spark: SparkSession, name: str) -> None:
    table, query = QUERIES[name]
    assert assert_same_query(spark, table, query, rows=5)
