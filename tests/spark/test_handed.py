"""What is refused, or told, of a query for Spark before anything is created."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from engine import register
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError
from engine.query import handed
from engine.query.explanation import explain_query
from engine.query.spark_options import OF_SINKS
from engine.query.writer import ContinuousStreamWriter
from engine.spark.failure import describe_error
from tests.spark.since import WITHOUT_MICRO_BATCHES
from tests.spark.test_native_queries import WAIT_S, into, rate

pytestmark = pytest.mark.spark


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(str(tmp_path / "a checkpoint"))


class OnlyRead(DataSource):
    @classmethod
    def name(cls) -> str:
        return "only_read"


@pytest.mark.parametrize(
    ("sink", "told"),
    [("nosuch", "spark.jars.packages"), ("delta", "io.delta:delta"), ("http", "the engine's")],
)
def test_a_sink_that_spark_does_not_know_is_refused_before_anything_is_created(
    spark: SparkSession, checkpoint: Checkpoint, sink: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=f"Spark refuses the sink {sink}: .*data source") as error:
        into(rate(spark), checkpoint, sink, once=True).start()
    assert told in str(error.value.hint)
    assert not Path(checkpoint.url).exists()


@pytest.mark.parametrize(
    ("source", "options", "told"),
    [
        ("mqtt", {"url": "mqtt://127.0.0.1:1", "topics": "a"}, "is for continuous queries"),
        pytest.param("arrow_rate", {}, r"needs Spark 4\.2 or later", marks=WITHOUT_MICRO_BATCHES),
        pytest.param(
            "kafka",
            {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a"},
            r"needs Spark 4\.2 or later",
            marks=WITHOUT_MICRO_BATCHES,
        ),
    ],
)
def test_a_source_that_micro_batches_cannot_read_is_refused_before_anything_is_created(
    spark: SparkSession, checkpoint: Checkpoint, source: str, options: dict[str, str], told: str
) -> None:
    if source == "mqtt":
        pytest.importorskip("paho.mqtt.client", reason="needs the extra mqtt")
    register(spark)
    df = spark.readStream.format(source).options(**options).load()
    with pytest.raises(ConfigError, match=told):
        into(df, checkpoint, availableNow=True).start()
    assert not Path(checkpoint.url).exists()


@pytest.mark.parametrize("name", ["memory", "Memory"])
def test_the_memory_sink_is_found_in_any_case(
    spark: SparkSession, checkpoint: Checkpoint, name: str
) -> None:
    query = into(rate(spark), checkpoint, name, once=True).queryName(name).start()
    assert query.awaitTermination(WAIT_S)
    assert spark.table(name).columns == ["timestamp", "value"]


def test_a_table_of_a_format_that_spark_does_not_know_is_refused(
    spark: SparkSession, checkpoint: Checkpoint
) -> None:
    with pytest.raises(ConfigError, match=r"Spark refuses the query: .*data source: nosuch"):
        into(rate(spark), checkpoint, "nosuch", once=True).toTable("of_no_format")


@pytest.mark.parametrize(
    ("sink", "options", "told"),
    [
        ("rate", {}, "it does not support streamed writing"),
        ("jdbc", {"url": "jdbc:x:y", "dbtable": "t"}, "it does not support streamed writing"),
        ("hive", {}, "it does not support streamed writing"),
        ("socket", {}, "Set a host"),
        ("socket", {"host": "localhost", "port": 1}, "it does not support streamed writing"),
        ("orc", {}, "option path, the folder, is missing"),
        ("parquet", {"path": "out", "retention": "long"}, "Failed to parse|must be specified"),
        (None, {}, "option path, the folder, is missing"),
    ],
)
def test_a_sink_that_spark_cannot_write_to_is_refused_before_anything_is_created(
    spark: SparkSession,
    checkpoint: Checkpoint,
    sink: str | None,
    options: dict[str, str | int],
    told: str,
) -> None:
    writer = into(rate(spark), checkpoint, "noop", once=True).options(**options)
    writer.request.sink_format = sink
    for begin in (explain_query, ContinuousStreamWriter.start):
        with pytest.raises(
            ConfigError, match=f"Spark refuses the sink {sink or 'parquet'}: {told}"
        ):
            begin(writer)
    assert not Path(checkpoint.url).exists()


def test_a_memory_sink_without_a_name_is_refused(
    spark: SparkSession, checkpoint: Checkpoint
) -> None:
    writer = into(rate(spark), checkpoint, "Memory", once=True)
    for begin in (explain_query, ContinuousStreamWriter.start):
        with pytest.raises(ConfigError, match="memory sink needs a name"):
            begin(writer)
    assert not Path(checkpoint.url).exists()


def test_a_registered_source_is_no_sink(spark: SparkSession, checkpoint: Checkpoint) -> None:
    register(spark)
    spark.dataSource.register(OnlyRead)
    for sink, told in (("redis", "the engine's alone"), ("only_read", "streamWriter")):
        with pytest.raises(ConfigError, match=f"Spark refuses the sink {sink}: .*{told}"):
            into(rate(spark), checkpoint, sink, once=True).start()
    assert not Path(checkpoint.url).exists()


@pytest.mark.parametrize(
    ("sink", "without_effect", "known"),
    [
        ("parquet", ["compactInterval"], ["path", "compression", "retention"]),
        ("JSON", ["compactinterval"], ["path", "timeZone"]),
        ("csv", ["compactInterval"], ["path", "header", "nullValue"]),
        ("delta", ["commitInterval", "schemaEvolution", "targetFileSize"], ["compression"]),
        ("iceberg", ["commitInterval", "compression", "partitionSpec", "table"], []),
        ("kafka", ["transactionalIdPrefix"], ["topic", "kafka.transaction.timeout.ms"]),
        ("console", ["maxShippedBytesPerEpoch", "timeZone"], ["numRows", "truncate"]),
        ("memory", ["maxShippedBytesPerEpoch"], []),
        ("foreachBatch", ["maxShippedBytesPerEpoch"], []),
    ],
)
def test_options_of_our_sink_that_sparks_of_the_same_name_does_not_know(
    spark: SparkSession,
    checkpoint: Checkpoint,
    caplog: pytest.LogCaptureFixture,
    sink: str,
    without_effect: list[str],
    known: list[str],
) -> None:
    writer = into(rate(spark), checkpoint, sink, once=True)
    writer.options(**dict.fromkeys([*without_effect, *known, "reducers"], "1"))
    # Not each of these sinks comes with Spark.
    with caplog.at_level(logging.WARNING, handed.__name__), suppress(ConfigError):
        explain_query(writer)
    (warning,) = (each.getMessage() for each in caplog.records if each.name == handed.__name__)
    named = ", ".join(sorted([*without_effect, "reducers"]))
    assert warning.startswith(f"options {named} have no effect with trigger(once=...)")


def test_mistyped_options_are_named_and_the_query_runs(
    spark: SparkSession,
    tmp_path: Path,
    checkpoint: Checkpoint,
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = into(rate(spark), checkpoint, "csv", once=True).option("path", str(tmp_path / "out"))
    writer.options(hedaer="true", onBadRecrd="skip", escape="x", somebodys="y")
    with caplog.at_level(logging.WARNING, handed.__name__):
        query = writer.start()
    assert query.awaitTermination(WAIT_S)
    told = [each.getMessage() for each in caplog.records if each.name == handed.__name__]
    assert told == [
        "Spark's sink csv has no option hedaer, and ignores it: did you mean header?",
        "Spark's sink csv has no option onBadRecrd, and ignores it: did you mean onBadRecord?",
    ]


def test_a_registered_sink_has_options_of_its_own(
    spark: SparkSession, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    register(spark)
    writer = into(rate(spark), checkpoint, "kafka", once=True).option("includeHeader", "true")
    with caplog.at_level(logging.WARNING, handed.__name__):
        explain_query(writer)
    assert caplog.records == []


@pytest.mark.parametrize("sink", ["csv", "json", "xml", "text", "orc", "parquet"])
def test_the_options_of_files_that_are_known_are_sparks_own(spark: SparkSession, sink: str) -> None:
    sql = spark._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    options = {
        "csv": sql.catalyst.csv.CSVOptions,
        "json": sql.catalyst.json.JSONOptions,
        "xml": sql.catalyst.xml.XmlOptions,
        "text": sql.execution.datasources.text.TextOptions,
        "orc": sql.execution.datasources.orc.OrcOptions,
        "parquet": sql.execution.datasources.parquet.ParquetOptions,
    }[sink]
    of_the_writer = {"maxRecordsPerFile", "retention"}
    assert all(options.isValidOption(each) for each in OF_SINKS[sink] - of_the_writer)


@pytest.mark.parametrize(
    ("sink", "option", "instead"),
    [
        ("parquet", "storage.key", "spark.hadoop.fs."),
        ("csv", "Storage.key", "spark.hadoop.fs."),
        ("delta", "storage.AWS_ACCESS_KEY_ID", "spark.hadoop.fs."),
        ("iceberg", "catalog.uri", "spark.sql.catalog."),
    ],
)
def test_what_opens_the_sinks_storage_is_refused(
    spark: SparkSession, checkpoint: Checkpoint, sink: str, option: str, instead: str
) -> None:
    writer = into(rate(spark), checkpoint, sink, once=True).option(option, "hidden")
    with pytest.raises(ConfigError, match=f"The sink {sink} has no option {option} with") as error:
        writer.start()
    assert instead in str(error.value)
    assert "hidden" not in str(error.value)
    assert not Path(checkpoint.url).exists()


@pytest.mark.parametrize("option", ["metricsPort", "openTelemetry"])
def test_metrics_of_the_engine_are_refused(
    spark: SparkSession, checkpoint: Checkpoint, option: str
) -> None:
    value = {"metricsPort": "0", "openTelemetry": "true"}[option]
    writer = into(rate(spark), checkpoint, once=True).option(option, value)
    with pytest.raises(ConfigError, match=f"Option {option} cannot be") as error:
        writer.start()
    assert "Spark's own metrics" in str(error.value.hint)


def test_what_java_says_alone_is_told_of_a_start_that_fails(
    spark: SparkSession, checkpoint: Checkpoint
) -> None:
    writer = into(rate(spark), checkpoint, "parquet", once=True).option("path", "/proc/nowhere")
    with pytest.raises(Py4JJavaError) as error:
        writer.start()
    failed = "java.io.IOException: mkdir of file:/proc/nowhere/_spark_metadata failed"
    assert describe_error(error.value) == failed
    assert checkpoint.status().error == failed
