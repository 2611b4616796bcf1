"""From a specification to ``write_stream(...)`` on a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.errors import ConfigError
from engine.pipeline.pipeline import Watermark
from engine.plan.planner import plan_query
from engine.query.spec import build, load_spec

pytestmark = pytest.mark.spark

MODULE = """
from engine import write_stream

def query(spark):
    df = spark.readStream.format("rate").load()
    return write_stream(df).format("console").queryName("its own").option("truncate", "false")

def counting(spark):
    counts = spark.readStream.format("rate").load().groupBy("value").count()
    return write_stream(counts).format("memory").queryName("counts").outputMode("update")

def forgotten(spark):
    return spark.readStream.format("rate").load()

def broken(spark):
    raise KeyError("no such thing")
"""


def document(**changes: Any) -> dict[str, Any]:
    return {
        "name": "evens",
        "source": {"format": "rate", "options": {"rowsPerSecond": 5}},
        "sql": "SELECT value % 2 AS even, value FROM source",
        "sink": {"format": "json", "options": {"path": "out"}, "partition_by": ["even"]},
        "trigger": {"continuous": "200 ms"},
        "checkpoint_location": "checkpoint",
        **changes,
    }


def test_everything_is_handed_on(spark: SparkSession) -> None:
    writer = build(load_spec(document()), spark)
    assert writer.request.df.isStreaming
    assert writer.request.df.columns == ["even", "value"]
    assert (writer.request.sink_format, writer.request.query_name) == ("json", "evens")
    assert writer.request.sink_options == {"path": "out", "checkpointLocation": "checkpoint"}
    assert writer.request.partition_columns == ["even"]
    assert (writer.request.trigger_kind, writer.request.trigger_value) == ("continuous", "200 ms")


def test_a_watermark_and_an_output_mode(spark: SparkSession) -> None:
    watermark = {"column": "timestamp", "delay": "10 seconds"}
    writer = build(
        load_spec(
            document(
                source={"format": "rate", "watermark": watermark},
                sql="SELECT window(timestamp, '1 minute') AS w, count(*) FROM source GROUP BY w",
                sink={"format": "console", "output_mode": "update"},
            )
        ),
        spark,
    )
    assert writer.request.output_mode == "update"
    below, _ = plan_query(writer.request.df, output_mode="update")
    assert Watermark(0, 10_000) in below.steps
    unknown = document(source={"format": "rate", "watermark": {**watermark, "column": "at"}})
    with pytest.raises(ConfigError, match=r"source\.watermark: .*at"):
        build(load_spec(unknown), spark)


def test_without_sql_all_rows_are_taken(spark: SparkSession) -> None:
    sink = {"format": "noop"}
    writer = build(load_spec(document(sql=None, sink=sink, trigger={"once": True})), spark)
    assert writer.request.df.columns == ["timestamp", "value"]
    trigger: tuple[str, Any] = (writer.request.trigger_kind, writer.request.trigger_value)
    assert trigger == ("once", True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sql": "SELEC 1"}, r"^sql: \[PARSE_SYNTAX_ERROR\]"),
        ({"sql": "SELECT nothing FROM source"}, r"^sql: \[UNRESOLVED_COLUMN.*nothing"),
        ({"source": {"format": "no-such-source"}}, r"^source: \[DATA_SOURCE_NOT_FOUND\]"),
        ({"source": {"format": "rate", "schema": "a WHAT"}}, r"^source\.schema: \["),
        ({"sql": "SELECT 1 AS one"}, "needs a streaming DataFrame"),
    ],
)
def test_what_spark_refuses_names_its_place(
    changes: dict[str, Any], reason: str, spark: SparkSession
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        build(load_spec(document(**changes)), spark)
    assert "JVM stacktrace" not in str(caught.value)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module on the path."""
    (tmp_path / "queries_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "queries_of_a_test"


def test_a_function_may_build_the_query(spark: SparkSession, module: str) -> None:
    writer = build(load_spec({"query": f"{module}:query"}), spark)
    assert (writer.request.sink_format, writer.request.query_name) == ("console", "its own")
    spec = load_spec({"query": f"{module}:query", "name": "mine", "sink": {"format": "noop"}})
    writer = build(spec, spark)
    assert (writer.request.sink_format, writer.request.query_name) == ("noop", "mine")


def test_what_the_document_does_not_say_stays_the_function_s(
    spark: SparkSession, module: str
) -> None:
    def mode(**sink: str) -> str:
        document = {"query": f"{module}:counting", "sink": {"format": "noop", **sink}}
        return build(load_spec(document), spark).request.output_mode

    assert (mode(), mode(output_mode="complete")) == ("update", "complete")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("forgotten", r"returned DataFrame.*without start"),
        ("broken", "failed with KeyError: 'no such thing'"),
        ("missing", "failed with AttributeError"),
    ],
)
def test_functions_that_build_nothing(
    function: str, reason: str, spark: SparkSession, module: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        build(load_spec({"query": f"{module}:{function}"}), spark)
