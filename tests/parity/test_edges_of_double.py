"""Doubles at the ends of their range, rounded to places that no number has:
``make test-spark-matrix`` runs this on each release."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_DOUBLES = [1.7976931348623157e308, -1e250, 1e100, 2.5, -0.5, -0.0, 2.2250738585072014e-308, 5e-324]
_SCALES = [-20_000, -400, -308, -200, 100, 200, 308, 322, 323, 324, 400, 20_000]


def test_places_that_no_number_has(spark: SparkSession) -> None:
    with_ends = [*_DOUBLES, float("inf"), float("nan"), None]
    decimals = [Decimal(text) for text in ("0", "9" * 38, "-5")]
    columns = {
        "d": pa.array(with_ends, pa.float64()),
        "f": pa.array([None if d is None or 1e38 < abs(d) < 1e309 else d for d in with_ends]),
        "l": pa.array([2**63 - 1, -(2**63), 0, 5] + [None] * 7, pa.int64()),
        "n": pa.array(decimals + [None] * 8, pa.decimal128(38, 0)),
    }
    columns["f"] = columns["f"].cast(pa.float32())
    names = ("round", "bround")
    texts = [f"{name}({c}, {scale})" for name in names for c in columns for scale in _SCALES]
    assert_parity(spark, pa.table(columns), texts)


def test_exponents_that_no_number_has(spark: SparkSession) -> None:
    """A fraction of such a number would fill the memory."""
    exponents = [
        "-2147483649",
        "-1000000000",
        "-400",
        "-46",
        "-45",
        "38",
        "39",
        "400",
        "1000000000",
    ]
    numbers = [f"{digits}e{end}" for digits in ("1", "-1", "0", "-0", "1.5") for end in exponents]
    table = pa.table({"s": numbers, "j": [f'{{"a":{number}}}' for number in numbers]})
    texts = [
        f"{read}, 'a {dtype}')"
        for read in ("from_json(j", "from_csv(s")
        for dtype in ("FLOAT", "DOUBLE", "STRING")
    ]
    texts += ["CAST(s AS FLOAT)", "CAST(s AS DOUBLE)", "get_json_object(j, '$.a')"]
    assert_parity(spark, table, texts)
