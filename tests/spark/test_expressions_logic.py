"""Comparison, logic, null functions, conditionals, IN, greatest and least, structs are Spark's."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from engine.errors import TransformError
from tests.spark.edges import DOUBLES, NAN, TEXTS, pairs, table
from tests.spark.expressions import assert_parity, configured
from tests.spark.queries import assert_same_query, ours

pytestmark = pytest.mark.spark

_COMPARISONS = ["a = b", "a <=> b", "a != b", "a < b", "a <= b", "a > b", "a >= b"]
_EXTREMES = ["greatest(a, b)", "least(a, b)", "greatest(b, a, b)", "nullif(a, b)", "nvl(a, b)"]
_UTC = datetime.timezone.utc
_TS = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pa.int64(), [0, -1, 2**63 - 1, -(2**63), None]),
        (pa.int8(), [0, -1, 127, -128, None]),
        (pa.float64(), [0.0, -0.0, 1.5, -1.5, NAN, float("inf"), float("-inf"), None]),
        (pa.float32(), [0.0, -0.0, 1.5, NAN, None]),
        (pa.bool_(), [True, False, None]),
        (pa.string(), ["", "a", "A", "ab", "é", "\uffff", "😀", None]),
        (pa.binary(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff", None]),
        (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("-1.10"), Decimal("1.10"), None]),
        (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2024, 2, 29), None]),
        (_TS, [datetime.datetime(1970, 1, 1, tzinfo=_UTC), None]),
        (pa.timestamp("us"), [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
    ],
    ids=str,
)
def test_comparison_of_every_type(spark: SparkSession, dtype: pa.DataType, values: Any) -> None:
    in_list = ["a in (b)", "a in (b, null)", "a not in (b, b)", "a between b and a"]
    assert_parity(spark, pairs(dtype, values), _COMPARISONS + _EXTREMES + in_list)


def test_comparison_with_constants(spark: SparkSession) -> None:
    columns = table(
        {"d": (pa.float64(), DOUBLES), "s": (pa.string(), TEXTS), "i": (pa.int64(), [0, 1, 5])}
    )
    numbers = ["d > 1", "d >= 1", "d < 1", "d <= 1", "d = 0", "d != 0", "d <=> 0", "1 < d"]
    numbers += ["d = double('NaN')", "d < double('NaN')", "d >= double('NaN')", "d > null"]
    numbers += ["i = 1", "i in (0, 5)", "i in (0, null)", "i not in (0, 5)", "i in (0, 1.5)"]
    numbers += ["i not in (0, null)", "null in (1, 2)", "d in (0.0D, double('NaN'))", "1 in (1, 2)"]
    texts = ["s = 'ab'", "s > 'a'", "s in ('', 'ab')", "s in ('é', null)", "s between 'a' and 'b'"]
    assert_parity(spark, columns, numbers + texts + ["null = null", "null <=> null", "i = null"])


@pytest.mark.parametrize("timezone", ["UTC", "America/Los_Angeles"])
def test_comparison_with_constants_beyond_the_year_9999(spark: SparkSession, timezone: str) -> None:
    days, seconds = [2932896, 2932897, 2932898, -719163, None], 86400 * 1_000_000
    instants = [None if day is None else day * seconds for day in days]
    columns = pa.table(
        {
            "dt": pa.array(days, pa.int32()).cast(pa.date32()),
            "ts": pa.array(instants, pa.int64()).cast(_TS),
            "ntz": pa.array(instants, pa.int64()).cast(pa.timestamp("us")),
        }
    )
    expressions = [
        "dt < date'+10000-01-01'",
        "dt = date'+10000-01-02'",
        "dt <=> date'+10000-01-01'",
    ]
    expressions += ["ts < timestamp'9999-12-31 23:59:59'", "ts >= timestamp'+10000-01-01 00:00:00'"]
    expressions += ["ntz <= timestamp_ntz'+10000-01-01 00:00:00'"]
    expressions += ["dt in (date'+10000-01-01', date'9999-12-31', null)"]
    expressions += ["ts not in (timestamp'9999-12-31 16:00:00', timestamp'+10000-01-01 00:00:00')"]
    expressions += ["ntz in (timestamp_ntz'+10000-01-01 00:00:00')"]
    expressions += [
        "nullif(dt, date'+10000-01-01') is null",
        "dt between dt and date'+10000-01-01'",
    ]
    expressions += ["case dt when date'+10000-01-01' then 1 else 2 end"]
    expressions += ["greatest(dt, date'+10000-01-01') = dt", "dt + 1 < date'+10000-01-01'"]
    assert_parity(spark, columns, expressions, timezone=timezone)


def test_three_valued_logic(spark: SparkSession) -> None:
    expressions = ["a and b", "a or b", "not a", "a and null", "a or null", "a = b and not b"]
    expressions += ["a or b and a", "a and true", "a or false", "not (a and b)", "a xor b"]
    assert_parity(spark, pairs(pa.bool_(), [True, False, None]), expressions[:-1])


def test_what_decides_hides_errors(spark: SparkSession) -> None:
    integers = pairs(pa.int64(), [0, 1, 2, None])
    assert_parity(
        spark,
        integers,
        [
            "b != 0 and a / b > 0",
            "b = 0 or a / b > 0",
            "a / b > 0 and b != 0",
            "b = 0 and a / b > 0",
            "(a is null or a > 1) and 1 / a > 0",
            "if(b = 0, 0, a / b)",
            "if(b is null, a, a % b)",
            "case when b = 0 then -1 when b = 1 then a / b else 7 / b end",
            "case when a / b > 1 then 1 else 0 end",
            "case when a = 0 then 1 / b end",
            "coalesce(a, 1 / b)",
            "coalesce(1 / b, a)",
            "nvl(b, a / b)",
            "nvl2(b, a, 1 / b)",
            "nanvl(double(a), 1 / b)",
            "1 / a in (b, 0.5)",
            "a in (0, 1 / b)",
            "if(a > 0, 1 / 0, 3)",
            "if(false, 1 / 0, a)",
        ],
    )


def test_arguments_behind_a_null_are_not_evaluated(spark: SparkSession) -> None:
    expressions = [
        "a + 1 div b", "1 div b + a", "(1 div b) div a", "a div (1 div b)", "a > 1 div b",
        "1 div b > a", "a % (1 div b)", "(1 div b) % a", "concat(a, 1 div b)", "a <=> 1 div b",
        "substring(string(a), int(1 div b), 1)", "locate(string(1 div b), string(a))",
        "round(a / 3, 1) + 1 div b", "a + (a + (a + 1 div b))", "pmod(1 div b, a)",
        "greatest(a, 1 div b)", "a * b + 1 div b",
    ]  # fmt: skip
    assert_parity(spark, pairs(pa.int64(), [0, 1, 2, None]), expressions)


def test_arguments_that_another_one_decides_without(spark: SparkSession) -> None:
    """A dividend where the divisor is 0 and that is no error; a time of which no unit is asked."""
    expressions = [
        "try_mod(1 div b, a)", "try_divide(1 div b, a)", "(1 div b) div a", "pmod(1 div b, a)",
        "try_mod(decimal(1 div b), decimal(a))", "try_mod(double(1 div b), double(a))",
        "date_trunc('bad', timestamp_seconds(1 div b))", "date_trunc('day', timestamp_seconds(a))",
        "date_trunc(null, timestamp_seconds(1 div b))",
        "trunc(date_add(date'2024-01-01', int(1 div b)), 'bad')",
        "trunc(date_add(date'2024-01-01', int(1 div b)), 'mm')",
    ]  # fmt: skip
    assert_parity(spark, pairs(pa.int64(), [0, 1, 2, None]), expressions)


def test_null_functions(spark: SparkSession) -> None:
    columns = pairs(pa.float64(), [0.0, -0.0, 1.5, NAN, None])
    expressions = ["a is null", "a is not null", "isnan(a)", "nanvl(a, b)", "coalesce(a, b)"]
    expressions += ["coalesce(null, a)", "coalesce(a, 1, b)", "ifnull(a, b)", "nvl2(a, b, 3)"]
    expressions += ["zeroifnull(a)", "nullifzero(a)", "nullif(a, 0)", "equal_null(a, b)"]
    expressions += ["coalesce(null, null)", "isnull(null)", "a is not null and b is null"]
    assert_parity(spark, columns, expressions)


def test_conditionals(spark: SparkSession) -> None:
    columns = table(
        {
            "i": (pa.int64(), [0, 1, 2, None]),
            "c": (pa.bool_(), [True, False, None, True]),
            "s": (pa.string(), ["x", None, "é", ""]),
            "d": (pa.decimal128(10, 2), [Decimal("1.25"), None]),
        }
    )
    expressions = [
        "if(c, i, -1)",
        "if(c, s, 'no')",
        "if(c, null, i)",
        "if(c, d, 0)",
        "if(null, 1, 2)",
        "case i when 0 then 'zero' when 1 then 'one' end",
        "case i when 0 then 'zero' when 1 then null else s end",
        "case when c then 1 when i = 2 then 2 else 3 end",
        "case when i = 0 then d when i = 1 then 2.5 end",
        "case when true then s end",
        "case when c then null end",
        "if(c, struct(i, s), named_struct('i', i + 1, 's', 'b'))",
        "if(c, named_struct('i', 1L, 's', 'a'), struct(i, s))",
        "coalesce(if(c, struct(i, s), null), struct(i, s))",
    ]
    assert_parity(spark, columns, expressions)


def test_structs(spark: SparkSession) -> None:
    columns = pa.table(
        {
            "st": pa.array([{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, None]),
            "i": pa.array([1, 2, None]),
        }
    )
    expressions = ["st.a", "st.b.c", "st", "named_struct('x', i, 'y', st.a).y", "struct(i, st)"]
    expressions += ["struct(i as k).k", "struct(1, 'a')", "st.b is null"]
    assert_parity(spark, columns, expressions)


def test_what_is_used_twice_is_computed_first(spark: SparkSession) -> None:
    """For every row, but behind a condition; of two errors it has the first."""
    columns = pa.table(
        {
            "i": pa.array([13, 1, 2], pa.int32()),
            "z": pa.array([0, 1, 2], pa.int32()),
            "n": pa.array([None, None, 1], pa.int32()),
            "s": ["x", "y", "a"],
            "raw": pa.array([b"\xff", b"a", b"b"]),
        }
    )
    everywhere = [
        *("elt(1, s, nullif(decode(raw, 'UTF-8'), s))", "i < 0 and nullif(1 / z, 3) > 1"),
        *("elt(13, s, nullif(decode(raw, 'UTF-8'), s))", "n + nullif(1 div z, 3)"),
        "elt(1, s, nullif(split_part('a b', ' ', 0), s))",
        *("i < 0 and 1 / z not between 0 and 1", "try_add(n, nullif(1 div z, 1))"),
        *("elt(1, s, regexp_substr(decode(raw, 'UTF-8'), 'a'))", "n + nvl(nullif(1 div z, 2), 3)"),
        "elt(1, s, nullif(nullif(decode(raw, 'UTF-8'), 'x'), s))",
        "elt(1, s, nullif(decode(raw, 'UTF-8'), if(z = 0, nullif(s, 'x'), s)))",
        "transform(filter(array(z), y -> y > 100), x -> nullif(1 div z, 2))",
        "parse_json(elt(1, '1', string(nullif(1 div z, 3))))",
    ]
    in_place = [
        *("coalesce(i, nullif(1 div z, 3))", "if(i > 1, 1, nullif(1 div z, 3))"),
        *("n + nullif(i, 1 div z)", "n between 1 / z and 2", "nvl(i, nullif(1 div z, 2))"),
        *("i < 0 and nullif(array(z, 2)[i], 1) > 1", "elt(1, s, nullifzero(1 div z))"),
        "transform(filter(array(z), y -> y > 100), x -> nullif(1 div x, 2))",
        "case when i > 1 then 1 when 1 div z between 1 and 2 then 3 end",
    ]
    assert_parity(spark, columns, everywhere + in_place)


def test_what_is_used_twice_within_what_is_used_twice(spark: SparkSession) -> None:
    """Of two that are within each other the inner one is in its place behind any condition, also
    where that is evaluated always, as it is in nullif(); elsewhere it is computed first as well."""
    columns = pa.table(
        {
            "z": pa.array([0, 1, 2, 0], pa.int32()),
            "n": pa.array([None, None, 1, 1], pa.int32()),
            "b": pa.array([False, None, True, True]),
        }
    )
    inner = "nullif(1 div z, 3)"
    expressions = [
        *(f"nullif(n, {inner})", f"nullif(n, n + {inner})", f"nullif(nullif(n, {inner}), 2)"),
        *(f"nullif(n + 1, {inner})", "nullif(n, nullif(nullif(1 div z, n), 3))"),
        *(f"n between {inner} and 2", f"n + 1 between {inner} and 2"),
        *(f"n between 1 and nullif(n, {inner})", f"n + 1 between nullif(n, {inner}) and 2"),
        *(f"nullif(n, 1) between {inner} and 2", f"b and nullif(n, 1) between {inner} and 2"),
        *(f"nullif({inner}, n)", f"b and nullif({inner}, n) > 1", f"nullif(n, {inner}) in (1, 2)"),
        *(f"nullif(n, if({inner} > 0, 1, 2))", f"if(nullif(n, {inner}) > 0, 1, {inner})"),
        f"if(b, 1, nullif(n, {inner}))",
    ]
    assert_parity(spark, columns, expressions)


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("null_stays", ["true", "false", None])
def test_in_an_empty_list(spark: SparkSession, ansi: str, null_stays: str | None) -> None:
    rows = pa.table({"i": pa.array([1, None, 0], pa.int32())})
    conf = {"spark.sql.ansi.enabled": ansi}
    if null_stays is not None:
        conf["spark.sql.legacy.nullInEmptyListBehavior"] = null_stays

    def query(df: DataFrame) -> DataFrame:
        raising = (functions.lit(1) / functions.col("i")).isin([])
        return df.select(functions.col("i").isin([]), ~functions.col("i").isin([]), raising)

    with configured(spark, conf):
        if ansi == "true" and null_stays == "true":
            with pytest.raises(TransformError, match="DIVIDE_BY_ZERO"):
                ours(spark, rows, query)
        else:
            assert_same_query(spark, rows, query)
