"""Whole queries in both engines over the same input; see :mod:`tests.spark.whole_queries`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.function_queries import FUNCTIONS
from tests.spark.queries import assert_same_query, table_of
from tests.spark.whole_queries import COUNTRIES, INPUTS, PRODUCTS, RAW, SQL

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def _tables(spark: SparkSession) -> Iterator[None]:
    table_of(spark, PRODUCTS).createOrReplaceTempView("products")
    table_of(spark, COUNTRIES).createOrReplaceTempView("countries")
    yield
    spark.catalog.dropTempView("products")
    spark.catalog.dropTempView("countries")


@pytest.mark.parametrize("name", SQL)
def test_sql(spark: SparkSession, name: str) -> None:
    source, text = SQL[name]

    def query(df: DataFrame) -> DataFrame:
        df.createOrReplaceTempView("input_rows")
        return spark.sql(text)

    assert assert_same_query(spark, INPUTS[source], query, rows=5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(spark: SparkSession, name: str) -> None:
    assert assert_same_query(spark, RAW, FUNCTIONS[name], rows=5)
