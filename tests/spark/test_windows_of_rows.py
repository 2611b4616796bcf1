"""``window`` and ``session_window`` without an aggregation: columns of each row, as in Spark."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import UnsupportedQueryError
from engine.expressions.types import TIMESTAMP
from engine.plan.planner import plan_query
from tests.spark.queries import assert_same_query, stream_of
from tests.unit.test_calendar_texts import TEXTS

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
        "SELECT id, session_window(ts, IF(n > 0, '1 hour', '2 hours')) AS w FROM {source}",
        "SELECT id, session_window(ts, CASE WHEN n > 5 THEN '1 month 1 day' WHEN n = 5 THEN 'oops'"
        " WHEN n = 0 THEN '-1 second' END) AS w FROM {source}",
        "SELECT id, session_window(ts, concat(n, ' days ', n, '.5 seconds')) AS w FROM {source}",
        "SELECT id, session_window(ts, coalesce(make_interval(0, n, 0, n), make_interval(1))) AS w"
        " FROM {source}",
        "SELECT id, session_window(ts, IF(10 / n > 1, '1 hour', string(n))) FROM {source}"
        " WHERE n <> 0",
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


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_text_is_the_interval_that_spark_reads(spark: SparkSession, ansi: str) -> None:
    texts = [text for text, interval in TEXTS if interval is None or max(interval) < 2**31 - 1]
    times = pa.array([datetime(2026, 3, 29, tzinfo=timezone.utc)] * len(texts), TIMESTAMP)
    table = pa.table({"text": texts, "ts": times})
    query = "SELECT text, ts + CAST(text AS INTERVAL) AS t FROM {source}"
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        assert_same_query(spark, table, lambda df: spark.sql(query, source=df))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_a_gap_of_no_known_kind_is_refused(spark: SparkSession) -> None:
    text = "SELECT session_window(ts, make_interval(0, n) * 2) FROM {source}"
    with pytest.raises(UnsupportedQueryError, match="the data type interval is not supported"):
        plan_query(spark.sql(text, source=stream_of(spark, TABLE.schema)))
