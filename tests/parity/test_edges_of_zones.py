"""Names of time zones, and what is nearly one: ``make test-spark-matrix`` runs this on each
release."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_ZONES = [
    *("UTC", "utc", "Z", "z", "GMT0", "UT", "UTC+1", "UTC+01:00", "UTC+1:30", "GMT+0800", "UT+1"),
    *("+1", "+1:2", "+0102", "+01:02:03", "+010203", "+18:00", "+18:01", "-18:00:00", "+19", "-0"),
    *("", "x", " UTC", "UTC ", "PST", "EST", "VST", "Etc/GMT+5", "GMT-14", "america/new_york"),
    *("UTC+18", "UTC-18:30", "\0", "UTC\0", "\uff11", "+\uff11", "+\u0661", "-0\u0661:00"),
]


def test_of_rows(spark: SparkSession) -> None:
    instants = [1_730_611_800_000_000] * len(_ZONES)
    table = {
        "z": _ZONES,
        "t": pa.array(instants, pa.timestamp("us", "UTC")),
        "n": pa.array(instants, pa.timestamp("us")),
    }
    texts = [
        *("from_utc_timestamp(t, z)", "to_utc_timestamp(t, z)", "convert_timezone(z, 'UTC', n)"),
        *("make_timestamp(2020, 7, 1, 0, 0, 0, z)", "try_make_timestamp(2020, 7, 1, 0, 0, 0, z)"),
        *("try_cast('2020-07-01 10:11:12' || z AS TIMESTAMP)", "convert_timezone('UTC', z, n)"),
        *("CAST('2020-07-01 10:11:12' || z AS TIMESTAMP_NTZ)", "from_csv('10:11' || z, 'a DATE')"),
        "from_json('[\"2020-07-01 10:11:12' || z || '\"]', 'ARRAY<TIMESTAMP>')",
    ]
    assert_parity(spark, pa.table(table), texts, timezone="America/New_York")
