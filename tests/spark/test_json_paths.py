"""``get_json_object`` with all that a path may have, and with what Spark takes for one."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_TEXTS = [
    '{"a":[1,[2,3],{"b":"x"},"y",null]}',
    '{"a":[{"b":1},{"b":"q\\"😀"},{"c":2},{"b":null},{"b":[1,2]}]}', "[[1,[2]],[3],4,[]]",
    "[[[1],[2]],[[3,[4]]]]", '{"a":[],"a":[[1]]}', '{"a":[[]],"a":[[5],[6]],"a":7}',
    '[{"a":{"b":1}},{"a":{"b":2}}]', "[1]", '["x"]', '["x","y"]', "[[]]", "[]",
    '{"a":[{"b":[{"c":1},{"c":2}]},{"b":[{"c":3}]}]}', '{"a":{"b":[1]}}',
    '{"a b":1," a":2,"*":3,"a.b":4,"a ":6,"?":5}', '["\\ud83d"]',
    '["\\ud83d\\ude00",1.50,1e400,"\\u001f"]', '{"a":["x"],"a":["y"]}', '[{"a":[]},{"a":[1]}]',
    "[null]", "[null,null]", '{"a":"s"}', "1", '"x"', "[1,2", '{"a":[1,2}',
    '[[["a","b"],["c"]],[["d"]]]', '[{"b":[1,2]},{"b":[]},{"b":[3]}]', "[[],[[]]]", "[[[]]]",
    '{"a":[[],[1]],"a":[2]}', "['\\ud83d','x']",
]  # fmt: skip
_PATHS = [
    "$[*]", "$.a[*]", "$.a[*].b", "$[*][*]", "$[*][*][*]", "$.a[*][*]", "$[*].a.b", "$[*].a[*]",
    "$[0][*]", "$[1][*]", "$[*][0]", "$[*][0][*]", "$[*][*][0]", "$.*", "$[*].*", "$['*']",
    "$.a.*", "$.a[0][*]", "$.a[*].b[*].c", "$.a[*].b[*]", "$.a[0].b[*].c", "$[*].b[*]",
    "$.a[1][*][*]", "$['a b']", "$. a", "$.a b", "$[' a']", "$['a ']", "$.a ", "$['a.b']", "$[ 0]",
    "$[0 ]", "$[0] ", " $.a", "$..a", "$.", "$[]", "$a", "", "$['?']", "$['a'].b", "$ .a",
    "$ ['a']", "$[*]x", "$.*x", "$[-1]", "$[*][*][*][*]", "$[*].a[*][0]", "$[0][*][*]", "$.a[1].b",
    "$[0][0][*]", "$['a' ]", "$.a\t[0]", "$[\t0]", "$ [0]", "$ [*]", "$\n.*", "$[ *]",
]  # fmt: skip


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def test_constant_paths(spark: SparkSession) -> None:
    table = pa.table({"s": [*_TEXTS, None]})
    expressions = [f"get_json_object(s, {_literal(path)})" for path in _PATHS]
    assert_parity(spark, table, expressions, ansi=[True])


def test_paths_that_are_columns(spark: SparkSession) -> None:
    texts, paths = zip(*itertools.product(_TEXTS, _PATHS), strict=True)
    table = pa.table({"s": [*texts, None, "[]"], "p": [*paths, "$", None]})
    assert_parity(spark, table, ["get_json_object(s, p)"], ansi=[True])


def test_positions_beyond_64_bits(spark: SparkSession) -> None:
    table = pa.table({"s": ["[1]", None], "p": ["$[9223372036854775808", "$"]})
    expressions = ["get_json_object(s, '$[9223372036854775808]')", "get_json_object(s, p)"]
    expressions.append("get_json_object(s, '$[9223372036854775807]')")
    assert_parity(spark, table, expressions)


def test_numbers_longer_than_jackson_reads(spark: SparkSession) -> None:
    """A thousand digits, those of the exponent among them."""
    numbers = ["1" * 1000, "1" * 1001, "1" * 998 + ".5", "1" * 1000 + ".5", "1" * 999 + "e10"]
    table = pa.table({"s": [f'{{"a":{number},"b":2}}' for number in numbers]})
    expressions = ["get_json_object(s, '$.a')", "get_json_object(s, '$.b')"]
    expressions += ["from_json(s, 'a string, b int')", "from_json(s, 'a decimal(9,0), b int')"]
    assert_parity(spark, table, expressions, ansi=[True])
