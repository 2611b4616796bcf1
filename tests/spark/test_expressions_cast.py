"""Casts among all atomic types are Spark's, with and without ANSI mode."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.expressions.decimals import EXACT
from tests.spark.edges import INF, NAN, integers
from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_NUMBERS = ["tinyint", "smallint", "int", "bigint", "float", "double"]
_DECIMALS = ["decimal(10,2)", "decimal(3,0)", "decimal(38,18)", "decimal(38,0)", "decimal(5,5)"]
_TS = pa.timestamp("us", tz="UTC")
_ZONES = ["UTC", "America/New_York"]


def casts(targets: list[str], *, also_try: bool = True) -> list[str]:
    """CAST and TRY_CAST of column ``a``."""
    plain = [f"cast(a as {target})" for target in targets]
    return plain + [f"try_{text}" for text in plain] if also_try else plain


def column(dtype: pa.DataType, values: list[Any]) -> pa.Table:
    return pa.table({"a": pa.array(values, dtype)})


@pytest.mark.parametrize("dtype", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_integers(spark: SparkSession, dtype: pa.DataType) -> None:
    values = column(dtype, integers(dtype.bit_width))
    assert_parity(spark, values, casts([*_NUMBERS, *_DECIMALS, "boolean", "string"]))
    assert_parity(spark, values, casts(["binary"], also_try=False), ansi=[False])
    assert_parity(spark, values, casts(["timestamp"], also_try=False))


_FLOATING: list[float | None] = [
    *(0.0, -0.0, 0.5, -0.5, 1.0, 1.5, 2.5, -2.5, 127.4, 127.9, 128.0, -128.9, -129.0, 32767.5),
    *(0.001, 0.00099, 9999999.0, 1e7, 1.0e10, 123456.789, 1e21, 1e22, 1.5e-5, 1e-10, 1e38, 1e300),
    *(3.4028234663852886e38, 3.5e38, 1e-45, 4.9e-324, 2.2250738585072014e-308, 12345.675, 0.005),
    *(0.1, 0.3, 1 / 3, 100.0, 99999999.995, 1e-3, NAN, INF, -INF, None),
]
_HUGE: list[float | None] = [
    *(2147483647.0, 2147483647.5, 2147483648.0, -2147483648.9, -2147483649.0, 9.2e18, None),
    *(9.223372036854775e18, 9.223372036854775807e18, -9.223372036854775808e18, -9.3e18, 1e19),
]
"""Not for texts and decimals: for these, Java 17 and Java 19 disagree about the last digit."""


@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()], ids=str)
def test_floating_point(spark: SparkSession, dtype: pa.DataType) -> None:
    values = pa.array(_FLOATING, pa.float64()).cast(dtype, safe=False)
    targets = [*_NUMBERS, *_DECIMALS, "boolean", "string"]
    assert_parity(spark, pa.table({"a": values}), casts(targets))
    huge = pa.array([*_FLOATING, *_HUGE], pa.float64()).cast(dtype, safe=False)
    assert_parity(spark, pa.table({"a": huge}), casts([*_NUMBERS, "boolean"]))
    assert_parity(spark, pa.table({"a": huge}), casts(["timestamp"], also_try=False))


@pytest.mark.parametrize(
    ("precision", "scale", "texts"),
    [
        (10, 2, ["0", "0.01", "-0.01", "127.99", "128", "-128.5", "1.50", "99999999.99", "2.35"]),
        (38, 18, ["0", "1E-18", "12345678901234567890", "-9223372036854775808.5", "0.1", "1E-7"]),
        (38, 0, ["0", "99999999999999999999999999999999999999", "-9223372036854775809", "255"]),
        (20, 7, ["0", "0.0000001", "0.0000010", "-1.2345678", "9223372036854.7758085"]),
    ],
)
def test_decimals(spark: SparkSession, precision: int, scale: int, texts: list[str]) -> None:
    quantum = Decimal(1).scaleb(-scale)
    numbers = [EXACT.quantize(Decimal(t), quantum) for t in texts]
    values = column(pa.decimal128(precision, scale), [*numbers, None])
    targets = [*_NUMBERS, *_DECIMALS, "boolean", "string", "decimal(20,7)"]
    assert_parity(spark, values, casts(targets))
    assert_parity(spark, values, casts(["timestamp"], also_try=False))


def test_booleans(spark: SparkSession) -> None:
    values = column(pa.bool_(), [True, False, None])
    assert_parity(spark, values, casts([*_NUMBERS, *_DECIMALS, "string", "boolean"]))
    assert_parity(spark, values, casts(["timestamp"], also_try=False), ansi=[False])


_NUMBER_TEXTS: list[str | None] = [
    *("", " ", "0", "-0", "+1", "1", " 1 ", "\t1\n", "\x7f1\x00", "\xa01", "127", "128", "-128"),
    *(
        "-129",
        "32768",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "1.5",
        "1.",
        ".",
    ),
    *(".5", "-.5", "+.", "-", "+", "1.5e3", "1e5", "1E400", "-1e400", "1e-400", "1d", "1f", "1.0D"),
    *("0x1p3", "0x10", "1_000", "1,000", "NaN", "nan", "+NaN", "-nan", "inf", "+inf", "-Infinity"),
    *(
        "INFINITY",
        "infinit",
        "abc",
        "1a",
        "a1",
        "--1",
        "+-1",
        "0.1",
        "99999999.995",
        "12345.678901",
    ),
    *(
        "00001",
        "1e38",
        "1e39",
        "0e50",
        "1e-50",
        "9" * 38,
        "9" * 39,
        "0." + "1" * 40,
        "½",
        "１２",
        "𝟏",
    ),
    *("true", "T", "f", "FALSE", "yes", "Y", "no", "n", " true ", "tru", "1 0", "1e", "e1", None),
    *("3.4028235e38", "3.5e38", "1.17549435E-38", "16777217.0000000001", "2.2250738585072014e-308"),
    *("9007199254740993", "1e23", "179769313486231580793728971405301e277"),
]


def test_texts_to_numbers(spark: SparkSession) -> None:
    values = column(pa.string(), _NUMBER_TEXTS)
    assert_parity(spark, values, casts([*_NUMBERS, *_DECIMALS, "boolean"]))


def test_zeros_with_large_exponents(spark: SparkSession) -> None:
    texts = ["0e50", "-0e60", "0.0e40", "00e38", "0e37", "٠e50", "0e-50", "0e2147483648", "1e39"]
    in_variants = "parse_json(concat('\"', a, '\"'))"
    expressions = [
        *casts(["decimal(10,2)", "decimal(38,0)"]),
        "cast(array(a) as array<decimal(38,38)>)",
        f"cast({in_variants} as decimal(10,2))",
        f"try_cast({in_variants} as decimal(10,2))",
        f"try_variant_get({in_variants}, '$', 'decimal(10,2)')",
    ]
    assert_parity(spark, column(pa.string(), texts), expressions)


def test_texts_that_are_all_easy(spark: SparkSession) -> None:
    values = column(pa.string(), ["1", "-12", "100", None])
    assert_parity(spark, values, casts([*_NUMBERS, "decimal(10,2)"]))
    assert_parity(spark, column(pa.string(), ["1.5", "-0.1", None]), casts(["float", "double"]))
    dates = column(pa.string(), ["2024-02-29", "0001-01-01", "9999-12-31", None])
    assert_parity(spark, dates, casts(["date", "timestamp"]))
    times = column(pa.string(), ["2024-03-10 02:30:00", "2024-11-03T01:30:00.25", None])
    assert_parity(spark, times, casts(["timestamp", "timestamp_ntz"]), timezone=_ZONES[1])


_TIME_TEXTS: list[str | None] = [
    *("", " ", "2024", "2024-", "2024-2", "2024-02", "2024-2-3", "2024-02-29", "2023-02-29"),
    *("2024-13-01", "2024-00-10", "2024-01-32", " 2024-01-01 ", "2024-01-01T", "2024-01-01 x"),
    *("2024-01-01 1", "2024-01-01 1:2", "2024-01-01 1:2:3", "2024-01-01 01:02:03.4", "24-01-01"),
    *("2024-01-01 01:02:03.123456789", "2024-01-01 01:02:03.", "2024-01-01 01:02:03.Z"),
    *("2024-01-01 01:02:03Z", "2024-01-01T01:02:03.5+01:00", "2024-01-01 01:02:03 Europe/Berlin"),
    *(
        "2024-01-01 01:02:03+1",
        "2024-01-01 01:02:03-0130",
        "2024-01-01 01:02:03 UTC+3",
        "+2024-01-01",
    ),
    *("2024-01-01 01:02:03 CET", "2024-01-01 01:02:03 Nowhere/Land", "2024-01-01 24:00:00"),
    *("2024-01-01 23:59:60", "2024-01-01 23:60:00", "0000-01-01", "-0001-12-31", "+12345-06-07"),
    *("123456-01-01", "1234567-01-01", "12345678-01-01", "-123456-01-01 00:00:00", "9999-12-31"),
    *("2024-03-10 02:30:00", "2024-11-03 01:30:00", "1883-11-18 12:03:58", "1582-10-10", "abc"),
    *("2024-01-01 01:02:03..4", "2024/01/01", "2024-01-01 01-02-03", "2024-01-01  01:02:03", None),
    *("2024-01-01 01:02Z", "2024-01-01Z", "2024-1-1 1:1:1.1 GMT", "2024-01-01\n", "300000-01-01"),
    *(
        "2024-01-01 12:00:00 pm",
        "12345-01-01",
        "1970-01-01 00:00:00.000001",
        "2024-01-01 1:2:3.4.5",
    ),
]


@pytest.mark.parametrize("zone", _ZONES)
def test_texts_to_times(spark: SparkSession, zone: str) -> None:
    values = column(pa.string(), _TIME_TEXTS)
    assert_parity(spark, values, casts(["date", "timestamp", "timestamp_ntz"]), timezone=zone)


_MICROS: list[int | None] = [
    *(0, 1, -1, 1_500_000, -1_500_000, 1_709_209_845_123_456, 1_710_055_800_000_000, None),
    *(253_402_300_799_999_999, 253_402_300_800_000_000, -62_135_596_800_000_000),
    *(-62_135_596_800_000_001, -62_167_219_200_000_001, -2_717_650_800_000_000, 9_000_000_000_000),
]


@pytest.mark.parametrize("zone", _ZONES)
@pytest.mark.parametrize("dtype", [_TS, pa.timestamp("us")], ids=str)
def test_timestamps(spark: SparkSession, dtype: pa.DataType, zone: str) -> None:
    values = column(dtype, [*_MICROS])
    assert_parity(
        spark,
        values,
        casts(["string", "date", "timestamp", "timestamp_ntz"], also_try=False),
        timezone=zone,
    )


def test_timestamps_to_numbers(spark: SparkSession) -> None:
    values = column(_TS, [*_MICROS])
    assert_parity(spark, values, casts([*_NUMBERS, "decimal(20,6)", "decimal(5,2)"]))
    assert_parity(spark, values, casts(["boolean"], also_try=False), ansi=[False])


@pytest.mark.parametrize("zone", [*_ZONES, "America/Sao_Paulo", "America/Toronto", "+05:30"])
def test_dates(spark: SparkSession, zone: str) -> None:
    toronto_gap = -18_539  # 1919-03-31 began half an hour late
    days = [0, -1, 19782, -719_162, -719_163, -719_529, 2_932_896, 2_932_897, 17_470]
    days = [*days, toronto_gap, None]
    values = pa.table({"a": pa.array(days, pa.int32()).cast(pa.date32())})
    targets = ["string", "timestamp", "timestamp_ntz", "date"]
    assert_parity(spark, values, casts(targets, also_try=False), timezone=zone)


def test_dates_to_numbers(spark: SparkSession) -> None:
    values = pa.table({"a": pa.array([0, 1, None], pa.int32()).cast(pa.date32())})
    targets = [*_NUMBERS, "boolean", "decimal(10,2)"]
    assert_parity(spark, values, casts(targets, also_try=False), ansi=[False])


def test_binary(spark: SparkSession) -> None:
    assert_parity(spark, column(pa.binary(), [b"", b"a", "é😀".encode(), None]), casts(["string"]))
    assert_parity(spark, column(pa.string(), ["", "a", "é😀", None]), casts(["binary", "string"]))


def test_nulls_and_constants(spark: SparkSession) -> None:
    targets = [*_NUMBERS, *_DECIMALS, "string", "boolean", "date", "timestamp", "binary"]
    expressions = [f"cast(null as {target})" for target in targets]
    expressions += ["cast('1' as int)", "cast('x' as int)", "try_cast('x' as int)", "'5' + a"]
    assert_parity(spark, column(pa.int64(), [1, None]), expressions)
