"""Types that few functions take: equal to Spark, or refused by name when the query starts."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity, read_expressions

pytestmark = pytest.mark.spark

_NUMBERS = pa.table({"n": pa.array([1, -3, None, 12], pa.int32()), "k": [0, 1, 2, 5]})
_DAY = "INTERVAL '1' DAY * n"
_MONTH = "INTERVAL '1' MONTH * n"


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("collate(s, 'UTF8_LCASE')", "STRING COLLATE UTF8_LCASE"),
        ("upper(collate(s, 'UNICODE_CI'))", "STRING COLLATE UNICODE_CI"),
        ("s = collate(s, 'UTF8_LCASE')", "STRING COLLATE UTF8_LCASE"),
        ("array_contains(array(collate(s, 'UNICODE')), s)", "STRING COLLATE UNICODE"),
        ("map(s, collate(s, 'UNICODE'))", "STRING COLLATE UNICODE"),
        ("make_interval(i)", "interval is not supported: use make_ym_interval"),
        ("array(make_interval(i))", "interval is not supported: use make_ym_interval"),
        ("array(current_time())", "TIME, a type that the engine does not have"),
    ],
)
def test_types_that_the_engine_does_not_have(
    spark: SparkSession, expression: str, told: str
) -> None:
    frame = spark.createDataFrame([("a", 1)], "s STRING, i INT")
    problems = read_expressions(frame, [expression])[1]
    assert any(told in each for each in problems), problems


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (f"typeof({_MONTH})", "TypeOf: an argument of the type INTERVAL YEAR TO MONTH"),
        (f"typeof(array({_DAY}))", "TypeOf: an argument of the type ARRAY<INTERVAL DAY TO SECOND>"),
        (f"to_json(named_struct('a', {_MONTH}))", "StructsToJson: an argument of the type STRUCT<"),
        (f"to_json(map('a', {_DAY}))", "use a number of seconds"),
        ("to_csv(named_struct('n', n, 'a', null))", "cast the NULL"),
    ],
)
def test_a_type_that_a_kernel_does_not_declare(
    spark: SparkSession, expression: str, told: str
) -> None:
    frame = spark.createDataFrame([(1,)], "n INT")
    problems = read_expressions(frame, [expression])[1]
    assert any(told in each for each in problems), problems


def test_intervals_of_months_have_an_order_and_a_hash(spark: SparkSession) -> None:
    months = f"array({_MONTH}, INTERVAL '1' MONTH * k, NULL)"
    assert_parity(
        spark, _NUMBERS,
        [
            f"hash({_MONTH})", f"xxhash64({months})", f"{_MONTH} <=> INTERVAL 1 MONTH",
            f"{_MONTH} IN (INTERVAL 1 MONTH, INTERVAL 1 YEAR)",
            f"{months} < array(INTERVAL '1' MONTH * k)",
            f"array_max({months}) = INTERVAL 5 MONTH",
            f"array_position({months}, INTERVAL '1' MONTH * k)",
            f"greatest({_MONTH}, INTERVAL '1' MONTH * k) > INTERVAL 1 MONTH",
            f"sort_array({months})[0] IS NULL",
            f"size(map(coalesce({_MONTH}, INTERVAL '0' MONTH), 1))",
        ],
    )  # fmt: skip


def test_entries_of_a_map_that_is_null(spark: SparkSession) -> None:
    assert_parity(spark, _NUMBERS, ["map_entries(NULL) IS NULL"])


def test_intervals_times_what_is_far_too_much(spark: SparkSession) -> None:
    """It is the message that tells what has failed."""
    numbers = pa.table({"d": [1.5, -994101416281.0154, 1e300], "n": [4, 4, 4]})
    assert_parity(
        spark, numbers,
        [
            "extract(DAY FROM make_dt_interval(n) * d)",
            "extract(MONTH FROM make_ym_interval(n) * d)",
        ],
    )  # fmt: skip
