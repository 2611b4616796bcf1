"""Dates and times are Spark's: in zones with gaps and overlaps, and in years far away."""

from __future__ import annotations

import datetime
import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import TransformError
from engine.expressions.compile import compile_expression
from engine.expressions.registry import Context
from engine.expressions.row_context import Rows
from engine.expressions.types import TIMESTAMP, TIMESTAMP_NTZ
from tests.spark.edges import table
from tests.spark.expressions import assert_parity, frame_of, read_each, read_expressions
from tests.spark.since import since

pytestmark = pytest.mark.spark

_ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = 86_400_000_000

_MOMENTS = [
    "1970-01-01T00:00:00", "2020-02-29T12:34:56.789012", "2000-12-31T23:00:00",
    # Around the changes of clocks in Berlin, New York and on Lord Howe.
    "2024-03-31T00:59:59.999999", "2024-03-31T01:00:00", "2024-03-31T01:30:00",
    "2024-10-27T00:30:00", "2024-10-27T01:00:00", "2024-10-27T01:30:00.5", "2024-03-10T06:59:59",
    "2024-03-10T07:30:00", "2024-11-03T05:30:00", "2024-11-03T06:30:00", "2024-04-06T14:59:00",
    "2024-04-06T15:10:00", "2024-10-05T15:20:00", "2024-10-05T15:30:00",
    # Around the ends of local mean time, and before.
    "1883-11-18T17:00:00", "1893-03-31T23:06:32", "1893-03-31T22:00:00", "1900-01-01T00:00:00",
    "1899-12-31T23:59:59.123456", "1916-05-01T00:00:00", "1945-05-24T02:00:00",
    "1582-10-04T00:00:00", "1582-10-15T00:00:00", "1500-02-28T23:59:59.999999",
    "0001-01-01T00:00:00", "0001-03-01T12:00:00",
    "1969-12-31T23:59:59.999999", "1999-01-31T00:00:00", "2023-01-31T22:59:59.9",
    "2038-01-19T03:14:08", "2100-03-28T01:30:00", "2500-10-31T00:30:00", "1981-03-01T02:00:00",
    "9999-06-15T00:00:00", "9999-12-31T23:59:59.999999",
]  # fmt: skip


def _micros(text: str) -> int:
    return (datetime.datetime.fromisoformat(text) - _EPOCH) // datetime.timedelta(microseconds=1)


