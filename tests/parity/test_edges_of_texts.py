"""JSON nested as deeply as Spark reads it, and what is written for NULL, or found nowhere:
``make test-spark-matrix`` runs this on each release."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_DEPTHS = [1, 2, 329, 330, 499, 500, 900, 990, 997, 998, 999, 1000, 1001, 1002, 3000]


def test_deep_json(spark: SparkSession) -> None:
    objects = ['{"a":' * depth + "1" + "}" * depth for depth in _DEPTHS]
    arrays = ["[" * depth + "1" + "]" * depth for depth in _DEPTHS]
    in_arrays = ['{"a":' + each + "}" for each in arrays]
    twice = ['{"a":' + each + ',"b":1,"b":2}' for each in objects]
    table = pa.table({"j": objects + arrays + in_arrays + twice})
    texts = [
        *("from_json(j, 'a STRING')", "from_json(j, 'map<string,string>')"),
        *("from_json(j, 'array<string>')", "from_json(j, 'a STRING, b INT, c STRING')"),
        "from_json(j, 'a STRING', map('allowSingleQuotes', 'false'))",
        *("get_json_object(j, '$')", "get_json_object(j, '$.a')", "get_json_object(j, '$[*]')"),
        *("json_array_length(j)", "json_object_keys(j)", "is_variant_null(try_parse_json(j))"),
        "CAST(try_parse_json(j) AS STRING)",
    ]
    assert_parity(spark, table, texts)


def test_deep_arrays_taken_apart(spark: SparkSession) -> None:
    """Of deeper ones the stack of Spark's task overflows, and ends the JVM."""
    arrays = ["[1," * depth + "[]" + "]" * depth for depth in (1, 2, 330, 500)]
    table = pa.table({"j": arrays + ['{"a":' + each + "}" for each in arrays]})
    paths = ("$[*][*]", "$.a[*][*]")
    assert_parity(spark, table, [f"get_json_object(j, '{path}')" for path in paths])


def test_null_in_csv(spark: SparkSession) -> None:
    table = pa.table({"i": pa.array([None, 0, 1], pa.int32()), "s": [None, "", "x"]})
    values = [
        *("array(i, 1) l", "array(i) l", "array(1, i) l", "array(i, NULL) l", "map('', i) m"),
        *("map('k', s, 'l', i || '') m", "struct(i, s) r", "array(struct(s, i), NULL) r"),
    ]
    options = ["", ", 'nullValue', ''", ", 'nullValue', 'x'", ", 'nullValue', ' '"]
    texts = [
        f"to_csv(struct({value}, 1 AS z), map('sep', '|'{option}))"
        for value in values
        for option in options
    ]
    assert_parity(spark, table, texts)


def test_parts_of_urls_by_odd_keys(spark: SparkSession) -> None:
    keys = ["a", "b", "a|b", "a|(b)", "(a)", "(a)|b", "a|", "|a", "a=1|b", "", ".", "b|(a)=()"]
    urls = ["http://h/?a=1", "http://h/?b=2&a=1", "http://h/?a=", "http://h/?", "http://h/", None]
    texts = [f"parse_url(u, 'QUERY', '{key}')" for key in keys]
    assert_parity(spark, pa.table({"u": urls}), texts)


def test_whole_numbers_of_any_script(spark: SparkSession) -> None:
    """A date may be a number of days, as Spark 1.5 wrote it; Java reads the digits of all scripts
    that one of its characters has."""
    digits = ["1", "+1", "-1", "１", "-\u0661\u0662", "\U0001d7cf", "²", "1 ", "", "2147483648"]
    texts = [*digits, "-2147483648", "0" * 5_000 + "7", "9" * 5_000, "-141428"]
    table = pa.table({"s": texts, "j": [f'{{"a":"{text}"}}' for text in texts]})
    queries = [
        f"{read}, 'a {dtype}')"
        for read in ("from_json(j", "from_csv(s")
        for dtype in ("DATE", "INT", "BIGINT", "TINYINT", "DOUBLE", "DECIMAL(10,2)", "TIMESTAMP")
    ]
    queries += ["CAST(s AS INT)", "try_cast(s AS INT)", "try_cast(s AS DATE)"]
    assert_parity(spark, table, queries)


def test_thousands_of_digits_amid_other_text(spark: SparkSession) -> None:
    table = pa.table({"n": ["9" * 5_000, "0" * 5_000 + "1", "1", "-1"]})
    texts = [
        *("parse_url('http://h:' || n || '/', 'HOST')", "CAST(n AS FLOAT)", "conv(n, 10, 16)"),
        *("get_json_object('[1, 2]', '$[' || n || ']')", "try_to_number(n, '999')"),
        "try_variant_get(parse_json('[1, 2]'), '$[' || replace(n, '9', '0') || ']', 'int')",
        *("TIMESTAMP'2020-01-01' + try_cast(n || ' days' AS INTERVAL)", "try_cast(n AS DATE)"),
        "regexp_replace('ab', '(a)', '$' || replace(n, '-', ''))",
        "from_utc_timestamp(TIMESTAMP'2020-01-01', '+' || substr(n, 4990))",
    ]
    assert_parity(spark, table, texts, ansi=(False,))


def test_names_that_are_too_long(spark: SparkSession) -> None:
    names = ["a" * length for length in (49_999, 50_000, 50_001, 70_000)]
    names += ['\\"' * 50_000, '\\"' * 50_001, "\\u0041" * 9_000]
    records = [f'{{"b":1,"{name}":2,"b":3}}' for name in names]
    values = [f'{{"b":"{name}"}}' for name in names]
    table = pa.table({"j": [*records, *values, f'["{names[3]}",{records[3]}]']})
    texts = [
        *("from_json(j, 'b STRING')", "from_json(j, 'map<string,string>')", "json_object_keys(j)"),
        *("from_json(j, 'b BIGINT, c DOUBLE')", "get_json_object(j, '$.b')"),
        *("from_json(j, 'array<string>')", "CAST(try_parse_json(j) AS STRING)"),
        "json_array_length(j)",
    ]
    assert_parity(spark, table, texts, ansi=(False,))


def test_a_million_characters(spark: SparkSession) -> None:
    """What takes the square of a text's length would not come to an end."""
    table = pa.table({"s": ["9" * 10**6 + "x", "1e" * 500_000, "." + "9" * 10**6 + "x"]})
    texts = ["CAST(s AS DOUBLE)", "CAST(s AS FLOAT)", "try_cast(s AS DECIMAL(38,0))"]
    texts += ["conv(s, 16, 10)", "from_csv(s, 'a DOUBLE')"]
    assert_parity(spark, table, texts, ansi=(False,))
