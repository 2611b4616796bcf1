"""Arithmetic is Spark's, for every pair of edge values."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.expressions.decimals import EXACT
from tests.spark.edges import DECIMALS, DOUBLES, INF, NAN, integers, pairs
from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_BINARY = ["a + b", "a - b", "a * b", "a / b", "a % b", "a div b", "pmod(a, b)", "mod(a, b)"]
_TRY = ["try_add(a, b)", "try_subtract(a, b)", "try_multiply(a, b)", "try_divide(a, b)"]
_UNARY = ["-a", "+a", "abs(a)", "negative(a)", "positive(a)"]


@pytest.mark.parametrize(
    ("dtype", "few"),
    [
        (pa.int8(), [0, 1, -1, 7, 127, -128, None]),
        (pa.int16(), [0, -1, 3, 32767, -32768, None]),
        (pa.int32(), [0, -1, 7, 2147483647, -2147483648, None]),
        (pa.int64(), [0, -1, 7, 9223372036854775807, -9223372036854775808, None]),
    ],
    ids=str,
)
def test_integers(spark: SparkSession, dtype: pa.DataType, few: list[int | None]) -> None:
    assert_parity(spark, pairs(dtype, few), _BINARY + _TRY)


@pytest.mark.parametrize("dtype", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_unary_integers(spark: SparkSession, dtype: pa.DataType) -> None:
    column = pa.table({"a": pa.array(integers(dtype.bit_width), dtype)})
    assert_parity(spark, column, _UNARY)


def test_integers_with_constants(spark: SparkSession) -> None:
    column = pa.table({"a": pa.array(integers(64), pa.int64())})
    expressions = ["a % 2", "a % 8", "a % 7", "a % -7", "a % -1", "pmod(a, 7)", "a div 7"]
    expressions += ["a div -1", "a % 0", "a div 0", "a / 0", "a / 4", "a * 3", "a + 1", "1 - a"]
    expressions += ["a + null", "100 % a", "100 div a", "a % 2 = 0", "1 / 0", "7 % 4", "7 % 0"]
    assert_parity(spark, column, expressions)


@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()], ids=str)
def test_floating_point(spark: SparkSession, dtype: pa.DataType) -> None:
    values = [0.0, -0.0, 1.0, -2.5, 1e30, 3.0, NAN, INF, -INF, None]
    expressions = ["a + b", "a - b", "a * b", "a / b", "a % b", "pmod(a, b)", "try_divide(a, b)"]
    assert_parity(spark, pairs(dtype, values), expressions)
    assert_parity(spark, pa.table({"a": pa.array(DOUBLES, pa.float64()).cast(dtype)}), _UNARY)


def test_floating_point_with_constants(spark: SparkSession) -> None:
    column = pa.table({"a": pa.array(DOUBLES, pa.float64())})
    assert_parity(spark, column, ["a / 3", "a / 0", "a % 2.5D", "a * 2", "2 / a", "a % 0"])


@pytest.mark.parametrize(
    ("left", "right"),
    [((10, 2), (10, 2)), ((10, 2), (5, 4)), ((38, 18), (38, 18)), ((38, 0), (38, 0))],
    ids=str,
)
def test_decimals(spark: SparkSession, left: tuple[int, int], right: tuple[int, int]) -> None:
    values = [Decimal("0"), Decimal("1.50"), Decimal("-3.25"), Decimal("9.99"), None]
    large = Decimal("9" * (left[0] - left[1]))
    table = pairs(pa.decimal128(38, 2), values)
    extra = [
        (large, Decimal(9)),
        (large, Decimal("-1")),
        (large, Decimal(7)),
        (large.copy_negate(), Decimal(3)),
    ]
    a = [*table["a"].to_pylist(), *(x for x, _ in extra)]
    b = [*table["b"].to_pylist(), *(y for _, y in extra)]
    if left[1] == 0:
        a = [None if x is None else EXACT.quantize(x, Decimal(1)) for x in a]
        b = [None if x is None else EXACT.quantize(x, Decimal(1)) for x in b]
    typed = pa.table(
        {"a": pa.array(a, pa.decimal128(*left)), "b": pa.array(b, pa.decimal128(*right))}
    )
    assert_parity(spark, typed, _BINARY + _TRY)


def test_unary_decimals(spark: SparkSession) -> None:
    column = pa.table({"a": pa.array(DECIMALS, pa.decimal128(10, 2))})
    assert_parity(spark, column, [*_UNARY, "a + 1", "a * 2", "a / 3", "a % 2", "a * 1.5"])
