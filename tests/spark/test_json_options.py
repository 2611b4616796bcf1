"""The options of ``from_json`` and ``to_json``, on records of every kind."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity, configured
from tests.spark.test_expressions_json import (
    _BROKEN,
    _MALFORMED,
    _NUMBERS,
    _STRINGS,
    _random_columns,
)

pytestmark = pytest.mark.spark

_SCHEMAS = [
    "a string, b int, k int, s array<int>",
    "a int, k int, s struct<x: int, k: int>",
    "a double, s map<string, int>, k int",
    "a float, s string",
]
_LENIENT = [
    '{a:1,"b":2}', "{@#*-+a$:1,a:2}", "{é_a:1, a :3}", "{a b:1}", "{1a:2,a:3}", "{'a':1}",
    "{'a':'x\\'y'}", '{"a":"x\\\'y"}', '{a😀:1,"a":2}', '{²:1,"a":5}', '{"s":[a:1],"k":5}',
    '{"s":{x:1,k:2},"k":3}', '{"a":"b\\qc"}', '{"a":"\\😀"}', '{"a\\q":1,"a":2}', '{"a":00}',
    '{"a":007}', '{"a":-00.5}', '{"a":00x}', '{"a":0001e2,"k":3}', '{"a":-0012}',
    '{"s":[00,01,-007],"k":1}', '{"a":"x\ny","k":1}', '{"a\n":1,"a":2}', '{"a":NaN}',
    '{"a":[NaN]}', '{"a":-INF,"k":3}', '{"a":+INF}', '{"a":"NaN"}', '{"s":[NaN,1],"k":2}',
    '{"s":[+x],"k":2}',
]  # fmt: skip


def _records() -> pa.Table:
    fields = [f'{{"a":{value}}}' for value in [*_NUMBERS, *_STRINGS]]
    broken = [f'{{"f":0,"s":{each},"k":1,"l":2}}' for each in _BROKEN]
    return pa.table({"s": [*_MALFORMED, *fields, *broken, *_LENIENT, None]})


@pytest.mark.parametrize("schema", _SCHEMAS)
def test_what_is_taken_beyond_the_standard(spark: SparkSession, schema: str) -> None:
    options = [
        "'allowUnquotedFieldNames', 'true'",
        "'allowNumericLeadingZeros', 'true'",
        "'allowBackslashEscapingAnyCharacter', 'true'",
        "'allowUnquotedControlChars', 'true'",
        "'allowSingleQuotes', 'false'",
        "'allowNonNumericNumbers', 'false'",
        "'allowSingleQuotes', 'false', 'allowBackslashEscapingAnyCharacter', 'true'",
    ]
    wide = f"{schema}, _corrupt_record string"
    expressions = [f"from_json(s, '{wide}', map({option}))" for option in options]
    assert_parity(spark, _records(), expressions, ansi=[True])


def test_corrupt_records(spark: SparkSession) -> None:
    named = "'columnNameOfCorruptRecord', 'q'"
    expressions = [f"from_json(s, 'q string, {each}', map({named}))" for each in _SCHEMAS]
    expressions.append(f"from_json(s, 'a int, q string', map({named}, 'mode', 'FAILFAST'))")
    expressions.append("from_json(s, '_corrupt_record string', map('mode', 'permissive'))")
    expressions.append("from_json(s, 'array<struct<a: int, _corrupt_record: string>>')")
    assert_parity(spark, _records(), expressions, ansi=[True])
    with configured(spark, {"spark.sql.columnNameOfCorruptRecord": "bad"}):
        expression = "from_json(s, 'bad string, a int', map('mode', 'PERMISSIVE'))"
        assert_parity(spark, _records(), [expression], ansi=[True])


@pytest.mark.parametrize("schema", ["array<int>", "map<string, string>", "array<struct<x: int>>"])
def test_failing_fast_without_a_struct(spark: SparkSession, schema: str) -> None:
    failing = f"from_json(s, '{schema}', map('mode', 'FAILFAST'))"
    assert_parity(spark, _records(), [failing], ansi=[True])


_BASE64 = [
    '""', '"YQ=="', '"YWI="', '"YWJj"', '"YWJjYQ=="', '"YQ==YQ=="', '" YWJj "', '"YWJj\nYWJj"',
    '"YW Jj"', '"Y"', '"YQ"', '"YQ="', '"YWI"', '"="', '"=a"', '"YQ=a"', '"Y*Jj"', '"YWJj*"',
    '"YW\\u004aj"', '"YWJj\\n"', '"YQ\\u003d="', '"YQ=\\u003d"', '"\\u0020YWJj"', '"Y\\u0020"',
    '"Y\\q"', '"YWJjY"', '"YW\\"Jj"', "'YQ=='", "'YWJj\\n'", "'Y'", "' YWJj'", "'YW\\u004aj'",
    '"YW', "5", "null", "true", "[]", '"YWJj\tYQ=="', '"-_=="', '"\\\\YWJ"', '"é"', '"YWJjé"',
    '"\x00YWJj"', '"YQ==\\nYQ=="', '"YR=="', '"\\"YWJj"', '"\x7f"',
]  # fmt: skip


def test_binary_fields(spark: SparkSession) -> None:
    """Base64, and how reading goes on behind what is none."""
    inside = [f'{{"k":0,"a":{each},"k":1,"l":["x","y"]}}' for each in _BASE64]
    table = pa.table({"s": [*inside, *(f'[{each},"YQ=="]' for each in _BASE64), None]})
    expressions = [
        "from_json(s, 'a binary, k int, l array<string>')",
        "from_json(s, 'a binary, k int, c string', map('columnNameOfCorruptRecord', 'c'))",
        "from_json(s, 'array<binary>')",
        "from_json(s, 'map<string, binary>')",
        "from_json(s, 'a binary', map('allowUnquotedControlChars', 'true'))",
    ]
    assert_parity(spark, table, expressions, ansi=[True])


_TIMES = [
    "2020-01-02", "02.01.2020", "2.1.2020", "2020-01-02 03:04", "03:04", "20200102", "123",
    "2020-01-02T03:04:05.678Z", "2020-01-02T03:04:05+0100", "GMT2020-01-02", "31.02.2020", "",
    "2020-01-02 03:04:05.123456", "+12345-01-01", "0000-01-01", "-0001-01-01", "Jan 2, 2020",
    "02/01/2020 11:12 PM", "999999999-01-01", "24:00", "1/2/20", "  02.01.2020",
    "2024-03-31 02:30", "2024-10-27 02:30", "292278-01-01", "300000-05-05",
    "2020-01-01T12:00:00GMT+01:00", "2020-01-01 GMT", "GMT2020-01-01 10:00:00", "12GMT",
    "2020-01-01T12:00:00GMTGMT",
]  # fmt: skip
_PATTERNS = [
    "dd.MM.yyyy", "d.M.y", "yyyy-MM-dd HH:mm", "HH:mm", r"yyyy-MM-dd\'T\'HH:mm:ss.SSSxxx",
    "yyyyMMdd", "yyyy-MM-dd[ HH:mm:ss]", "yyyy-MM-dd HH:mm:ss.SSSSSS", "MMM d, yyyy",
    "dd/MM/yyyy hh:mm a", "y-M-d", "d/M/yy", r"yyyy-MM-dd\'T\'HH:mm:ssZ",
]  # fmt: skip


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_patterns_of_dates_and_timestamps(spark: SparkSession, zone: str) -> None:
    texts = [f'{{"a":"{each}"}}' for each in _TIMES]
    texts += ['{"a":5}', '{"a":5.5}', '{"a":null}', '{"a":9999999999999999}']
    expressions = [f"from_json(s, 'a {dtype}')" for dtype in ("date", "timestamp", "timestamp_ntz")]
    for pattern in _PATTERNS:
        named = f"map('dateFormat', '{pattern}', 'columnNameOfCorruptRecord', 'c')"
        expressions += [
            f"from_json(s, 'a date, c string', {named})",
            f"from_json(s, 'a timestamp', map('timestampFormat', '{pattern}'))",
            f"from_json(s, 'a timestamp_ntz', map('timestampNTZFormat', '{pattern}'))",
        ]
    idle = "'locale', 'en-US', 'multiLine', 'true', 'encoding', 'UTF-16', 'samplingRatio', '0.5'"
    expressions.append(f"from_json(s, 'a timestamp', map('timeZone', '+05:00', {idle}))")
    expressions.append("from_json(s, 'a timestamp', map('timeZone', 'America/New_York'))")
    assert_parity(spark, pa.table({"s": texts}), expressions, ansi=[True], timezone=zone)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_options_of_writing(spark: SparkSession, zone: str) -> None:
    everything = (
        "struct(a, b, c, d, e, t, arr, m, st, dec, f, bi, CAST(t AS TIMESTAMP_NTZ) AS n,"
        " struct() AS em, array(st) AS ast, map('k😀', st) AS mst, array(array(a), array()) AS aa,"
        " c AS `é`)"
    )
    options = [
        "'pretty', 'true'",
        "'pretty', 'true', 'ignoreNullFields', 'false'",
        "'writeNonAsciiCharacterAsCodePoint', 'true'",
        "'dateFormat', 'dd/MM/yyyy', 'timestampFormat', 'yyyy MMM d HH:mm:ss.SSSSSS xxx'",
        "'timestampNTZFormat', 'HH:mm \"E'",
        "'timeZone', 'Asia/Tokyo'",
    ]
    expressions = [f"to_json({everything}, map({option}))" for option in options]
    expressions += [
        f"to_json({each}, map('pretty', 'true'))"
        for each in ("arr", "m", "array(st, st)", "array(m)")
    ]
    assert_parity(spark, _random_columns(), expressions, ansi=[True], timezone=zone)


def test_the_sessions_word_on_null_fields(spark: SparkSession) -> None:
    with configured(spark, {"spark.sql.jsonGenerator.ignoreNullFields": "false"}):
        expressions = ["to_json(st)", "to_json(st, map('ignoreNullFields', 'true'))"]
        assert_parity(spark, _random_columns(), expressions, ansi=[True])
