"""Functions of numbers are Spark's; those that two mathematical libraries compute, nearly."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.expressions.compile import compile_expression, to_array
from tests.spark.edges import INF, NAN, integers, pairs
from tests.spark.expressions import assert_parity, read_expressions

pytestmark = pytest.mark.spark

_DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.005, 2.675, 1.255, -1.005, 0.045,
    1e15 + 0.5, 1e22, 1e23, 123456789.125, 1e-7, 5e-324, 1.7976931348623157e308, NAN, INF, -INF,
    9.223372036854776e18, -9.3e18, 4503599627370495.5, 4503599627370497.5, 0.1, 0.15, 0.25, 0.35,
    0.285, 1.115, 33.333333, 99.995, -99.995, 1e300, 12.0005, -12.0005, 3.14159, None,
]  # fmt: skip
_DECIMALS = [
    *map(Decimal, ("1.005", "-1.005", "2.5", "9999999.999", "-9999999.999", "0", "15", "25.555")),
    None,
]


def test_rounding(spark: SparkSession) -> None:
    doubles = pa.table(
        {
            "d": pa.array(_DOUBLES, pa.float64()),
            "f": pa.array(_DOUBLES, pa.float64()).cast(pa.float32(), safe=False),
        }
    )
    scales = ["", ", 1", ", 2", ", 3", ", 15", ", 16", ", -1", ", -308"]
    expressions = [f"{name}(d{scale})" for name in ("round", "bround") for scale in scales]
    expressions += ["round(f)", "round(f, 1)", "round(f, 2)", "bround(f, 2)", "round(f, -1)"]
    expressions += ["ceil(d)", "floor(d)", "ceiling(f)", "round(d, null)"]
    assert_parity(spark, doubles, expressions)


def test_rounding_of_decimals(spark: SparkSession) -> None:
    largest, smallest = Decimal("9" * 38), Decimal("-" + "9" * 38)
    columns = {
        "a": pa.array(_DECIMALS, pa.decimal128(10, 3)),
        "b": pa.array([largest, smallest, 5, 15, None, 0, 1, 2, 3], pa.decimal128(38, 0)),
    }
    expressions = [f"round(a, {scale})" for scale in (0, 1, 2, 5, -1, -7)]
    expressions += ["bround(a, 2)", "bround(a)", "ceil(a)", "floor(a)", "ceil(a, 1)"]
    expressions += ["floor(a, 1)", "ceil(a, -1)", "floor(a, -1)", "round(b, 1)", "ceil(b)"]
    expressions += ["round(b, -1)", "bround(b, -1)", "ceil(b, -1)", "ceil(1.5D, 0)"]
    assert_parity(spark, pa.table(columns), expressions)


def test_formats_of_long_decimals(spark: SparkSession) -> None:
    """Whose digits no sign, and no comparison, may round."""
    nines = "9" * 38
    table = pa.table(
        {
            "d": pa.array(
                [Decimal(f"0.{nines}"), Decimal(f"-0.{nines}"), None], pa.decimal128(38, 38)
            ),
            "s": [nines, f"-{nines}", None],
        }
    )
    expressions = [
        "to_char(d, 'S9.999')", "to_char(d, '0.99999999999999999999999999999999999999S')",
        "to_char(d, '9.999PR')", f"to_number(s, 'S{nines}')", f"try_to_number(s, 'S{nines[1:]}')",
        "format_number(d, 3)",
    ]  # fmt: skip
    assert_parity(spark, table, expressions)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers(spark: SparkSession, bits: int) -> None:
    dtype = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
    table = pairs(dtype, [*integers(bits), 15, 25, 63])
    expressions = ["a & b", "a | b", "a ^ b", "~a", "bit_count(a)"]
    expressions += ["round(a, -1)", "bround(a, -1)", "round(a)", "round(a, 2)", "typeof(a)"]
    expressions += ["factorial(int(a))"] if bits < 64 else ["bin(a)", "hex(a)", "ceil(a)"]
    if bits >= 32:
        shift = "b" if bits == 32 else "int(b % 1000)"
        expressions += [f"shift{way}(a, {shift})" for way in ("left", "right", "rightunsigned")]
        expressions += ["a << 3", "a >> 1", "a >>> 1"]
    assert_parity(spark, table, expressions)


def test_bits_and_bases(spark: SparkSession) -> None:
    table = pa.table(
        {
            "s": [
                "0", "1", "-1", "ff", "FF", "-ff", "zz", "18446744073709551615", "",
                "9223372036854775808", "-9223372036854775808", "  12 ", "12x", "x12", "-", "1.5",
                "18446744073709551616", "-18446744073709551615", "é", "１２", None,
            ],
            "i": pa.array([2, 10, 16, 36, 37, 1, 0, -10, -16, -37, *[7] * 10, None], pa.int32()),
        }
    )  # fmt: skip
    bases = [(10, 16), (16, 10), (10, -10), (16, -10), (36, 2), (2, 36), (10, 37), (1, 2)]
    expressions = [f"conv(s, {start}, {end})" for start, end in bases]
    expressions += ["conv(s, i, 10)", "conv(s, 10, i)", "getbit(5L, i)", "getbit(i, 0)"]
    expressions += ["bit_count(s = '1')"]
    assert_parity(spark, table, expressions)


def test_names_of_types(spark: SparkSession) -> None:
    table = pa.table({"d": [1.5], "s": ["x"]})
    values = ["d", "s", "null", "1Y", "1S", "1", "1L", "1.5", "float(1)", "X'00'", "true"]
    values += ["date'2020-01-01'", "timestamp'2020-01-01'", "timestamp_ntz'2020-01-01'"]
    values += ["struct(d, s)", "split(s, '')", "from_json(s, 'map<string, struct<a: int>>')"]
    others = ["pi()", "e()", "str_to_map('1double2:3', typeof(d), ':')", "typeof(1 / int(s))"]
    assert_parity(spark, table, [f"typeof({value})" for value in values] + others)


_EXACT = ["sqrt(a)", "rint(a)", "signum(a)", "sign(a)", "degrees(a)", "radians(a)"]
_ULPS = {
    **dict.fromkeys(("cbrt", "exp", "expm1", "ln", "log1p", "sin", "cos", "tan"), 1),
    **dict.fromkeys(("asin", "acos", "atan"), 1),
    **dict.fromkeys(("log2", "sinh", "cosh", "tanh"), 3),
    "log10": 2,
}
_ULPS_OF_TWO = {"pow": 1, "atan2": 1, "hypot": 1, "log": 3}


def _random(seed: int) -> npt.NDArray[np.float64]:
    random = np.random.default_rng(seed)
    return np.concatenate(
        [
            random.standard_normal(4000) * 10,
            random.uniform(-1, 1, 4000),
            random.uniform(-750, 750, 4000),
            10.0 ** random.uniform(-300, 300, 4000) * random.choice([-1, 1], 4000),
            random.integers(-1000, 1000, 4000).astype(np.float64),
            np.array([x for x in _DOUBLES if x is not None]),
        ]
    )


def test_exact_functions_of_doubles(spark: SparkSession) -> None:
    table = pa.table({"a": pa.array(_DOUBLES, pa.float64())})
    powers = ["pow(a, 0D)", "pow(1D, a)", "pow(-1D, a)", "pow(a, 1D)", "hypot(a, 0D)"]
    undefined = ["ln(-abs(a))", "log10(-abs(a))", "log2(0D)", "log1p(-1 - abs(a))", "log(0D, a)"]
    assert_parity(spark, table, _EXACT + powers + undefined)


def test_other_functions_of_doubles_differ_in_the_last_bits_at_most(spark: SparkSession) -> None:
    left = _random(1)
    right = np.random.default_rng(2).permutation(left)
    table = pa.table({"a": left, "b": right})
    allowed = {f"{name}(a)": ulps for name, ulps in _ULPS.items()}
    allowed |= {f"{name}(a, b)": ulps for name, ulps in _ULPS_OF_TWO.items()}
    frame = spark.createDataFrame(table)
    trees, problems = read_expressions(frame, list(allowed))
    assert problems == []
    theirs = frame.selectExpr(*(f"{text} AS _{i}" for i, text in enumerate(allowed))).toArrow()
    (batch,) = table.combine_chunks().to_batches()
    for index, (text, ulps) in enumerate(allowed.items()):
        ours = to_array(compile_expression(trees[index])(batch), len(left), pa.float64())
        column = theirs.column(index).combine_chunks()
        assert ours.is_valid().equals(column.is_valid()), text
        distance = _ulps(ours.fill_null(0.0).to_numpy(), column.fill_null(0.0).to_numpy())
        worst = int(np.argmax(distance))
        assert distance[worst] <= ulps, f"{text} of {left[worst]}, {right[worst]}"


def _ulps(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """How many DOUBLEs lie between; NaN equals NaN."""
    with np.errstate(over="ignore"):
        distance = np.abs(_ordinal(left) - _ordinal(right))
    return np.where(np.isnan(left) & np.isnan(right), 0, distance)


def _ordinal(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    bits = values.view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)
