"""VARIANT is what Spark makes of it, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from engine.expressions.types import VARIANT, is_variant, schema_to_spark
from engine.expressions.variants.columns import array_of
from engine.expressions.variants.parse_json import octets_of_json
from engine.plan.planner import plan_query
from engine.task.transform import compile_steps
from tests.spark.edges import DOUBLES, INF
from tests.spark.expressions import assert_parity, configured
from tests.spark.test_plan import problems_of

pytestmark = pytest.mark.spark

_DUPLICATES = {"spark.sql.variant.allowDuplicateKeys": "true"}
_LENIENT = {"spark.sql.variant.validateUnicodeInJsonParsing": "false"}


def _texts(*texts: str | None) -> pa.Table:
    return pa.table({"s": pa.array([*texts, None], pa.string())})


def test_a_query_parses_and_looks_into_json(spark: SparkSession) -> None:
    rate = spark.readStream.format("rate").load()
    text = F.concat(F.lit('{"a": {"b": ['), "value", F.lit(', "x"]}}'))
    df = (
        rate.select(text.alias("s"))
        .selectExpr("parse_json(s) AS v")
        .selectExpr(
            "v", "v:a.b[0]::BIGINT AS n", "variant_get(v, '$.a.b[1]', 'string') AS t", "v:a.c AS c"
        )
    )
    (pipeline,) = plan_query(df)
    columns = [pa.array([0], pa.timestamp("us", tz="UTC")), pa.array([7], pa.int64())]
    batch = pa.RecordBatch.from_arrays(columns, schema=pipeline.source.schema)
    result = compile_steps(pipeline)(batch)
    assert result.schema.equals(pipeline.schema)
    assert is_variant(result.schema.field("v").type)
    (row,) = result.to_pylist()
    assert (row["n"], row["t"], row["c"]) == (7, "x", None)
    assert result.schema.field("v").type == VARIANT


_ODD = [
    "", " ", "1 2", "1x", "[1] x", "{} {", "nul", "truex", "+1", ".5", "1.", "1e", "-", "01", "-01",
    "1e400", "-1e400", "1e-400", "-0", "-0.0", "0.00", "1.0", "100", "1e2", "NaN", "Infinity",
    "'a'",
    '"a', '"\\x"', '"\\u12"', '"\\ud83d"', '"\\ude00"', '"\\ud83d\\ude00"', '{"\\ud83d": 1}',
    '"\t"',
    '"\x7f"', "\ufeff1", "{a: 1}", '{"a" 1}', '{"a": 1,}', "[1,]", "[,]", "[1 2]", "}", "]", "[}",
    '{"a": 1]', '{"": 1}', '{"a": 1, "a": 2}', '{"a": {"a": 1, "a": 1}}', "// c\n1", "/* */1",
    "127", "128", "-128", "-129", "32767", "32768", "-32769", "2147483647", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "9" * 38, "9" * 39, "9" * 400, "9" * 1000, "9" * 1001, "0." + "1" * 38, "0." + "1" * 39,
    "0." + "0" * 38 + "1", "12345678.9", "123456789.1", "0.123456789", "0.1234567891",
    "123456789012345678", "12345678901234567.8", "123456789012345678.9", "1.5E3", "1.5e+3", "1E-5",
    "[" * 200 + "]" * 200, "[" * 200, '"' + "x" * 63 + '"', '"' + "é" * 32 + '"',
    '"' + "x" * 70_000 + '"',
    '{"\uffff": 1, "\U00010000": 2, "a": 3}', '{"b": 1, "a": 2, "B": 3, "ä": 4, "": 5}',
    "[" + ",".join(["1"] * 255) + "]", "[" + ",".join(["1"] * 256) + "]", "\x00", "1\x00",
    "[1\x00]",
    "{" + ",".join(f'"k{i}": {i}' for i in range(300)) + "}",
    "[" + ",".join(["12345"] * 30_000) + "]",
    '{"%s": 1}' % ("n" * 300), '{"%s": 1}' % ("n" * 50_000), '{"%s": 1}' % ("n" * 50_001),
    '{"%s": 1}' % ("\U00010000" * 25_001),
]  # fmt: skip


def test_json_of_all_kinds(spark: SparkSession) -> None:
    assert_parity(spark, _texts(*_ODD), ["parse_json(s)", "try_parse_json(s)"], ansi=[True])


@pytest.mark.parametrize("conf", [_DUPLICATES, _LENIENT])
def test_json_under_other_settings(spark: SparkSession, conf: dict[str, str]) -> None:
    more = [
        '{"a": 1, "b": {"c": 1}, "a": "x", "b": 2}',
        '{"b": [1, {"z": 2}], "a": 1, "b": {}, "c": 3}',
        '{"a": 1, "a": 1, "a": 1}', '{"\\ud83d": 1, "\\ude00": 2}', '{"\\ud83d": 1, "?": 2}',
    ]  # fmt: skip
    with configured(spark, conf):
        assert_parity(spark, _texts(*_ODD, *more), ["parse_json(s)", "to_json(try_parse_json(s))"])


_VALUES = [
    "null", "true", "false", "0", "1", "-5", "127", "128", "300", "99999", "3000000000", "1.5",
    "-1.5",
    "1.50", "100.0", "1e2", "1e300", "-1e-300", "0.1234567890123", "99999999.99", "1e400", '"1"',
    '" 2 "', '"1.5"', '"x"', '""', '"true"', '"2020-02-29"', '"2020-02-29 12:30:00.5"', '"now"',
    '"2020-02-30"', '"12:30"', "[]", "[1, 2]", '["a", null]', "[[1], []]", "{}", '{"a": 1}',
    '{"a": "x", "b": 2, "c": [1]}', '{"A": 1, "a": 2}', "9223372036854775807",
    "9223372036854.7758079",
    "9223372036854.775808", "9223372036855", "1" * 38, "0." + "1" * 38, '{"a": {"b": {"c": 1}}}',
]  # fmt: skip
_TYPES = [
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)",
    "decimal(38,18)", "string", "binary", "date", "timestamp", "timestamp_ntz", "array<int>",
    "array<array<bigint>>", "map<string, int>", "map<string, variant>",
    "struct<a: int, c: array<int>>",
    "struct<>", "struct<a: struct<b: variant>>", "variant", "array<variant>",
]  # fmt: skip


@pytest.mark.parametrize("function", ["variant_get", "try_variant_get"])
def test_values_in_other_types(spark: SparkSession, function: str) -> None:
    expressions = [f"{function}(parse_json(s), '$', '{dtype}')" for dtype in _TYPES]
    assert_parity(spark, _texts(*_VALUES), expressions, timezone="America/New_York", ansi=[True])


def test_casts(spark: SparkSession) -> None:
    casts = [f"CAST(parse_json(s) AS {dtype})" for dtype in _TYPES]
    casts += [f"TRY_CAST(parse_json(s) AS {dtype})" for dtype in _TYPES]
    casts += ["CAST(array(parse_json(s)) AS ARRAY<INT>)"]
    casts += ["CAST(named_struct('v', parse_json(s), 'i', 1) AS STRUCT<v: STRING, i: BIGINT>)"]
    casts += ["CAST(named_struct('v', parse_json(s), 'i', 1) AS STRUCT<v: VARIANT, i: BIGINT>)"]
    assert_parity(spark, _texts(*_VALUES), casts, timezone="Europe/Berlin")


def test_times_and_numbers_into_variant(spark: SparkSession) -> None:
    moments = [
        0,
        -1,
        1_709_210_096_123_456,
        -62135596800 * 10**6,
        253402300800 * 10**6,
        -2717640000 * 10**6,
    ]
    size = len(DOUBLES)
    # Java before 19 writes larger whole numbers with a digit more.
    singles = [1.5 if 2**24 < abs(each or 0) < INF else each for each in DOUBLES]
    table = pa.table(
        {
            "d": pa.array(DOUBLES, pa.float64()),
            "f": pa.array(singles, pa.float64()).cast(pa.float32(), safe=False),
            "ts": pa.array([moments[i % 6] for i in range(size)], pa.int64()).cast(
                pa.timestamp("us", tz="UTC")
            ),
            "dt": pa.array(
                [moments[i % 6] // 86_400_000_000 for i in range(size)], pa.int32()
            ).cast(pa.date32()),
        }
    )
    everything = "struct(d, f, ts, CAST(ts AS TIMESTAMP_NTZ) AS ntz, dt, X'00ff' AS b)"
    expressions = [
        "CAST(d AS VARIANT)", "CAST(f AS VARIANT)", "CAST(ts AS VARIANT)",
        f"to_variant_object({everything})", f"to_json(to_variant_object({everything}))",
        f"to_variant_object({everything})::string",
        "variant_get(CAST(ts AS VARIANT), '$', 'date')", "CAST(ts AS VARIANT)::string",
        "try_variant_get(CAST(f AS VARIANT), '$', 'timestamp')",
        "try_variant_get(CAST(dt AS VARIANT), '$', 'int')",
    ]  # fmt: skip
    for timezone in ("America/New_York", "Africa/Monrovia", "UTC"):
        assert_parity(spark, table, expressions, timezone=timezone, ansi=[True])


def test_objects_of_structs_and_maps(spark: SparkSession) -> None:
    assert_parity(
        spark,
        _texts("a", "é", "b"),
        [
            "to_variant_object(named_struct('b', s, 'a', 1, 'c', named_struct('a', int(NULL))))",
            "to_variant_object(named_struct('a', 1, 'a', s))",
            "to_variant_object(map(s, array(s, NULL)))",
            'to_variant_object(array(try_parse_json(s), parse_json(\'{"q": [1, {"p": 2}]}\')))',
            "to_variant_object(struct(s)):s::string",
        ],
    )


_SCHEMAS = [
    *_VALUES, "[1, 1.5]", "[1.5, 1e3]", "[1, 1e3]", "[1, 123456789012345678901]", "[1, null]",
    "[1.25, 1000.5]", f"[{'1' * 38}, 0.{'1' * 20}]", '[{"a": 1}, {"a": 1.5}]',
    '[{"a": 1}, {"A": 2}]',
    '[{"a": 1}, {"b": "x"}, {"a": null}]', '[{"a": [1]}, {"a": ["x"]}]', '[{"a": 1}, [1]]',
    '[1, "x"]',
    '[[1], [1.5], []]', '{"a b": 1, "1": 2, "x`y": 3, "é": 4, "": 5}', '[{"ſ": 1}, {"S": 2}]',
    '[{"b": 1, "C": 2}, {"B": 1.5, "c": "x"}]', '[true, 1]', "[[], {}]",
]  # fmt: skip


def test_schemas(spark: SparkSession) -> None:
    table = _texts(*_SCHEMAS)
    merged = "to_variant_object(array(to_variant_object(struct({} AS a)), parse_json(s)))"
    more = ["X'00'", "DATE'2020-01-01'", "1.5F", "TIMESTAMP_NTZ'2020-01-01'"]
    both = "to_variant_object(array(CAST({} AS VARIANT), CAST({} AS VARIANT)))"
    pairs = [
        ("1.5F", "1.5BD"),
        ("1.5BD", "1.5F"),
        ("1.5F", "1L"),
        ("1.5F", "1.5D"),
        ("DATE'2020-01-01'", "TIMESTAMP_NTZ'2020-01-01'"),
    ]
    assert_parity(
        spark,
        table,
        [
            "schema_of_variant(parse_json(s))",
            *(f"schema_of_variant({merged.format(each)})" for each in more),
            *(f"schema_of_variant({both.format(*pair)})" for pair in pairs),
        ],
        ansi=[True],
    )


def test_sources_and_python_functions_of_variants_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    rate = spark.readStream.format("rate").load()
    df = rate.selectExpr("parse_json('1') AS v")
    called = df.select(F.udf(lambda v: 1, "int")("v"))
    assert any("VARIANT" in each for each in problems_of(called))
    mapped = df.mapInArrow(lambda batches: batches, "v VARIANT")
    assert any("VARIANT" in each for each in problems_of(mapped))
    files = spark.readStream.schema("v VARIANT").json(str(tmp_path))
    assert any("the column v" in each for each in problems_of(files))


@pytest.mark.parametrize(
    "expression",
    [
        "reverse(array(parse_json(s)))",
        "from_json(s, 'v VARIANT')",
        "CAST(array(parse_json(s)) AS STRING)",
    ],
)
def test_what_would_take_it_for_a_struct_is_refused(spark: SparkSession, expression: str) -> None:
    df = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS s")
    assert any("VARIANT" in each for each in problems_of(df.selectExpr(expression)))


def test_rows_that_spark_gets_have_it_again(spark: SparkSession) -> None:
    table = pa.table(
        [array_of([octets_of_json('{"a": 1.50}', keeps_last=False, validates=True), None])],
        schema=pa.schema([("v", VARIANT)]),
    )
    df = spark.createDataFrame(table, StructType.fromJson(schema_to_spark(table.schema)))
    assert [row.s for row in df.selectExpr("to_json(v) AS s").collect()] == ['{"a":1.5}', None]
    assert df.selectExpr("typeof(v) AS t", "typeof(array(v)) AS l").first() == (
        "variant",
        "array<variant>",
    )


def test_its_name(spark: SparkSession) -> None:
    assert_parity(spark, _texts("1"), ["typeof(parse_json(s))", "typeof(array(parse_json(s)))"])
