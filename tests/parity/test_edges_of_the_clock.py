"""What Spark's optimizer takes away because of a constant that the clock decides."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity, compare, configured
from tests.spark.interpreted import CONF

pytestmark = pytest.mark.spark

_EXCLUDED = "spark.sql.optimizer.excludedRules"
_FALSE = "current_date() < DATE'2020-01-01'"
_TRUE = "current_timestamp() > DATE'2020-01-01'"
_ONE = "datediff('tomorrow', current_date())"
_FAR = "datediff(current_date(), DATE'2020-01-01')"
_NULL = f"if({_FALSE}, 1, NULL)"
_FAILS = "(1 div i)"
_TABLE = {"i": pa.array([0, 1, None], pa.int32()), "j": pa.array([5, 6, 7], pa.int32())}


def test_connectives(spark: SparkSession) -> None:
    texts = [
        *(f"{_FAILS} = 1 {op} {clock}" for op in ("AND", "OR") for clock in (_FALSE, _TRUE)),
        f"NOT ({_FAILS} = 1 AND {_FALSE})",
        f"NOT ({_FAILS} = 1 OR {_TRUE}) AND j > 5",
        f"{_FAILS} = 1 AND (j > 5 AND {_FALSE})",
        f"({_FAILS} = 1 AND {_TRUE}) AND (j > 5 AND {_FALSE})",
        f"{_FAILS} = 1 AND (j > 5 OR {_FALSE})",
        f"{_FAILS} = 1 OR (j > 5 OR {_TRUE})",
        f"{_FAILS} = 1 AND {_NULL} = 1",
        f"{_FAILS} = 1 AND CAST('yesterday' AS DATE) > DATE'2050-01-01'",
        f"if({_FAILS} = 1 AND {_FALSE}, i, j)",
        "j > 6 AND CAST(raise_error('none') AS BOOLEAN)",
        "j > 5 OR assert_true(j > 8) IS NULL",
    ]
    assert_parity(spark, pa.table(_TABLE), texts, ansi=(True,))


def test_items_of_arrays(spark: SparkSession) -> None:
    arrays = [f"array({_FAILS}, i)", f"array(i, {_FAILS})", "array(i, j)", "array(i)"]
    places = [_ONE, f"{_ONE} - 1", f"-{_ONE}", _FAR, _NULL, f"CAST({_ONE} AS BIGINT)"]
    texts = [f"{array}[{place}]" for array in arrays for place in places]
    texts += [f"get({array}, {place})" for array in arrays for place in places[:-1]]
    texts += [f"array(array(i), array({_FAILS}))[{_ONE} - 1][{_ONE}]", f"split('a b', ' ')[{_FAR}]"]
    assert_parity(spark, pa.table(_TABLE), texts, ansi=(True,))


def test_what_the_optimizer_is_kept_from(spark: SparkSession) -> None:
    rules = ["BooleanSimplification", "NullPropagation", "SimplifyExtractValueOps"]
    texts = [f"{_FAILS} = 1 AND {_FALSE}", f"{_FAILS} + {_NULL}", f"array({_FAILS}, i)[{_FAR}]"]
    for excluded in (rules, ["ConstantFolding"]):
        names = [CONF[_EXCLUDED]]
        names += [f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in excluded]
        with configured(spark, {_EXCLUDED: ",".join(names), "spark.sql.ansi.enabled": "true"}):
            assert compare(spark, pa.table(_TABLE), texts) == []


def test_nulls(spark: SparkSession) -> None:
    texts = [
        f"{_FAILS} + {_NULL}",
        f"{_FAILS} = {_NULL}",
        f"({_FAILS} + {_NULL}) * {_FAILS}",
        f"{_FAILS} <=> {_NULL}",
        f"coalesce({_FAILS}, {_NULL})",
        f"substring(CAST({_FAILS} AS STRING), {_NULL}, 1)",
        f"array_contains(array({_FAILS}), {_NULL})",
        f"element_at(array({_FAILS}), {_NULL})",
        f"{_FAILS} IN ({_NULL}, 3)",
        f"{_FAILS} IN ({_NULL})",
        f"{_FAILS} BETWEEN {_NULL} AND 3",
        f"concat(CAST({_FAILS} AS STRING), CAST({_NULL} AS STRING))",
        f"date_add(date_add(current_date(), {_NULL}), CAST({_FAILS} AS INT))",
        f"split_part(CAST({_FAILS} AS STRING), '1', {_NULL})",
        f"overlay(CAST({_FAILS} AS STRING) PLACING 'a' FROM {_NULL})",
    ]
    assert_parity(spark, pa.table(_TABLE), texts, ansi=(True,))
