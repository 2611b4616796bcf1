"""What can never be evaluated is refused by its name, with a reason and what to do instead."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import UnsupportedQueryError
from engine.plan.planner import plan_query
from tests.spark.expressions import configured, read_expressions
from tests.spark.queries import stream_of

pytestmark = pytest.mark.spark

_TYPES = {"spark.sql.timeType.enabled": "true", "spark.sql.geospatial.enabled": "true"}
"""Spark 4.2 has them switched off."""


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("current_time()", ["CurrentTime has to do with TIME", "TIMESTAMP_NTZ"]),
        ("hour(to_time(s))", ["HoursOfTime has to do", "ToTime has to do"]),
        ("CAST(s AS TIME)", ["the data type time(6) is not supported: use"]),
        ("CAST(TIME'12:00:00' AS STRING)", ["the data type time(6) is not supported: use"]),
        ("concat(s, TIME'12:00:00')", ["the data type time(6) is not supported: use"]),
        ("to_json(struct(current_time() AS x))", ["CurrentTime has to do with TIME"]),
        ("to_xml(struct(now() AS x))", ["StructsToXml"]),
        ("upper(to_json(array(current_time())))", ["CurrentTime has to do with TIME"]),
        ("st_srid(st_geomfromwkb(b))", ["ST_Srid has to do with GEOMETRY", "keep WKB"]),
        (
            "reverse(array(parse_json(s)))",
            ["Reverse: an argument of the type ARRAY<VARIANT>"],
        ),
        ("make_interval(1, 2, 3)", ["the data type interval is not supported", "make_dt_interval"]),
        ("xpath_int(s, 'a/b')", ["XPathInt is what Java's own XML parser", "mapInArrow"]),
        ("sentences(s)", ["Sentences goes by rules of the Java runtime", "use split"]),
        (
            "approx_top_k_estimate(named_struct('sketch', b, 'maxItemsTracked', 10,"
            " 'itemDataType', 1, 'itemDataTypeDDL', 'item INT'), 5)",
            ["ApproxTopKEstimate goes through a table of Java's objects"],
        ),
        ("reflect('java.lang.Math', 'abs', 1)", ["CallMethodViaReflection calls Java"]),
        ("sentences(xpath_string(s, 'a'))", ["Sentences goes by", "XPathString is what"]),
        ("try_cast(map(1, s) AS MAP<TINYINT, STRING>)", ["Cast: a key of a map that does not fit"]),
        ("try_cast(array(map(1L, s)) AS ARRAY<MAP<INT, STRING>>)", ["Cast: a key of a map"]),
        ("CAST(map(1D, s) AS MAP<DECIMAL(3, 1), STRING>)", ["Cast: a key of a map that does not"]),
        ("datediff(DAYOFYEAR, d, d)", ["TimestampDiff: the unit DAYOFYEAR is not supported"]),
        ("format_string('%', s)", ["FormatString: the format '%' is not understood"]),
        ("format_string('%s%', s)", ["FormatString: the format '%' is not understood"]),
    ],
)
def test_by_name(spark: SparkSession, expression: str, words: list[str]) -> None:
    with configured(spark, _TYPES):
        row = ("a", bytearray(b"b"), None)
        frame = spark.createDataFrame([row], "s STRING, b BINARY, d TIMESTAMP")
        _, problems = read_expressions(frame, [expression])
    missing = [each for each in words if not any(each in problem for problem in problems)]
    assert missing == [], problems


def test_samples_by_strata(spark: SparkSession) -> None:
    """Which are a function of Scala's; what is said to do instead is the same by chance only."""
    stream = stream_of(spark, pa.schema([("s", pa.string())]))
    with pytest.raises(UnsupportedQueryError, match="ScalaUDF is a function of Java or Scala"):
        plan_query(stream.sampleBy("s", {"a": 0.5}, seed=1))
    plan_query(stream.where("rand(1) < CASE s WHEN 'a' THEN 0.5 ELSE 0 END"))


def test_character_sets_that_spark_fails_for(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a",)], "s STRING")
    (problem,) = read_expressions(frame, ["encode(s, 'utf8')"])[1]
    assert "UTF8 is none of US-ASCII, ISO-8859-1, UTF-8," in problem
