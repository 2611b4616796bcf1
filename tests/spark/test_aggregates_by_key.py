"""Grouped aggregate functions against Spark's own, over the rows of one partition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.expressions.releases import SPARK_VERSION
from engine.expressions.tree import Expr
from engine.expressions.types import schema_from_spark
from engine.pipeline.stateful import Aggregate
from engine.state.aggregates.distinct_counts import register_bits
from engine.state.aggregates.functions import fold_of, why_not
from tests.spark.since import since

pytestmark = pytest.mark.spark

KEYS = 7
ROWS = 500
SCHEMA = pa.schema(
    [
        ("k", pa.int32()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("d", pa.float64()),
        ("e", pa.float64()),
        ("m", pa.decimal128(12, 2)),
        ("w", pa.decimal128(38, 6)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.float32()),
    ]
)
EDGES = [0.0, -0.0, math.nan, math.inf, 1.5, -2.5]
TEXTS = ["", "a", "ä", "Z", "\U0001f600", "aa"]


def table() -> pa.Table:
    """Some of everything, NULL among it; the last key has nothing else."""
    random = np.random.default_rng(11)
    rows = []
    for row in range(ROWS):
        key = int(random.integers(0, KEYS))
        number = int(random.integers(-20, 20))
        values: list[Any] = [
            number,
            number * 10**12,
            float(random.normal(10, 3)),
            float(random.normal(-1, 1)),
            Decimal(int(random.integers(-(10**9), 10**9))).scaleb(-2),
            Decimal(int(random.integers(-(10**15), 10**15))).scaleb(-6),
            TEXTS[row % len(TEXTS)],
            number > 0,
            1_700_000_000_000_000 + number * 1_000_001,
            EDGES[int(random.integers(0, len(EDGES)))],
        ]
        kept = [None if key == KEYS - 1 or random.random() < 0.1 else value for value in values]
        rows.append(dict(zip(SCHEMA.names, [key, *kept], strict=True)))
    return pa.Table.from_pylist(rows, SCHEMA)


def column(name: str) -> Expr:
    index = SCHEMA.get_field_index(name)
    return Expr("Column", (), SCHEMA.types[index], True, {"ordinal": index, "name": name})


def literal(value: Any, dtype: pa.DataType) -> Expr:
    return Expr("Literal", (), dtype, False, {"value": value})


HALF, ONE = literal(0.5, pa.float64()), literal(1, pa.int64())
THIRDS = literal([0.0, 0.3, 1.0], pa.list_(pa.float64()))
CASES: dict[str, tuple[str, tuple[str | Expr, ...], Mapping[str, Any]]] = {
    "count(*)": ("Count", (), {}),
    "count(l, s)": ("Count", ("l", "s"), {}),
    "sum(i)": ("Sum", ("i",), {}),
    "sum(l)": ("Sum", ("l",), {}),
    "try_sum(l)": ("Sum", ("l",), {}),
    "sum(d)": ("Sum", ("d",), {}),
    "sum(n)": ("Sum", ("n",), {}),
    "sum(m)": ("Sum", ("m",), {}),
    "sum(w)": ("Sum", ("w",), {}),
    "avg(i)": ("Average", ("i",), {}),
    "avg(d)": ("Average", ("d",), {}),
    "avg(m)": ("Average", ("m",), {}),
    "avg(w)": ("Average", ("w",), {}),
    "min(d)": ("Min", ("d",), {}),
    "max(d)": ("Max", ("d",), {}),
    "min(n)": ("Min", ("n",), {}),
    "max(n)": ("Max", ("n",), {}),
    "min(s)": ("Min", ("s",), {}),
    "max(s)": ("Max", ("s",), {}),
    "min(w)": ("Min", ("w",), {}),
    "max(t)": ("Max", ("t",), {}),
    "bool_and(b)": ("Min", ("b",), {}),
    "max_by(s, i)": ("MaxBy", ("s", "i"), {}),
    "min_by(s, n)": ("MinBy", ("s", "n"), {}),
    "first(i)": ("First", ("i",), {}),
    "first(s, true)": ("First", ("s",), {"ignore_nulls": True}),
    "last(d)": ("Last", ("d",), {}),
    "last(m, true)": ("Last", ("m",), {"ignore_nulls": True}),
    "bit_and(l)": ("BitAndAgg", ("l",), {}),
    "bit_or(i)": ("BitOrAgg", ("i",), {}),
    "bit_xor(l)": ("BitXorAgg", ("l",), {}),
    "stddev(d)": ("StddevSamp", ("d",), {}),
    "stddev_pop(d)": ("StddevPop", ("d",), {}),
    "variance(d)": ("VarianceSamp", ("d",), {}),
    "var_pop(d)": ("VariancePop", ("d",), {}),
    "skewness(d)": ("Skewness", ("d",), {}),
    "kurtosis(d)": ("Kurtosis", ("d",), {}),
    "covar_pop(d, e)": ("CovPopulation", ("d", "e"), {}),
    "covar_samp(d, e)": ("CovSample", ("d", "e"), {}),
    "corr(d, e)": ("Corr", ("d", "e"), {}),
    "regr_r2(d, e)": ("RegrR2", ("d", "e"), {}),
    "regr_sxy(d, e)": ("RegrSXY", ("d", "e"), {}),
    "regr_slope(d, e)": ("RegrSlope", ("d", "e"), {}),
    "regr_intercept(d, e)": ("RegrIntercept", ("d", "e"), {}),
    "collect_list(s)": ("CollectList", ("s",), {}),
    "array_sort(collect_set(i))": ("CollectSet", ("i",), {}),
    "array_sort(collect_set(n))": ("CollectSet", ("n",), {}),
    "listagg(s, '|')": ("ListAgg", ("s", literal("|", pa.string())), {}),
    "mode() within group (order by s)": ("Mode", ("s",), {"reverse_opt": True}),
    "mode() within group (order by n desc)": ("Mode", ("n",), {"reverse_opt": False}),
    "median(d)": ("Percentile", ("d", HALF, ONE), {}),
    "percentile(i, array(0.0, 0.3, 1.0))": ("Percentile", ("i", THIRDS, ONE), {}),
    "percentile(m, 0.5)": ("Percentile", ("m", HALF, ONE), {}),
    "percentile(m, array(0.0, 0.3, 1.0))": ("Percentile", ("m", THIRDS, ONE), {}),
    "percentile(w, array(0.0, 0.3, 1.0))": ("Percentile", ("w", THIRDS, ONE), {}),
    "percentile(l, 0.3)": ("Percentile", ("l", literal(0.3, pa.float64()), ONE), {}),
    "percentile_cont(0.5) within group (order by d desc)": (
        "Percentile", ("d", HALF, ONE), {"reverse": True},
    ),
    "listagg(s) within group (order by s desc)": (
        "ListAgg", ("s", literal("", pa.string())), {"descending": True},
    ),
    "percentile_disc(0.3) within group (order by i)": (
        "PercentileDisc", ("i", literal(0.3, pa.float64())), {},
    ),
    "approx_percentile(i, 0.3)": (
        "ApproximatePercentile", ("i", literal(0.3, pa.float64())), {},
    ),
    "approx_percentile(l, array(0.0, 0.3, 1.0))": ("ApproximatePercentile", ("l", THIRDS), {}),
    "approx_percentile(t, 0.5)": ("ApproximatePercentile", ("t", HALF), {}),
    "approx_percentile(n, 0.5)": ("ApproximatePercentile", ("n", HALF), {}),
    "approx_count_distinct(l)": ("HyperLogLogPlusPlus", ("l",), {"relative_sd": 0.05}),
    "approx_count_distinct(d, 0.2)": ("HyperLogLogPlusPlus", ("d",), {"relative_sd": 0.2}),
    "approx_count_distinct(n, 0.01)": ("HyperLogLogPlusPlus", ("n",), {"relative_sd": 0.01}),
    "approx_count_distinct(s)": ("HyperLogLogPlusPlus", ("s",), {"relative_sd": 0.05}),
}  # fmt: skip

_ONE_NAN = since("4.2", "sets and modes with one NaN and one zero")
_NEW = {
    "array_sort(collect_set(n))": _ONE_NAN,
    "mode() within group (order by n desc)": _ONE_NAN,
}


def folded(what: Aggregate, rows: pa.Table) -> list[Any]:
    assert why_not(what) is None
    fold = fold_of(what)
    fold.grow(KEYS)
    for batch in rows.to_batches(max_chunksize=100):
        arguments = [
            pa.repeat(pa.scalar(each.params["value"], each.dtype), batch.num_rows)
            if each.op == "Literal"
            else batch.column(each.params["ordinal"])
            for each in what.arguments
        ]
        fold.update(batch.column(0).to_numpy().astype(np.int64), arguments)
    found = fold.results(np.arange(KEYS)).to_pylist()
    is_sorted = what.function == "CollectSet"
    return [sorted(each, key=lambda v: (v != v, v)) for each in found] if is_sorted else found


def with_tables(spark: SparkSession, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the planner reads from Spark's class."""
    if "relative_sd" not in params:
        return {**params, SPARK_VERSION: spark.version}
    assert spark._jvm is not None
    helper = spark._jvm.org.apache.spark.sql.catalyst.util.HyperLogLogPlusPlusHelper
    place = register_bits(params["relative_sd"]) - 4
    return {
        **params,
        "estimates": tuple(helper.RAW_ESTIMATE_DATA()[place]),
        "biases": tuple(helper.BIAS_DATA()[place]),
        "threshold": helper.THRESHOLDS()[place],
    }


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> tuple[pa.Schema, pa.Table]:
    rows = spark.createDataFrame(table())
    rows.coalesce(1).createOrReplaceTempView("rows_by_key")
    columns = ", ".join(f"{sql} AS `{index}`" for index, sql in enumerate(CASES))
    frame = spark.sql(f"SELECT k, {columns} FROM rows_by_key GROUP BY k ORDER BY k")
    return schema_from_spark(frame.schema.jsonValue()), frame.toArrow()


@pytest.mark.parametrize("sql", [pytest.param(sql, marks=_NEW.get(sql, ())) for sql in CASES])
def test_as_spark(spark: SparkSession, answers: tuple[pa.Schema, pa.Table], sql: str) -> None:
    function, arguments, params = CASES[sql]
    index = list(CASES).index(sql)
    expressions = tuple(column(each) if isinstance(each, str) else each for each in arguments)
    schema, values = answers
    dtype = schema.types[index + 1]
    mode = "TRY" if sql.startswith("try_") else "ANSI"
    what = Aggregate(function, expressions, dtype, mode, params=with_tables(spark, params))
    expected = values.column(index + 1).to_pylist()
    found = folded(what, table())
    inexact = function.startswith(("Stddev", "Var", "Skew", "Kurt", "Cov", "Corr", "Regr"))
    if inexact:  # their last digits depend on the batches
        known = [each for each in expected if each is not None]
        assert [each for each in found if each is not None] == pytest.approx(known, rel=1e-9)
        assert [each is None for each in found] == [each is None for each in expected]
    else:
        assert repr(found) == repr(expected)
