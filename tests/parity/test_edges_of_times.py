"""Patterns of texts whose numbers touch, and times at the ends of what BIGINT can hold:
``make test-spark-matrix`` runs this on each release."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_LEAST, _MOST = -(2**63), 2**63 - 1
_PATTERNS = [
    *("yyyyMMdd", "yyyyMMddHHmmss", "yyyyMMddHHmmssS", "yyyyMMddHHmmssSS", "yyyyMMddHHmmssSSS"),
    *("yyyyMMdd[HH]", "yyyyMMdd[HHmm[ss]]", "yyyy[MM[dd]]", "ddMMyyyy", "ddMMyyyy[HHmm]", "yyyyM"),
    *("yyyy[S]", "yyyy'0'MM", "d'2'", "dMyyyy", "dMMyyyy", "ddMMy", "yyMMdd", "yyMMd", "HHmmssS"),
    *("HHmmss[SSS]", "Hmmss", "Hm", "H[mm]", "HH[m]", "yyyyMMMdd", "ddMMMyyyy", "SSSd", "HHmmSS"),
    *("yyyyMMddX", "yyyyMMdd'T'HHmmssSSSX", "yyyyMMdd hmma", "yMMddG", "yyyyMM-dd", "yyyy-MMdd"),
]  # fmt: skip
_DATES = [
    *("20200102", "2020010203", "202001020304", "20200102030405", "202001020304056", "202001"),
    *("2020010203040567", "20200102030405678", "+20200102", "+1202001", "-20200102", "2020", "1"),
    *("12020", "10000", "00005", "20205", "2020001", "12", "02012020", "020120200304", "112020"),
    *("1012020", "200102", "030405", "0304056", "030405678", "30405", "34", "304", "2020Jan02"),
    *("02Jan2020", "1231", "12", "20200102Z", "20200102T030405678Z", "20200102 304pm", "+9999991"),
    *("20200102AD", "202001-02", "2020-0102", "2020Jan2", "0", "", "00", "99999999999999999999999"),
]  # fmt: skip


def test_numbers_that_touch(spark: SparkSession) -> None:
    texts = [_read_by(pattern, "to_timestamp_ntz") for pattern in _PATTERNS]
    texts += [_read_by(pattern, "to_date") for pattern in _PATTERNS]
    assert_parity(spark, pa.table({"s": _DATES}), texts)


def test_numbers_that_touch_in_records(spark: SparkSession) -> None:
    patterns = ("yyyyMMdd[HH]", "yyyyMMddHHmmssSSS", "yyyyMMddHHmmss")
    texts = [
        f"from_{form}({record}, 'a {dtype}', map('{option}', '{pattern}'))"
        for pattern in patterns
        for form, record in (("csv", "s"), ("json", """'{"a":"' || s || '"}'"""))
        for dtype, option in (("TIMESTAMP", "timestampFormat"), ("DATE", "dateFormat"))
    ]
    assert_parity(spark, pa.table({"s": _DATES}), texts)


def test_offsets_that_no_zone_has(spark: SparkSession) -> None:
    offsets = ["-2020", "+1800", "-1801", "+2359", "+2400", "+1260", "Z", "-18", "+59", "10 -2020"]
    offsets += ["+0000", "+0030", "+00", "-0000", "-0030", "-00", "00 +0030", "+003", "+00Z"]
    days = ("2020", "10", "2020-01-02", "2 Jan 20", "2020-01-02 AD", "2020-01")
    offsets += [f"{day} {hour} -2020" for day in days for hour in ("10", "10 AM", "AM 10")]
    table = pa.table({"s": [*offsets, "2020-01-01 -2020", "2020-01-01 +1800"]})
    patterns = ["X", "XX", "Z", "x", "xx", "HH X", "HH x", "yyyy-MM-dd X", "x[mm]"]
    dates = ("yyyy", "MM", "yyyy-MM-dd", "d MMM yy", "yyyy-MM-dd G", "yyyy-MM")
    clocks = ("HH", "kk", "hh", "hh a", "a hh", "KK a", "KK", "mm", "ss")
    patterns += [f"{date} {clock} X" for date in dates for clock in clocks]
    texts = [_read_by(pattern, "to_timestamp_ntz") for pattern in patterns]
    texts += [
        f"""from_json('{{"a":"' || s || '"}}', 'a {dtype}', map('{option}', '{pattern}'))"""
        for pattern in patterns
        for dtype, option in (("TIMESTAMP", "timestampFormat"), ("DATE", "dateFormat"))
    ]
    assert_parity(spark, table, texts, ansi=(False,), timezone="America/New_York")


def _read_by(pattern: str, function: str) -> str:
    return f'{function}(s, "{pattern}")'


def test_seconds_with_too_many_digits(spark: SparkSession) -> None:
    seconds = [*(f"9223372036854.77580{end}" for end in (69, 70, 71, 79, 80, 81)), "1.0000001"]
    numbers = [Decimal(sign + text) for text in seconds for sign in ("", "-")]
    table = pa.table({"q": pa.array(numbers, pa.decimal128(30, 7))})
    assert_parity(spark, table, ["timestamp_seconds(q)"])


def test_sequences_to_the_last_moment(spark: SparkSession) -> None:
    month = 31 * 86_400_000_000
    ends = [_MOST, _MOST - 1, _MOST - month, _LEAST, _LEAST + 1, _LEAST + month]
    starts = [a for a in ends for b in ends if abs(a - b) < 3 * month]
    stops = [b for a in ends for b in ends if abs(a - b) < 3 * month]
    table = {
        "t": pa.array(starts, pa.timestamp("us", "UTC")),
        "z": pa.array(starts, _LOCAL),
        "u": pa.array(stops, pa.timestamp("us", "UTC")),
        "y": pa.array(stops, _LOCAL),
    }
    steps = ("INTERVAL 1 MONTH", "-INTERVAL 1 MONTH", "INTERVAL '1 1' DAY TO HOUR")
    texts = [
        *("sequence(z, z)", "sequence(t, t)", "sequence(t, u)", "sequence(z, y)"),
        *(f"sequence(t, t, {step})" for step in steps),
        *(f"if(t > u, NULL, sequence(t, u, {step}))" for step in steps[::2]),
        f"if(t < u, NULL, sequence(t, u, {steps[1]}))",
    ]
    assert_parity(spark, pa.table(table), texts)


_LOCAL = pa.timestamp("us")


def test_intervals_that_lead_beyond_and_back(spark: SparkSession) -> None:
    day = 86_400_000_000
    ends = [_MOST, _MOST - day // 24, _MOST - day, _LEAST, _LEAST + day // 24, _LEAST + day, 0]
    table = {"t": pa.array(ends, pa.timestamp("us", "UTC")), "z": pa.array(ends, _LOCAL)}
    parts = ["0, 0, 0, 1, -24", "0, 0, 0, -1, 24", "0, 1, 0, -31", "0, 0, 0, 1, -23"]
    parts += ["0, 1, 0, -30", "0, 1, 0, 1, -1000", "0, 0, 0, 1, 2"]
    texts = [
        f"{start} {sign} make_interval({part})" for start in "tz" for sign in "+-" for part in parts
    ]
    assert_parity(spark, pa.table(table), texts)


@pytest.mark.parametrize("zone", ["UTC", "Australia/Lord_Howe"])
def test_more_days_than_microseconds_can_count(spark: SparkSession, zone: str) -> None:
    moments = [_LEAST, -62_135_596_800_000_000, 0, _MOST]
    days = [106_751_992, 107_381_984, 107_471_153, 213_503_982, 2**31 - 1, 2**31, 2**33 + 1, _MOST]
    quantities = [sign * (day // unit) for day in days for sign in (1, -1) for unit in (1, 7)]
    rows = [(moment, quantity) for moment in moments for quantity in (*quantities, _LEAST)]
    table = pa.table(
        {
            "t": pa.array([at for at, _ in rows], pa.timestamp("us")),
            "u": pa.array([at for at, _ in rows], pa.timestamp("us", "UTC")),
            "q": pa.array([quantity for _, quantity in rows], pa.int64()),
        }
    )
    texts = [
        f"CAST(CAST(timestampadd({unit}, q, {at}) AS TIMESTAMP) AS BIGINT)"
        for unit in ("DAY", "DAYOFYEAR", "WEEK", "YEAR")
        for at in ("t", "u")
    ]
    assert_parity(spark, table, texts, timezone=zone)
