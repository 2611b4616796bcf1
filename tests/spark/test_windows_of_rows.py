"""``window`` and ``session_window`` without an aggregation: columns of each row, as in Spark."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import UnsupportedQueryError
from engine.plan.planner import plan_query
from tests.spark.queries import assert_same_query, stream_of

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
        "SELECT session_window, id FROM (SELECT session_window(ts, '1 month'), id FROM {source})",
        "SELECT id, session_window(ts, '49 hours 1 second') AS w FROM {source}",
        "SELECT id, ts + make_interval(1, -2, 0, 3, -30, 0, 5) AS t FROM {source}",
        "SELECT id, session_window(ts, '-1 second') FROM {source}",
        "SELECT id, session_window(CAST(ts AS TIMESTAMP_NTZ), '1 second') AS w FROM {source}",
        "SELECT id, window(ts, '10 minutes', '4 minutes') AS w FROM {source}",
    ],
)
def test_it_is_a_column_of_each_row(spark: SparkSession, text: str) -> None:
    for zone in ("UTC", "Europe/Berlin"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            assert_same_query(spark, TABLE, lambda df: spark.sql(text, source=df))
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_gap_that_depends_on_the_row_is_refused(spark: SparkSession) -> None:
    text = "SELECT session_window(ts, IF(n > 0, '1 hour', '2 hours')) FROM {source}"
    with pytest.raises(UnsupportedQueryError, match="the data type interval is not supported"):
        plan_query(spark.sql(text, source=stream_of(spark, TABLE.schema)))
