"""LIKE and RLIKE are Spark's, or refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.edges import TEXTS
from tests.spark.expressions import assert_parity, read_expressions

pytestmark = pytest.mark.spark

_LIKES = ["a", "%", "_", "", "a%", "%c", "%X%", "a_c", "a%c", "__", "a\\\\%c", "%\\n%", "_😀_", "é"]
_LIKES += ["%%", "a.c", "[a]%", "%\\\\\\\\", "%a%b%", "\\\\_", "a__", "%_"]
_RLIKES = [
    "a",
    "^a",
    "c$",
    "a.c",
    "a[Xx]c",
    "(ab|10)",
    "\\\\d+",
    "^\\\\w*$",
    "\\\\s",
    "^$",
    "b?",
    "X+",
]
_RLIKES += [
    "(?i)AXC",
    "^.$",
    "[^a]",
    "a{1,2}",
    "\\\\\\\\",
    "\\\\x61",
    "😀",
    "^a\\\\n",
    ".*",
    "(?s)a.b",
]


@pytest.fixture(scope="module")
def texts() -> pa.Table:
    more = ["a\rb", "a\u2028", "\r\n", "x\n", "ſ", "K", "a\x0bb", "aa", "Axc"]
    return pa.table({"s": pa.array([*TEXTS, *more], pa.string())})


def test_like(spark: SparkSession, texts: pa.Table) -> None:
    expressions = [f"s like '{pattern}'" for pattern in _LIKES]
    expressions += ["s like 'a/%c' escape '/'", "s not like 'a%'", "s like null", "'abc' like 'a%'"]
    assert_parity(spark, texts, expressions, ansi=[True])


def test_patterns_of_like_in_a_column(spark: SparkSession, texts: pa.Table) -> None:
    patterns = ["%", "_", "", "a%", "%A_", "a\\%b", "a\\\\%", "a\\b", "a\\", "😀%", "a/%", None]
    rows = [(text, pattern) for text in texts["s"].to_pylist() for pattern in patterns]
    table = pa.table(dict(zip(("s", "p"), map(list, zip(*rows, strict=True)), strict=True)))
    assert_parity(spark, table, ["s like p", "s ilike p", "s like p escape '/'"])


def test_rlike(spark: SparkSession, texts: pa.Table) -> None:
    expressions = [f"s rlike '{pattern}'" for pattern in _RLIKES]
    expressions += ["regexp_like(s, 'a.c')", "s rlike null", "not s rlike '^a'"]
    assert_parity(spark, texts, expressions, ansi=[True])


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("s like 'a\\\\b'", "has an escape where none is needed"),
        ("s rlike '(?<=a*)b'", "look-behind"),
        ("s rlike '\\\\p{IsLatin}'", "IsLatin"),
    ],
)
def test_refusals(spark: SparkSession, texts: pa.Table, expression: str, reason: str) -> None:
    _, problems = read_expressions(spark.createDataFrame(texts), [expression])
    assert len(problems) == 1
    assert reason in problems[0]
