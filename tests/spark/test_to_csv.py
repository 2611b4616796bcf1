"""``to_csv`` writes lines as univocity's writer does."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity
from tests.spark.test_expressions_json import _random_columns

pytestmark = pytest.mark.spark

_OPTIONS = [
    "'sep', ';'", "'quote', '\\''", "'escape', '\"'", "'charToEscapeQuoteEscaping', '|'",
    "'comment', 'a'", "'nullValue', 'N'", "'nullValue', '\"N\"'", "'emptyValue', 'E'",
    "'emptyValue', ''", "'quoteAll', 'true'",
    "'ignoreTrailingWhiteSpace', 'false', 'ignoreLeadingWhiteSpace', 'false'",
    "'escapeQuotes', 'false'", "'sep', '\\t'",
    "'quoteAll', 'true', 'nullValue', 'N', 'emptyValue', 'E'",
]  # fmt: skip


def test_texts(spark: SparkSession) -> None:
    rng = random.Random(9)
    texts = ["", " ", "  ", "#", "#a", '"', '""', "\\", '\\"', " a ", "a,b", "a\nb", '"a"', "NULL"]
    for letters in ("ab\"\\, \t#|;'\n\r", 'a"\\,  '):
        texts += [
            "".join(rng.choice(letters) for _ in range(rng.randint(1, 8))) for _ in range(400)
        ]
    values = [*texts, None]
    table = pa.table({"s": values, "t": values[::-1]})
    expressions = ["to_csv(struct(s, t))", "to_csv(struct(s), map('nullValue', 'N'))"]
    expressions += [f"to_csv(struct(s, t), map({option}))" for option in _OPTIONS]
    assert_parity(spark, table, expressions, ansi=[True])


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_types(spark: SparkSession, zone: str) -> None:
    everything = "struct(a, b, c, d, e, t, dec, f, bi, CAST(t AS TIMESTAMP_NTZ) AS n)"
    formats = (
        "map('dateFormat', 'dd/MM/yyyy', 'timestampFormat', 'yyyy, HH:mm xxx',"
        " 'timestampNTZFormat', 'HH:mm:ss.SSS')"
    )
    expressions = [
        f"to_csv({everything})",
        f"to_csv({everything}, {formats})",
        "to_csv(struct(CAST(dec AS DECIMAL(38, 20)) / 1e12 AS x, CAST(0 AS DECIMAL(20, 10)) AS y))",
        "to_csv(IF(a > 0, struct(a, b), NULL))",
    ]
    assert_parity(spark, _random_columns(), expressions, ansi=[True], timezone=zone)


def test_arrays_maps_and_structs(spark: SparkSession) -> None:
    """Where NULL is in one, and what it is written as, decides about blanks."""
    inner = pa.struct([("x", pa.int32()), ("y", pa.string())])
    table = pa.table(
        {
            "i": pa.array([1, None, 2, 3], pa.int32()),
            "a": pa.array([[1, None], [], None, [None, 2, 3]], pa.list_(pa.int32())),
            "t": pa.array([["", "a,b"], ['"'], [None], None], pa.list_(pa.string())),
            "s": pa.array([{"x": 1, "y": None}, {"x": None, "y": ""}, None, {}], inner),
            "m": pa.array(
                [[("k", 1), ("l", None)], [], None, [("", 2)]], pa.map_(pa.string(), pa.int32())
            ),
            "d": pa.array([0.5, None, float("nan"), 1e10], pa.float64()),
            "ts": pa.array([0, 1, None, 2], pa.timestamp("us", tz="UTC")),
        }
    )
    fields = [
        "i, a", "a, t, s", "m, i", "i, array(s, NULL)", "array(a, a), map(1, m)", "i, array(m)",
        "array(d, 1D) AS x, array(ts) AS y, struct(DATE(ts), array(d)) AS z",
    ]  # fmt: skip
    options = ["", ", map('nullValue', 'N')", ", map('quoteAll', 'true', 'dateFormat', 'yyyy')"]
    assert_parity(spark, table, [f"to_csv(struct({each}){o})" for each in fields for o in options])


@pytest.mark.parametrize(
    "expression",
    [
        "to_csv(struct(s))",
        "to_csv(struct(s, s), map('ignoreLeadingWhiteSpace', 'false'))",
        "to_csv(struct(s, s), map('quote', ''))",
        "to_csv(struct(s, s), map('lineSep', ';'))",
        "to_csv(struct(CAST(s AS DATE) AS d), map('dateFormat', 'HH'))",
    ],
)
def test_refused(spark: SparkSession, expression: str) -> None:
    with pytest.raises(AssertionError, match="unsupported: the expression"):
        assert_parity(spark, pa.table({"s": ["1"]}), [expression], ansi=[True])
