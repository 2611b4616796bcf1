"""What the releases of Spark compute differently: ``make test-spark-matrix`` runs this on each."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from engine.expressions.compile import unsupported
from tests.spark.expressions import assert_parity, frame_of, read_each

pytestmark = pytest.mark.spark

_SMALL = [1.0000000031710769e-30] * 8
_LARGE = [-1922411003904.0, -6256550477824.0, 8115610189824.0, 564487192576.0, -1722874068992.0]
_MIXED = [-8.644081110620316e-12, 3.3254657165991686e-13, -2.5569013052673117e-12, 1.5, 4.1e-12]
_VECTORS = [_SMALL, _LARGE * 2, _MIXED * 3, [1e-40], [float("nan"), 2.0], [], [1.0, None], None]


@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="Spark 4.2 brought functions of vectors")
def test_sums_of_vectors(spark: SparkSession) -> None:
    vectors = pa.array(_VECTORS, pa.list_(pa.float32()))
    degrees = ("1F", "2F", "CAST('inf' AS FLOAT)")
    assert_parity(
        spark,
        pa.table({"v": vectors}),
        [
            "vector_inner_product(v, v)",
            "vector_cosine_similarity(v, v)",
            "vector_l2_distance(v, transform(v, x -> CAST(x / 3 AS FLOAT)))",
            *(f"vector_norm(v, {degree})" for degree in degrees),
            *(f"vector_normalize(v, {degree})" for degree in degrees),
        ],
    )


def test_padding_to_less_than_nothing(spark: SparkSession) -> None:
    table = pa.table({"b": [b"abc", b"", None], "n": pa.array([-3, 0, 2], pa.int32())})
    assert_parity(spark, table, ["lpad(b, n)", "rpad(b, n, X'01')", "lpad(b, n, X'')"])


def test_characters_beyond_ffff(spark: SparkSession) -> None:
    texts = ["\n?\U0001f600\U0001f1ea<,0", "\U00010400a\U00010428\U0001d7d8\U0001f600Z", "a1", None]
    assert_parity(
        spark,
        pa.table({"s": texts}),
        [
            "regexp_instr(s, '[0-9]')",
            "regexp_instr(s, '[A-Z]')",
            "mask(s, 'U', 'l', 'd', 'o')",
            "mask(s, 'U', 'l', 'd', NULL)",
            "mask(s, NULL, NULL, NULL, 'o')",
        ],
    )


def test_ends_beyond_an_int(spark: SparkSession) -> None:
    table = pa.table(
        {
            "i": pa.array([2147483646, 2, 1, -5, 2], pa.int32()),
            "n": pa.array([-2, 2147483647, 1, 3, None], pa.int32()),
        }
    )
    assert_parity(
        spark,
        table,
        ["overlay('aXc', '12345', i, n)", "overlay(binary('aXc'), binary('12345'), i, n)"],
    )


def test_moments_beyond_a_timestamp(spark: SparkSession) -> None:
    table = pa.table({"l": [2**62, -(2**63), 1_700_000_000]})
    texts = ["timestamp_millis(l)", "timestamp_seconds(l)", "timestamp_seconds(l / 10BD)"]
    assert_parity(spark, table, texts)
    fractions = ["4611686018427387904.0000001", "9223372036855.0000001", "9223372036855", "7.5"]
    table = pa.table({"s": fractions})
    assert_parity(spark, table, ["timestamp_seconds(CAST(s AS DECIMAL(38, 7)))"])


def test_moments_in_no_zone(spark: SparkSession) -> None:
    rows = {"y": [2020, 2020, -12, 2020], "d": [1, 70, 1, None], "z": ["UTC", "SAT", "SAT", "SAT"]}
    ints = {name: pa.array(rows[name], pa.int32()) for name in "yd"}
    texts = ["make_timestamp(y, 1, d, 0, 0, 0, z)", "make_timestamp_ltz(y, 1, d, 0, 0, 0, z)"]
    assert_parity(spark, pa.table({**ints, "z": rows["z"]}), texts)


def test_seconds_beyond_an_int(spark: SparkSession) -> None:
    texts = ["-2147483648", "2147483648", "4294.967296", "4354.967296", "4354.967297", "60", "60.5"]
    texts += ["4294967306.5", "4294967356", "4294967356.5", "-4294967286.25", "-0.5", "9999999999"]
    seconds = pa.array([Decimal(text) for text in texts], pa.decimal128(16, 6))
    calls = [f"{prefix}make_timestamp(2020, 1, 1, 0, 0, d)" for prefix in ("", "try_")]
    assert_parity(spark, pa.table({"d": seconds}), calls)


def test_sizes_of_unions_of_sketches(spark: SparkSession) -> None:
    table = pa.table({"b": [b"\x01"], "n": pa.array([29], pa.int32())})
    assert_parity(spark, table, ["theta_union(b, b, n)"])


def test_inverse_hyperbolic_functions(spark: SparkSession) -> None:
    table = pa.table({"d": [-7.754044376617513, 1.0, 7.032835398138818, 1e300, 0.0]})
    texts = ["asinh(d)", "acosh(d)"]
    trees = [tree for tree, _ in read_each(frame_of(spark, table), texts, "UTC")]
    if pyspark.__version__ < "4.2":
        assert all("less exact" in str(unsupported(tree)) for tree in trees)
    else:
        assert_parity(spark, table, texts)


def test_a_constant_that_is_no_path_is_refused(spark: SparkSession) -> None:
    """Compiled, Spark 4.2 fails on it where the VARIANT is NULL, and interpreted it does not."""
    table = pa.table({"s": ["{}", None]})
    texts = [
        "variant_get(parse_json(s), ':a', 'int')",
        "try_variant_get(parse_json(s), 'a', 'int')",
    ]
    for tree, _ in read_each(frame_of(spark, table), texts, "UTC"):
        assert any("is no path" in reason for reason in unsupported(tree))
    paths = pa.array(["$.a", "$", None])
    table = pa.table({"s": ['{"a": 1}', "2", "3"], "p": paths, "x": np.arange(3)})
    assert_parity(spark, table, ["variant_get(parse_json(s), p, 'int')"])


def test_joined_with_a_replacement_that_may_be_null(spark: SparkSession) -> None:
    table = pa.table({"s": ["a", None, "b"], "r": ["-", "-", None]})
    texts = ["array_join(array(s, r), ',', r)", "array_join(array(s), ',', coalesce(r, '?'))"]
    if pyspark.__version__ < "4.2":
        ((tree, _),) = read_each(frame_of(spark, table), texts[:1])
        assert any("use coalesce()" in reason for reason in unsupported(tree))
        texts = texts[1:]
    assert_parity(spark, table, texts)