def _table() -> pa.Table:
    rng = random.Random(9)
    low, high = _micros("0001-01-02T00:00:00"), _micros("9999-12-30T00:00:00")
    recent = _micros("1880-01-01T00:00:00"), _micros("2050-01-01T00:00:00")
    first = [_micros(text) for text in _MOMENTS]
    first += [rng.randrange(low, high) for _ in range(15)]
    first += [rng.randrange(*recent) for _ in range(25)]
    near = [min(max(moment + rng.randrange(-(10**13), 10**13), low), high) for moment in first]
    second = [rng.choice([rng.choice(first), close]) for close in near]
    rows = len(first) + 1

    def picked(values: list[int | None], dtype: pa.DataType) -> pa.Array:
        return pa.array([rng.choice(values) for _ in range(rows)], dtype)

    def timestamps(values: list[int]) -> pa.Array:
        return pa.array([*values, None], pa.int64())

    def dates(values: list[int]) -> pa.Array:
        return pa.array([*(value // _DAY for value in values), None], pa.int32()).view(pa.date32())

    return pa.table(
        {
            "ts": timestamps(first).view(TIMESTAMP),
            "ts2": timestamps(second).view(TIMESTAMP),
            "ntz": timestamps(first).view(TIMESTAMP_NTZ),
            "ntz2": timestamps(second).view(TIMESTAMP_NTZ),
            "dt": dates(first),
            "dt2": dates(second),
            "i": picked([0, 1, -1, 2, 11, 12, 13, -12, 30, 365, -366, 1000, None], pa.int32()),
            "sh": picked([0, 1, -1, 300, None], pa.int16()),
            "l": picked([0, 1, -1, 25, -25, 86400, -86400, 1234567890, None], pa.int64()),
        }
    )


_FIELDS = [
    "year(dt)", "quarter(dt)", "month(dt)", "day(dt)", "dayofmonth(ts)", "dayofweek(dt)",
    "weekday(dt)", "dayofyear(dt)", "weekofyear(dt)", "year(ts)", "month(ts)", "weekofyear(ntz)",
    "hour(ts)", "minute(ts)", "second(ts)", "hour(ntz)", "minute(ntz)", "second(ntz)",
    "monthname(dt)", "dayname(dt)", "extract(second from ts)", "extract(second from ntz)",
    "extract(yearofweek from dt)", "extract(dow from dt)", "extract(dow_iso from dt)",
    "extract(year from ts)", "extract(doy from dt)", "date_part('hour', ts)", "last_day(dt)",
    "last_day(ts)", "unix_date(dt)", "unix_seconds(ts)", "unix_millis(ts)", "unix_micros(ts)",
    "date_from_unix_date(i)", "unix_timestamp(ts)", "to_unix_timestamp(ntz)", "unix_timestamp(dt)",
    "current_timezone()",
]  # fmt: skip
_ARITHMETIC = [
    "date_add(dt, i)", "date_add(dt, sh)", "date_sub(dt, i)", "dt + 1", "dt - 1",
    "datediff(dt, dt2)", "datediff(ts, ts2)", "add_months(dt, i)", "add_months(ts, 1)",
    "next_day(dt, 'Fri')", "months_between(ts, ts2)", "months_between(ts, ts2, false)",
    "months_between(dt, dt2)", "ts + interval 1 hour", "ts + interval 25 hour",
    "ts - interval 1 day", "ts + interval '1 02:03:04.5' day to second", "ts + interval -1 second",
    "ntz + interval 1 day", "dt + interval 1 day", "dt - interval 2 day", "dt + interval 1 hour",
    "ts + interval 1 month", "ts - interval 1 month", "ntz + interval 1 year",
    "ntz - interval 14 month", "dt + interval 1 month", "dt - interval 13 month", "ts - ts2",
    "ntz - ntz2", "dt - dt2", "ts - dt", "extract(day from ts - ts2)",
    "extract(hour from ts - ts2)", "extract(minute from ts - ts2)",
    "extract(second from ts - ts2)",
]  # fmt: skip
_MADE = [
    "make_date(2020, 2, 29)", "make_timestamp(2020, 2, 29, 12, 34, 56.789)",
    "make_timestamp(2024, 3, 31, 2, 30, 60)", "make_timestamp(2024, 10, 27, 2, 30, 0)",
    "make_timestamp(2024, 3, 31, 2, 30, 0, 'CET')", "make_timestamp_ntz(2024, 3, 31, 2, 30, 0)",
    "make_timestamp_ltz(2024, 3, 31, 2, 30, 0)", "timestamp_seconds(l)", "timestamp_millis(l)",
    "timestamp_micros(l)", "timestamp_seconds(l / 7)", "timestamp_seconds(1.000001)",
    "timestamp_seconds(double('NaN'))", "timestamp_seconds(float(i))",
    "from_utc_timestamp(ts, 'America/New_York')", "from_utc_timestamp(ts, '+05:30')",
    "to_utc_timestamp(ts, 'Europe/Berlin')", "to_utc_timestamp(ts, 'PST')",
    "from_utc_timestamp(ts, 'Australia/Lord_Howe')", "to_utc_timestamp(ts, 'Australia/Lord_Howe')",
]  # fmt: skip
_UNITS = [
    "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR",
    "DAY", "WEEK", "MONTH", "QUARTER", "YEAR",
]  # fmt: skip
_LETTERS = {"y": 6, "M": 4, "L": 4, "d": 2, "D": 3, "Q": 4, "q": 2, "E": 4, "a": 1, "S": 9} | {
    **dict.fromkeys("HhKkms", 2),
    **dict.fromkeys("XxZ", 3),
}
_TRUNCATED = [
    *(f"date_trunc('{unit}', ts)" for unit in _UNITS),
    *(f"trunc(dt, '{unit}')" for unit in ("year", "YY", "mm", "quarter", "week", "day", "xx")),
    "date_trunc('dd', ts)", "date_trunc('bad', ts)", "date_trunc('hour', ntz)",
    "date_trunc('week', dt)", "date_trunc(null, ts)", "trunc(dt, null)", "trunc(ts, 'MON')",
]  # fmt: skip
_BY_UNIT = [
    *(f"timestampadd({unit}, sh, ts)" for unit in _UNITS),
    *(f"timestampadd({unit}, l, ts)" for unit in _UNITS[:5] if unit != "HOUR"),
    *(f"timestampdiff({unit}, ts, ts2)" for unit in _UNITS),
    "timestampdiff(DAY, ntz, ntz2)", "timestampadd(DAY, 1, ntz)", "timestampadd(HOUR, 1, dt)",
    "timestampdiff(MONTH, dt, dt2)",
]  # fmt: skip
_PRINTED = [
    *(letter * count for letter, most in _LETTERS.items() for count in range(1, most + 1)), "VV",
    "yyyy-MM-dd HH:mm:ss", r"yyyy-MM-dd\'T\'HH:mm:ss.SSSXXX", r"\'quo\'\'te\' yyyy", "[yyyy]",
    "MMM d, yyyy h:mm a", "%d yyyy%", "yyyyMMddHHmmss", "EEEE, d MMMM yyyy",
]  # fmt: skip


@pytest.mark.parametrize("zone", _ZONES)
def test_fields_and_arithmetic(spark: SparkSession, zone: str) -> None:
    table = _table()
    expressions = _FIELDS + _ARITHMETIC + _MADE + _TRUNCATED + _BY_UNIT
    assert_parity(spark, table, expressions, ansi=[zone == "UTC"], timezone=zone)


@pytest.mark.parametrize("zone", _ZONES[:3])
def test_printing(spark: SparkSession, zone: str) -> None:
    expressions = [f"date_format(ts, '{pattern}')" for pattern in _PRINTED]
    expressions += ["date_format(dt, 'yyyy/MM/dd')", "date_format(ntz, 'HH:mm')"]
    expressions += ["date_format(ts, null)", "from_unixtime(l)", "from_unixtime(l, 'yyyy HH')"]
    assert_parity(spark, _table(), expressions, ansi=[True], timezone=zone)


_WRITTEN = [
    "2020-02-29 12:34:56", "2019-02-29 12:34:56", "2020-1-1 1:2:3", "2020-01-01", "2020-13-01",
    "0000-01-01 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "+10000-01-01 00:00:00",
    "+9999-01-01 00:00:00", "10000-01-01 00:00:00", "-0001-01-01 00:00:00", "-0000-01-01",
    "2024-03-31 02:30:00", "2024-10-27 02:30:00", "1893-04-01 00:05:00", "2020-01-01 24:00:00",
    "2020-01-01 23:60:00", " 2020-01-01 00:00:00", "2020-01-01 00:00:00 ", "2020-01-01T00:00:00",
    "20200101", "20200101123456", "120200101", "2020-01-01 12:34:56.1",
    "2020-01-01 12:34:56.123456", "2020-01-01 12:34:56.123456789", "01/02/2020", "1/2/2020",
    "jan 5, 2020", "Jan 05, 2020", "JANUARY 5, 2020", "12:34", "1:2", "12:34 PM", "12:34 am",
    "00:34 AM", "13:00 PM", "2020-01-01T12:34:56Z", "2020-01-01t12:34:56+01:00",
    "2020-01-01T12:34:56-18:00", "2020-01-01T12:34:56+18:01", "2020-01-01T12:34:56+0100",
    "2020-01-01T12:34:56+01", "20", "2020", "02020", "99", "123456", "-5", "-0", "", None,
    "１２34-01-01 00:00:00", "2020-01", "2020-00-10", "2020-01-00", "1969-12-31 23:59:59.5",
    "2020-06-15 12", "5", "12", "24", "0", "31", "2020-01-01 00:00:00\n",
]  # fmt: skip
_PARSED = [
    "yyyy-MM-dd HH:mm:ss", "yyyy-M-d H:m:s", "yyyy-MM-dd", "yyyyMMdd", "yyyyMMddHHmmss",
    "yyyy-MM-dd HH:mm:ss.S", "yyyy-MM-dd HH:mm:ss.SSSSSS", "yyyy-MM-dd HH:mm:ss.SSSSSSSSS",
    "dd/MM/yyyy", "d/M/yyyy", "MMM d, yyyy", "MMM dd, yyyy", "MMMM d, yyyy", "HH:mm", "H:m",
    "hh:mm a", "KK:mm a", "hh:mm", r"yyyy-MM-dd\'T\'HH:mm:ssXXX", r"yyyy-MM-dd\'T\'HH:mm:ssXX",
    r"yyyy-MM-dd\'T\'HH:mm:ssX", r"yyyy-MM-dd\'T\'HH:mm:ssxxx", r"yyyy-MM-dd\'T\'HH:mm:ssZ",
    "yyyy", "yy", "y", "MM", "d", "H", "kk", "yyyy-MM", "yyyy-MM-dd[ HH:mm:ss]",
    "yyyy-MM-dd[ HH:mm:ss[.SSS]]", "yyyy-MM-dd HH",
]  # fmt: skip


def test_parsing(spark: SparkSession) -> None:
    functions = ["to_timestamp", "to_date", "unix_timestamp", "to_timestamp_ntz"]
    expressions = [f"{name}(s, '{pattern}')" for pattern in _PARSED for name in functions]
    expressions += ["try_to_timestamp(s, 'yyyy-MM-dd')", "to_timestamp(s, null)"]
    table = pa.table({"s": _WRITTEN})
    assert_parity(spark, table, expressions, ansi=[False], timezone="Europe/Berlin")


def test_parsing_that_fails(spark: SparkSession) -> None:
    expressions = ["to_timestamp(s, 'yyyy-MM-dd')", "to_date(s, 'yyyyMMdd')"]
    expressions += ["try_to_timestamp(s, 'yyyy-MM-dd')", "to_timestamp(s, 'y')"]
    assert_parity(spark, pa.table({"s": _WRITTEN}), expressions, ansi=[True])


def test_out_of_range(spark: SparkSession) -> None:
    longs = [2**62, 10**17, -(10**17), 3 * 10**9, 2**31, 1, None, 0]
    table = pa.table(
        {
            "l": pa.array(longs, pa.int64()),
            "i": pa.array(
                [2**31 - 1, -(2**31), 5 * 10**6, -(5 * 10**6), 0, 13, None, 6 * 10**6], pa.int32()
            ),
            "ts": pa.array([0, 1, -1, 10**17, 0, 0, None, 0], pa.int64()).view(TIMESTAMP),
            "s": ["a", "Mon", "xx", "tu ", "", "SUNDAY", None, ""],
        }
    )
    expressions = [
        "timestamp_seconds(l)", "timestamp_millis(l)", "timestamp_micros(l)",
        "timestamp_seconds(1.0000001 * i)",
        "timestamp_seconds(if(i = 13, 0.9999999999999999999999999999999999999BD, 1))",
        "timestampadd(SECOND, l, ts)", "timestampadd(HOUR, l, ts)",
        "timestampadd(DAY, i, ts)", "timestampadd(MONTH, i, ts)",
        "timestampadd(MONTH, l, ts)", "timestampadd(YEAR, l, ts)",
        "add_months(date'2020-01-31', i)", "date_add(date'2020-01-31', i)", "make_date(i, 1, 31)",
        "make_date(2020, i, 1)", "make_date(2020, 2, i)", "make_timestamp(i, 1, 1, 0, 0, 0)",
        "make_timestamp(2020, 1, 1, i, 0, 0)", "make_timestamp(2020, 1, 1, 1, 1, 60.5)",
        "make_timestamp(2020, 1, 1, 1, 1, 61)", "make_timestamp(2020, 1, 1, 1, 1, -1)",
        "next_day(date'2020-01-01', s)", "year(date_from_unix_date(i))",
        "weekofyear(date_from_unix_date(i))", "dayofyear(date_from_unix_date(i))",
        "last_day(date_from_unix_date(i))", "trunc(date_from_unix_date(i), 'year')",
        "year(timestamp_micros(l))", "date'2020-01-31' + abs(interval '1' month * i)",
    ]  # fmt: skip
    assert_parity(spark, table, expressions, timezone="Europe/Berlin")


def _ends_of_all_timestamps() -> pa.Table:
    hour, low, high = 3_600_000_000, -(2**63), 2**63 - 1
    instants = [low, low + hour, low + _DAY, 0, high - _DAY, high - hour, high]
    return pa.table(
        {
            "ts": pa.array(instants, pa.int64()).view(TIMESTAMP),
            "ntz": pa.array(instants, pa.int64()).view(TIMESTAMP_NTZ),
            "z": ["Asia/Tokyo", "America/New_York"] * 3 + ["UTC"],
        }
    )


@since("4.2", "buckets of time")
def test_buckets_at_the_ends_of_all_timestamps(spark: SparkSession) -> None:
    expressions = [
        "time_bucket(INTERVAL 7 DAY, ts)",
        "time_bucket(INTERVAL 5 HOUR, ts)",
        "time_bucket(INTERVAL 7 MONTH, ts)",
        "greatest(time_bucket(INTERVAL 7 DAY, timestamp_micros(hour(ts))), ts + INTERVAL 1 DAY)",
    ]
    table = _ends_of_all_timestamps()
    assert_parity(spark, table, expressions, ansi=[True], timezone="America/New_York")


def test_the_ends_of_all_timestamps(spark: SparkSession) -> None:
    """Where local times, or the instants that they mean, do not fit into 64 bits."""
    table = _ends_of_all_timestamps()
    expressions = [
        "hour(ts)", "extract(SECOND FROM ts)", "CAST(ts AS DATE)", "CAST(ts AS STRING)",
        "CAST(ts AS TIMESTAMP_NTZ)", "CAST(ntz AS TIMESTAMP)", "try_cast(ts AS TIMESTAMP_NTZ)",
        "try_cast(array(ntz, ts) AS ARRAY<TIMESTAMP>)",
        "date_format(ts, 'y-MM-dd HH:mm')",
        "date_trunc('HOUR', ts)", "date_trunc('DAY', ts)", "date_trunc('YEAR', ts)",
        "date_trunc('SECOND', ts)", "date_trunc('MILLISECOND', ts)",
        "months_between(ts, timestamp'2020-01-02')",
        "from_utc_timestamp(ts, z)", "to_utc_timestamp(ts, z)", "ts + INTERVAL 1 DAY",
        "ts - INTERVAL 1 HOUR", "ts + INTERVAL '1' MONTH", "ts - timestamp'2020-01-01'",
        "timestampdiff(HOUR, ts, timestamp'2020-01-01')",
        "timestampdiff(MICROSECOND, ts, timestamp'2020-01-01')",
        "convert_timezone(z, 'Europe/Berlin', ntz)", "CAST(CAST(ts AS STRING) AS TIMESTAMP)",
    ]  # fmt: skip
    assert_parity(spark, table, expressions, ansi=[True], timezone="America/New_York")


def test_the_ends_of_all_dates(spark: SparkSession) -> None:
    """Where Spark's weekdays wrap around in 32 bits."""
    low, high = -(2**31), 2**31 - 1
    days = [low, low + 1, low + 3, low + 7, low + 40, 0, high - 40, high - 7, high - 1, high]
    table = pa.table({"d": pa.array(days, pa.int32()).view(pa.date32())})
    expressions = [
        "next_day(d, 'MO')", "next_day(d, 'TH')", "trunc(d, 'WEEK')", "trunc(d, 'MONTH')",
        "trunc(d, 'QUARTER')", "trunc(d, 'YEAR')", "last_day(d)", "d - date'1970-01-01'",
        "CAST(d AS TIMESTAMP)", "try_cast(d AS TIMESTAMP)", "try_cast(d AS TIMESTAMP_NTZ)",
        "CAST(d AS TIMESTAMP_NTZ)",
    ]  # fmt: skip
    assert_parity(spark, table, expressions, ansi=[True])


@pytest.mark.parametrize(
    "expression",
    [
        "date_format(ts, 'GGGGG yyyy')",
        "to_timestamp(s, 'yyyy[-MM]-dd')",
        "to_timestamp(s, 'z')",
        "date_trunc(s, ts)",
        "from_utc_timestamp(ts, 'Nowhere')",
        "to_utc_timestamp(ts, concat())",
    ],
)
def test_refused(spark: SparkSession, expression: str) -> None:
    table = pa.table({"s": ["x"], "ts": pa.array([0], pa.int64()).view(TIMESTAMP)})
    with pytest.raises(AssertionError, match="unsupported: the expression"):
        assert_parity(spark, table, [expression], ansi=[True])


def test_casts_between_intervals(spark: SparkSession) -> None:
    """Arrow has one type for INTERVAL DAY and INTERVAL DAY TO SECOND: only what keeps the value."""
    frame = spark.createDataFrame([(1,)], "i INT")
    coarser = [
        "cast(interval '1 10' day to hour as interval day)",
        "cast(make_dt_interval(i) as interval hour to minute)",
        "cast(make_ym_interval(i, i) as interval year)",
        "cast(array(make_dt_interval(i)) as array<interval day>)",
    ]
    for expression in coarser:
        _, problems = read_expressions(frame, [expression])
        assert any("INTERVAL" in problem and "cut off" in problem for problem in problems), problems
    finer = [
        "date'2024-02-29' + cast(interval '1' day as interval day to second) + make_dt_interval(i)",
        "timestamp'2024-02-29 00:00:00' + cast(interval '3' hour as interval minute)",
        "date'2024-02-29' + cast(interval '1' year as interval year to month)",
        "date'2024-02-29' + greatest(interval '1' day, make_dt_interval(i))",
    ]
    assert_parity(spark, table({"i": (pa.int32(), [0, 1])}), finer)


def test_eras(spark: SparkSession) -> None:
    moments = [_micros("2024-02-29T00:00:00"), -62135596800000000, -62135596800000001, None]
    texts = {
        "s": ["2020 AD", "0044 bc", "2020", "0000 AD"],
        "f": ["Anno Domini 2020-02-29", "before christ 0005-02-29", "AD 2020-02-29", None],
    }
    rows = pa.table({"ts": pa.array([*moments[:3], None], TIMESTAMP), **texts})
    printed = [f"date_format(ts, '{p}')" for p in ("G", "yyyy-MM-dd GG", "y GGGG", "GGG yy")]
    parsed = ["to_date(s, 'yyyy[ G]')", "try_to_timestamp(s, 'y GGG')", "to_date(f, 'GGGG y-MM-d')"]
    assert_parity(spark, rows, [*printed, *parsed])


def test_patterns_that_are_columns(spark: SparkSession) -> None:
    patterns = ["yyyy-MM-dd", "dd/MM/yyyy", None, "yyyy", "yyyy-MM-dd HH:mm", "yyyy"]
    texts = ["2020-01-02", "02/01/2020", "2020", None, "2020-01-02 03:04", "x"]
    moments = pa.array([0, -1, 1, 2, None, 1_700_000_000_123_456], TIMESTAMP)
    rows = pa.table({"s": texts, "p": patterns, "ts": moments, "n": pa.array(range(6), pa.int64())})
    parsers = ["to_date", "to_timestamp", "try_to_timestamp", "unix_timestamp"]
    expressions = [f"{name}(s, p)" for name in parsers] + [f"{name}('2020', p)" for name in parsers]
    expressions += ["date_format(ts, p)", "from_unixtime(n, p)", "date_format(DATE'2024-02-29', p)"]
    for zone in ("UTC", "America/New_York"):
        assert_parity(spark, rows, expressions, timezone=zone)


def test_a_pattern_of_a_column_that_is_not_known(spark: SparkSession) -> None:
    """Only the row that has it fails."""
    rows = pa.table(
        {"s": ["2020", "2020"], "p": ["yyyy", "YYYY"], "d": pa.array([0, 0], pa.date32())}
    )
    ((tree, problems),) = read_each(frame_of(spark, rows), ["date_format(d, p)"])
    assert problems == []
    evaluate = compile_expression(tree, Context("UTC"))
    batch = rows.to_batches()[0]
    assert evaluate(Rows(1, batch.slice(0, 1).column)).to_pylist() == ["1970"]
    with pytest.raises(TransformError, match="'YYYY' is not supported: 'YYYY' is not known"):
        evaluate(Rows(2, batch.column))


def test_a_field_twice_is_refused(spark: SparkSession) -> None:
    frame = frame_of(spark, pa.table({"s": ["2020 2020"]}))
    _, (problem,) = read_expressions(frame, ["to_date(s, 'yyyy yyyy')"])
    assert "'yyyy yyyy' is not supported: it has a field twice" in problem
