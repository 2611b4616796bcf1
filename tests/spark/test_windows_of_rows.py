"""``window`` and ``session_window`` without an aggregation: columns of each row, as in Spark."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.queries import assert_same_query

pytestmark = pytest.mark.spark

TABLE = pa.table(
    {
        "id": pa.array(range(5), pa.int64()),
        "ts": pa.array(
            [
                datetime(2026, 1, 1, 0, 0, 7, 5, timezone.utc),
                None,
                datetime(1969, 12, 31, 23, 59, 59, 999999, timezone.utc),
                datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc),
                datetime(1970, 1, 1, tzinfo=timezone.utc),
            ],
            pa.timestamp("us", "UTC"),
        ),
        "n": pa.array([5, 6, 0, None, -3], pa.int32()),
    }
)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, session_window(ts, '5 minutes') AS w FROM {source}",
        "SELECT session_window(ts, '1 day 3 seconds').end, n FROM {source} WHERE id > 1",
        "SELECT id FROM {source} WHERE session_window(ts, '5 minutes').start > '2000-01-01'",
        "SELECT id, session_window(ts, CASE WHEN n > 0 THEN '1 hour' ELSE '2 hours' END) FROM {source}",
        "SELECT session_window, id FROM (SELECT session_window(ts, '1 month'), id FROM {source})",
        "SELECT id, session_window(ts, CASE WHEN n > 0 THEN '9 seconds' END) FROM {source}",
        "SELECT id, session_window(ts, '-1 second') FROM {source}",
        "SELECT id, session_window(CAST(ts AS TIMESTAMP_NTZ), '1 second') AS w FROM {source}",
        "SELECT id, window(ts, '10 minutes', '4 minutes') AS w FROM {source}",
    ],
)
def test_it_is_a_column_of_each_row(spark: SparkSession, text: str) -> None:
    assert_same_query(spark, TABLE, lambda df: spark.sql(text, source=df))
