"""All whole queries, in SQL and with Python functions, each with its input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.spark.function_queries import FUNCTIONS
from tests.spark.queries import Query, table_of
from tests.spark.whole_queries import COUNTRIES, INPUTS, PRODUCTS, RAW, SQL


def _from_sql(text: str) -> Query:
    def query(df: DataFrame) -> DataFrame:
        df.createOrReplaceTempView("input_rows")
        return df.sparkSession.sql(text)

    return query


QUERIES: Final[dict[str, tuple[pa.Table, Query]]] = {
    **{name: (INPUTS[source], _from_sql(text)) for name, (source, text) in SQL.items()},
    **{name: (RAW, query) for name, query in FUNCTIONS.items()},
}
"""Name → input and query. They need :func:`static_tables`."""


@contextmanager
def static_tables(spark: SparkSession) -> Iterator[None]:
    """The tables that the queries join with."""
    table_of(spark, PRODUCTS).createOrReplaceTempView("products")
    table_of(spark, COUNTRIES).createOrReplaceTempView("countries")
    yield
    spark.catalog.dropTempView("products")
    spark.catalog.dropTempView("countries")
