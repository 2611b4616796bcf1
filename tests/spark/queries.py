"""The same query in Spark (batch) and through our pipeline, over the same rows.

A query is a function from a DataFrame to a DataFrame. For Spark it gets the input as a table; for
us a stream of the same schema, whose plan then runs over the input in batches of a few rows.
Results are compared as multisets of rows: types by :func:`normalized`, values by :func:`same`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from engine.expressions.types import schema_to_spark
from engine.pipeline.pipeline import Pipeline
from engine.plan.planner import plan_query
from engine.task.transform import compile_steps
from tests.spark.values import normalized, plain_values, same

Query = Callable[[DataFrame], DataFrame]


class AnySchema(DataSource):
    """A stream that is only planned; its rows are handed in by the test."""

    @classmethod
    def name(cls) -> str:
        return "any_schema"

    def streamReader(self, schema: Any) -> Any:
        raise AssertionError("this stream is only planned, never read")


def stream_of(spark: SparkSession, schema: pa.Schema) -> DataFrame:
    """A streaming DataFrame with these columns."""
    spark.dataSource.register(AnySchema)
    struct = StructType.fromJson(schema_to_spark(schema))
    return spark.readStream.format("any_schema").schema(struct).load()


def table_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A DataFrame with these rows."""
    struct = StructType.fromJson(schema_to_spark(table.schema))
    return spark.createDataFrame(table, struct)


def ours(spark: SparkSession, table: pa.Table, query: Query, *, rows: int = 3) -> pa.Table:
    """What our pipeline makes of the rows, as one epoch in batches of ``rows``; the pipelines of a
    union one after the other."""
    pipelines = plan_query(query(stream_of(spark, table.schema)), exact_math=True)
    return pa.concat_tables(run(pipeline, table, rows=rows) for pipeline in pipelines)


def run(pipeline: Pipeline, table: pa.Table, *, rows: int = 3) -> pa.Table:
    """The pipeline over the rows, as one epoch in batches of ``rows``."""
    batches = table.combine_chunks().to_batches(max_chunksize=rows)
    results = list(compile_steps(pipeline).stream(iter(batches)))
    assert all(batch.num_rows for batch in results)
    return pa.Table.from_batches(results, pipeline.schema)


def assert_same_query(
    spark: SparkSession, table: pa.Table, query: Query, *, rows: int = 3
) -> list[dict[str, Any]]:
    """Compare both engines; returns our rows.

    :raises AssertionError: which lists the differences.
    """
    theirs = query(table_of(spark, table)).toArrow()
    mine = ours(spark, table, query, rows=rows)
    differences = compare_tables(theirs, mine)
    assert not differences, "\n".join(differences)
    result: list[dict[str, Any]] = mine.to_pylist()
    return result


def compare_tables(theirs: pa.Table, mine: pa.Table) -> list[str]:
    """The differences, one text each; the order of rows is none."""
    if theirs.schema.names != mine.schema.names:
        return [f"columns are {theirs.schema.names} in Spark, {mine.schema.names} here"]
    differences = [
        f"{name}: type is {left} in Spark, {right} here"
        for name, left, right in zip(
            mine.schema.names,
            map(normalized, theirs.schema.types),
            map(normalized, mine.schema.types),
            strict=True,
        )
        if left != right
    ]
    if differences:
        return differences
    left, right = _rows(theirs), _rows(mine)
    if len(left) != len(right):
        return [f"{len(left)} rows in Spark, {len(right)} here: {left[:5]} and {right[:5]}"]
    return [
        f"{a!r} in Spark, {b!r} here" for a, b in zip(left, right, strict=True) if not same(a, b)
    ]


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [_comparable(column) for column in table.columns]
    rows = list(zip(*columns, strict=True)) if columns else [()] * table.num_rows
    return sorted(rows, key=repr)


def _comparable(column: pa.ChunkedArray) -> list[Any]:
    values = plain_values(column)
    if pa.types.is_map(column.type):  # whose entries have no order
        return [None if value is None else sorted(value, key=repr) for value in values]
    return values
