"""``from_csv`` reads lines as univocity's parser does, and values as Spark does."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity

pytestmark = pytest.mark.spark

_LINES = [
    "a,b,c", "a,,b", '"say \\"hi\\", ok",2', '"a\\\\"', '"a\\b"', '\\"a\\",x"y', '"a"  ,b',
    '"x""y",z', '"not, closed', '"not closed\\', 'a,"', '"",', "", '"', '""', '" "', " ", ",", ",,",
    "a,b\n", '"a\nb",c', "a\r\n", '"a" x,b', '"a" "b,c', '"a"b"c",d', '"a\\', '"\\',
    '"\\"', '"\\""', "\\", "a\\,b", '"a\\,b', '"a\\\\",b', '"a\\\\\\"",b', "#a,b", "a,#", '"a"#',
    '"#', '"a",',
    '"a"\t', '"a"\t,', '"a"  \t b , c', "'a,b',c", "\tx,y\t", ' "a" , "b" ', '"a"," b"', "#",
    'x"a,b"y,z', '"""a""",b', '""a,b', '"" ,b', '"a,b"c,d"', '"a\\""b,c', "1;2;3", "1|2",
    '"a\0b"', "\0", '"\0', "a\x0c",
]  # fmt: skip
_OPTIONS = [
    "", "'sep', ';'", "'sep', '\\t'", "'quote', '\\''", "'quote', ''", "'escape', '\"'",
    "'escape', ''", "'escape', '\"', 'quote', '\\''", "'charToEscapeQuoteEscaping', '|'",
    "'charToEscapeQuoteEscaping', 'a'", "'comment', '#'", "'nullValue', 'a'", "'emptyValue', 'E'",
    "'ignoreLeadingWhiteSpace', 'true'", "'sep', ' '", "'quote', 'a'", "'sep', '\"'",
    "'sep', ' ', 'ignoreLeadingWhiteSpace', 'true'",
]  # fmt: skip


def test_lines(spark: SparkSession) -> None:
    rng = random.Random(5)
    letters = ["ab\"\\, \t#|;'\n\0", 'a"\\,  ']
    lines = [
        "".join(rng.choice(each) for _ in range(rng.randint(1, 12)))
        for each in letters
        for _ in range(500)
    ]
    expressions = []
    for option in _OPTIONS:
        options = "'columnNameOfCorruptRecord', 'q'" + (option and f", {option}")
        expressions.append(f"from_csv(s, 'x string, y string, z string, q string', map({options}))")
    table = pa.table({"s": [*_LINES, *lines, None]})
    assert_parity(spark, table, expressions, ansi=[True])


_VALUES = [
    "1", "-5", "+7", "127", "128", "32768", "2147483648", "9223372036854775808", "1.0", "1e2",
    " 1", "1 ", "", "x", "true", "TRUE", "False", "t", "NaN", "nan", "Inf", "-Inf", "inf",
    "Infinity", "-Infinity", "+Infinity", "1.5f", "1d", "0x1p3", ".5", "5.", "1e400", "1_000",
    "٣", "𝟛", "1.005", "99999", "12.344999", "+", "-", "1e-400", " NaN ", "1;000.5", "é", "NA",
    "9007199254740993", "16777217", "1.00000017881393432617187499", "2020-01-02", "2020-1-2",
    "2020-01-02 03:04:05", "2020-01-02T03:04:05Z", "GMT2020-01-02", "02.01.2020", "12:30",
    "999999999-01-01", "-0001-01-01", "00000000000000000000000000000000000001",
]  # fmt: skip
_TYPES = [
    "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(38,10)",
    "boolean", "date", "timestamp", "timestamp_ntz", "binary", "string",
]  # fmt: skip


def test_values(spark: SparkSession) -> None:
    options = (
        "map('columnNameOfCorruptRecord', 'q', 'dateFormat', 'dd.MM.yyyy',"
        " 'timestampFormat', 'yyyy-MM-dd HH:mm:ss', 'nullValue', 'NA')"
    )
    expressions = [f"from_csv(s, 'a {dtype}')" for dtype in _TYPES]
    expressions += [f"from_csv(s, 'a {dtype}, q string', {options})" for dtype in _TYPES]
    names = "map('nanValue', 'x', 'positiveInf', 'true', 'negativeInf', '+')"
    expressions.append(f"from_csv(s, 'a double', {names})")
    expressions.append("from_csv(s, 'a int, b string').a")
    table = pa.table({"s": [*_VALUES, *(f"{each},z" for each in _VALUES), None]})
    assert_parity(spark, table, expressions, ansi=[True], timezone="Europe/Berlin")


def test_what_raises(spark: SparkSession) -> None:
    expressions = [
        "from_csv(s, 'a int, b string', map('mode', 'FAILFAST'))",
        "from_csv(s, 'a int', map('mode', 'FAILFAST'))",
        "from_csv(s, 'a string', map('maxColumns', '1'))",
    ]
    table = pa.table({"s": ["1", "x", "1,2", "x,2", "", ",", '"1",', None]})
    assert_parity(spark, table, expressions)


def test_digits_of_all_scripts_in_json(spark: SparkSession) -> None:
    table = pa.table({"s": ['{"a":"٣"}', '{"a":"𝟛"}', '{"a":"1,٣"}']})
    assert_parity(spark, table, ["from_json(s, 'a decimal(5,2)')"], ansi=[True])


@pytest.mark.parametrize(
    "expression",
    [
        "from_csv(s, 'a int, _corrupt_record string')",
        "from_csv(s, 'a int', map('mode', 'DROPMALFORMED'))",
        "from_csv(s, 'a int', map('sep', '||'))",
        "from_csv(s, 'a int', map('ignoreTrailingWhiteSpace', 'true'))",
        "from_csv(s, 'a int', map('multiLine', 'true'))",
        "from_csv(s, 'a int', map('maxCharsPerColumn', '5'))",
        "from_csv(s, 'a int', map('unescapedQuoteHandling', 'RAISE_ERROR'))",
        "from_csv(s, 'a int', map('locale', 'de'))",
        "from_csv(s, 'a int, a string')",
    ],
)
def test_refused(spark: SparkSession, expression: str) -> None:
    with pytest.raises(AssertionError, match="unsupported: the expression"):
        assert_parity(spark, pa.table({"s": ["1"]}), [expression], ansi=[True])
