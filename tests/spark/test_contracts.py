"""What Spark looks at and a kernel does not is refused, and never passed over."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.expressions import assert_parity, configured, read_expressions

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("expression", "key", "value"),
    [
        ("to_timestamp(s, 'yyyy')", "spark.sql.legacy.timeParserPolicy", "LEGACY"),
        ("date_format(now(), 'yyyy')", "spark.sql.legacy.timeParserPolicy", "EXCEPTION"),
        ("to_json(struct(s))", "spark.sql.jsonGenerator.writeNullIfWithDefaultValue", "false"),
        ("from_json(s, 'a INT')", "spark.sql.json.enablePartialResults", "false"),
        ("from_json(s, 'a INT')", "spark.sql.legacy.json.allowEmptyString.enabled", "true"),
        ("upper(s)", "spark.sql.icu.caseMappings.enabled", "false"),
        ("initcap(s)", "spark.sql.icu.caseMappings.enabled", "false"),
        ("CAST(struct(s) AS STRING)", "spark.sql.legacy.castComplexTypesToString.enabled", "true"),
        ("map(s, 1)", "spark.sql.legacy.disableMapKeyNormalization", "true"),
        ("split(s, '')", "spark.sql.legacy.truncateForEmptyRegexSplit", "true"),
        ("str_to_map(s)", "spark.sql.legacy.truncateForEmptyRegexSplit", "true"),
        ("format_string('%s', s)", "spark.sql.legacy.allowZeroIndexInFormatString", "true"),
    ],
)
def test_a_setting_that_is_not_looked_at_keeps_its_default(
    spark: SparkSession, expression: str, key: str, value: str
) -> None:
    frame = spark.createDataFrame([("a", 1)], "s STRING, i INT")
    assert read_expressions(frame, [expression])[1] == []
    with configured(spark, {key: value}):
        problems = read_expressions(frame, [expression])[1]
    told = f"{key}, which is {value} in this session: unset it"
    assert [told in each for each in problems] == [True]


@pytest.mark.parametrize("option", ["encoding", "charset"])
@pytest.mark.parametrize(
    "call", ["from_json(s, 'a INT', {})", "to_json(struct(s), {})", "from_csv(s, 'a INT', {})",
             "to_csv(struct(s), {})"],
)  # fmt: skip
def test_an_encoding_that_spark_does_not_know_is_refused(
    spark: SparkSession, call: str, option: str
) -> None:
    """Spark fails for it, though texts have none."""
    frame = spark.createDataFrame([("a",)], "s STRING")
    known, unknown = (
        call.format(f"map('{option}', '{e}', 'nullValue', 'n')") for e in ("utf-16", "latin1")
    )
    if "json" in call:
        known, unknown = (each.replace(", 'nullValue', 'n'", "") for each in (known, unknown))
    assert read_expressions(frame, [known])[1] == []
    assert "'latin1' is none of" in read_expressions(frame, [unknown])[1][0]


def test_texts_that_are_not_base64(spark: SparkSession) -> None:
    texts = [
        "",
        "abc",
        "YWJj",
        "YW Jj\n",
        "YWI=",
        "YWI",
        "YQ==",
        "YQ=",
        "YQ",
        "Y",
        "Y===",
        "*",
        "YW*j",
    ]
    texts += ["YQ==\n", "YQ==YQ==", "=", "YWJj====", "YW\xa0Jj", "YW\u2003Jj", "YWI=YWI="]
    table = pa.table({"s": [*texts, None]})
    expressions = ["to_binary(s, 'base64')", "try_to_binary(s, 'base64')", "unbase64(s)"]
    assert_parity(spark, table, expressions)
