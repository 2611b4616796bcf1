"""Decimals of as many places as digits, of 18 and 38 digits, and texts with the exponents at the
ends of INT: ``make test-spark-matrix`` runs this on each release."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_NEARLY = ["0.999999999999999999", "-0.999999999999999999", "0.5", "0.000000000000000001", "0"]
_EXPONENTS = [
    *("1e-2147483648", "1.5e-2147483647", "10e-2147483648", "0e-2147483648"),
    *("1e2147483648", "1.5e2147483648", "1e-9999999999", "1e99999999999999999999", "1e100"),
    *("1e-99999999999999999999", "1e-0000000000000000000001", "1e00000000000000000000001"),
    *("1e-2147483649", "-1E-2147483649", "1e" + "0" * 5000 + "1", "1e-" + "9" * 5000),
]


def test_variants_that_are_nearly_whole(spark: SparkSession) -> None:
    decimals = pa.array([Decimal(text) for text in _NEARLY], pa.decimal128(18, 18))
    types = ("tinyint", "int", "bigint", "double", "decimal(10, 2)")
    texts = [
        f"variant_get({variant}, '{path}', '{name}')"
        for variant, path in (
            ("parse_json(CAST(d AS STRING))", "$"),
            ("to_variant_object(array(d))", "$[0]"),
        )
        for name in types
    ]
    assert_parity(spark, pa.table({"d": decimals}), texts)


def test_exponents_beyond_an_int(spark: SparkSession) -> None:
    names = ("DECIMAL(10, 2)", "DECIMAL(38, 38)")
    texts = [f"{cast}(s AS {name})" for cast in ("CAST", "try_cast") for name in names]
    assert_parity(spark, pa.table({"s": _EXPONENTS}), texts)
    texts = [
        "from_csv(s, 'a DECIMAL(10, 2)')",
        "from_json('[' || s || ']', 'ARRAY<DECIMAL(9, 2)>')",
    ]
    assert_parity(spark, pa.table({"s": _EXPONENTS}), texts)
