"""The whole queries in both engines, for the long run."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.errors import ContinuousError
from tests.spark.every_query import QUERIES, static_tables
from tests.spark.queries import assert_same_query

_ROWS = 5
"""In each batch."""


def compare_queries(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """The name of each query, and what differs: an empty text if nothing does."""
    with static_tables(spark):
        for name, (table, query) in QUERIES.items():
            try:
                assert_same_query(spark, table, query, rows=_ROWS)
            except (AssertionError, ContinuousError, PySparkException) as error:
                yield name, f"{type(error).__name__}: {error}"
            else:
                yield name, ""
