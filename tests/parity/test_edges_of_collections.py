"""What Spark does with arrays and maps at the ends of INT and BIGINT, and with -0.0 in keys:
``make test-spark-matrix`` runs this on each release."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_LEAST, _MOST = -(2**63), 2**63 - 1
_INT_MOST = 2**31 - 1


def test_sequences_across_bigint(spark: SparkSession) -> None:
    ends = [_LEAST, _LEAST + 1, -1, 0, 1, _MOST - 1, _MOST]
    steps = [_LEAST, -_MOST, -(2**62), 2**62, _MOST]
    rows = [
        (a, b, step)
        for a in ends
        for b in ends
        for step in steps
        if a == b or (a < b) == (step > 0)
    ]
    starts, stops, by = zip(*rows, strict=True)
    table = pa.table({"a": starts, "b": stops, "c": by})
    assert_parity(spark, table, ["sequence(a, b, c)"], ansi=(True,))


def test_slices_that_end_beyond_int(spark: SparkSession) -> None:
    places = [1, 2, 3, 4, -1, -3, -4]
    lengths = [0, 1, 2, _INT_MOST - 2, _INT_MOST - 1, _INT_MOST]
    rows = [(i, n) for i in places for n in lengths]
    i, n = zip(*rows, strict=True)
    columns = {"i": pa.array(i, pa.int32()), "n": pa.array(n, pa.int32())}
    texts = [
        *("slice(array(1, 2, 3), i, n)", "transform(slice(array(1, 2, 3), i, n), x -> x + 1)"),
        "transform(array(array(1, 2, 3)), x -> slice(x, i, n))",
    ]
    assert_parity(spark, pa.table(columns), texts)


def test_zeros_with_a_sign_in_keys(spark: SparkSession) -> None:
    zeros = [-0.0, 0.0, 1.0, None]
    rows = [(a, b) for a in zeros for b in zeros]
    a, b = zip(*rows, strict=True)
    table = {"a": a, "b": b, "f": pa.array(a, pa.float32()), "g": pa.array(b, pa.float32())}
    texts = [
        "map_from_entries(array(struct(array(a), 1)))",
        "map_from_entries(array(struct(struct(a, f), 1)))",
        "map_concat(map_from_arrays(array(array(a)), array(1)))",
        "if(a IS NULL, NULL, map_concat(map_from_arrays(array(a), array(1))))",
        "if(a IS NULL, NULL, map_from_entries(array(struct(f, 1))))",
        "transform_keys(map(1, 1), (k, v) -> array(a))",
        "if(a IS NULL, NULL, transform_keys(map(1, 1), (k, v) -> a))",
        "str_to_map('a:1,b:2')",
        *(_zipped(left, right) for left, right in ("ab", "fg", ("array(a)", "array(b)"))),
        _zipped("named_struct('x', f)", "named_struct('x', g)"),
    ]
    assert_parity(spark, pa.table(table), texts)


def _zipped(left: str, right: str) -> str:
    maps = (f"map_from_arrays(array({key}), array({n}))" for n, key in enumerate((left, right)))
    zipped = f"map_zip_with({', '.join(maps)}, (k, v, w) -> struct(k, v, w))"
    return f"if(a IS NULL OR b IS NULL, NULL, {zipped})"


def test_sizes_of_maps_that_nobody_makes(spark: SparkSession) -> None:
    table = pa.table({"a": [None, 1, 2], "b": [1, 1, None], "c": [1, 2, 2]})
    texts = [
        "size(map(a, b))",
        "size(map(a, b, c, b))",
        "cardinality(map(a, a))",
        "size(array(a, b))",
    ]
    assert_parity(spark, table, [*texts, "size(map(a, b)) + a", "size(map(a + 1, b))"])


def test_sequences_by_no_month(spark: SparkSession) -> None:
    days = {"d": pa.array([0, 1, None], pa.date32()), "e": pa.array([0, 2, 1], pa.date32())}
    moments = {f"{name}s": column.cast(pa.timestamp("us")) for name, column in days.items()}
    steps = ("INTERVAL 0 MONTH", "INTERVAL '0-0' YEAR TO MONTH", "INTERVAL 0 DAY")
    ends = ("d, d", "d, e", "ds, ds", "ds, es")
    texts = [f"sequence({both}, {step})" for step in steps for both in ends]
    assert_parity(spark, pa.table({**days, **moments}), texts)
