"""Queries explained without a start: what they would be, or all that is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine import register, write_stream
from engine.errors import ConfigError, NotEnoughSlotsError
from engine.query.explanation import explain_query
from engine.query.writer import ContinuousStreamWriter

pytestmark = pytest.mark.spark


def rate(spark: SparkSession, partitions: int = 1) -> DataFrame:
    reader = spark.readStream.format("rate").option("rowsPerSecond", 10)
    return reader.option("numPartitions", partitions).load()


def to_files(df: DataFrame, folder: Path) -> Any:
    return (
        write_stream(df)
        .format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(continuous="2 seconds")
    )


def test_the_plan_is_told_and_nothing_is_created(spark: SparkSession, tmp_path: Path) -> None:
    df = rate(spark, 2).where("value > 3").select("value")
    found = explain_query(to_files(df, tmp_path))
    assert "Filter" in found.text
    assert "Partitions 2" in found.text
    assert "every 2000 ms" in found.text
    assert "exactly once" in found.text
    assert found.data["delivery"] == "exactly once"
    assert found.data["columns"] == {"value": "BIGINT"}
    (pipeline,) = found.data["pipelines"]
    assert pipeline["tasks"] == 2
    assert pipeline["origin"].startswith("Source rate[")
    assert list(tmp_path.iterdir()) == []


def test_stages_and_their_tasks_are_told(spark: SparkSession, tmp_path: Path) -> None:
    counts = rate(spark).groupBy((F.col("value") % 3).alias("key")).count()
    found = explain_query(write_stream(counts).format("noop").outputMode("update"))
    reading, counting = found.data["pipelines"]
    assert (reading["sends_to"], counting["sends_to"]) == (1, None)
    assert (reading["tasks"], counting["tasks"]) == (1, 1)
    assert "Exchange by" in found.text
    assert "to stage 1" in found.text
    assert "stage 1: 1" in found.text
    assert found.data["checkpoint"] is None


def test_all_that_would_be_refused_is_told_at_once(spark: SparkSession, tmp_path: Path) -> None:
    df = rate(spark).select(F.input_file_name().alias("a"), F.spark_partition_id().alias("b"))
    writer = write_stream(df).format("parquet").option("compression", "none of them")
    with pytest.raises(ConfigError) as caught:
        explain_query(writer)
    told = str(caught.value)
    assert "input_file_name" in told
    assert "sink parquet" in told
    assert "no checkpoint location" in told


@pytest.mark.parametrize("word", ["maybe", "dead-letter"])
def test_a_wrong_option_is_no_reason_for_others(
    spark: SparkSession, tmp_path: Path, word: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        explain_query(to_files(rate(spark), tmp_path).option("onBadRecord", word))
    assert str(caught.value).startswith("Option onBadRecord")


def test_too_few_slots_are_told(spark: SparkSession) -> None:
    counts = rate(spark, 2).groupBy("value").count()
    writer = write_stream(counts).format("noop").outputMode("update")
    with pytest.raises(NotEnoughSlotsError, match="there are 2"):
        explain_query(writer.option("partitionsPerTask", 1))


def test_a_changed_query_is_told_of_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    query = to_files(rate(spark).select("value"), tmp_path).start()
    query.awaitEpoch(0, 60)
    query.stop()
    files = sorted(tmp_path.rglob("*"))
    register(spark)
    other = spark.readStream.format("arrow_rate")
    with pytest.raises(ConfigError, match=r"not the query .*source\.format"):
        explain_query(to_files(other.load().select("value"), tmp_path))
    assert "Partitions 1" in explain_query(to_files(rate(spark).select("value"), tmp_path)).text
    assert sorted(tmp_path.rglob("*")) == files


def test_what_may_begin_a_session_is_not_asked(spark: SparkSession) -> None:
    lines = spark.readStream.format("socket").option("host", "localhost").option("port", 9).load()
    found = explain_query(write_stream(lines).format("noop"))
    assert found.data["partitions"] is None
    assert "as the source tells when the query starts" in found.text


def test_what_spark_runs_has_sparks_plan(spark: SparkSession) -> None:
    found = explain_query(write_stream(rate(spark)).format("noop").trigger(availableNow=True))
    assert found.data["run_by"] == "spark"
    assert "Physical Plan" in found.text


@pytest.mark.parametrize("mode", [None, "spark"])
def test_what_spark_runs_of_sql_has_sparks_plan(spark: SparkSession, mode: str | None) -> None:
    rate(spark).createOrReplaceTempView("ticks")
    writer = write_stream(spark.sql("SELECT value FROM ticks WHERE value > 3")).format("noop")
    writer = writer.trigger(availableNow=True) if mode is None else writer.mode(mode)
    found = explain_query(writer)
    assert found.data["run_by"] == "spark"
    assert "value#" in found.text


def test_a_sink_that_spark_does_not_know_is_told(spark: SparkSession) -> None:
    writer = write_stream(rate(spark)).trigger(availableNow=True)
    with pytest.raises(ConfigError, match="data source: nosuch"):
        explain_query(writer.format("nosuch"))
    writer.option("checkpointLocation", "unused").option("path", "unused").queryName("named")
    for known in ("parquet", "memory", "console", "noop"):
        assert explain_query(writer.format(known)).data["sink"] == known
    assert explain_query(writer.foreach(print)).data["sink"] == "foreach"


def test_several_options_that_do_not_fit_are_told_by_a_start_as_well(spark: SparkSession) -> None:
    writer = write_stream(rate(spark)).format("noop").option("refreshInterval", "1 hour")
    with pytest.raises(ConfigError) as caught:
        writer.option("watermarkIdleAfter", "1 hour").option("reducers", 2).start()
    told = str(caught.value)
    assert "for 3 reasons" in told
    assert all(name in told for name in ("refreshInterval", "watermarkIdleAfter", "reducers"))


def test_spark_writes_to_the_kafka_that_the_engine_brings(spark: SparkSession) -> None:
    register(spark)
    writer = write_stream(rate(spark)).format("kafka").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", "unused").option("topic", "unused")
    assert explain_query(writer).data["sink"] == "kafka"


def to_spark(df: DataFrame, **trigger: Any) -> ContinuousStreamWriter:
    return write_stream(df).format("noop").trigger(**trigger).mode("spark")


def test_all_that_a_start_in_spark_would_refuse_is_told_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = rate(spark).groupBy("value").count()
    writer = to_spark(counts, processingTime="soon").format("parquet").outputMode("complete")
    writer.options(
        path=str(tmp_path), onBadRecord="skip", metricsPort=9464, openTelemetry="true", reducers="x"
    )
    writer.option("storage.key", "hidden").option("checkpointStorage.key", "hidden")
    with pytest.raises(ConfigError) as started:
        writer.start()
    with pytest.raises(ConfigError) as explained:
        explain_query(writer)
    assert str(explained.value) == str(started.value)
    told = str(started.value)
    assert "for 7 reasons" in told
    for reason in (
        "Option onBadRecord cannot be 'skip'",
        "Option metricsPort cannot be '9464'",
        "Option openTelemetry cannot be True",
        "Option reducers",
        "has no option storage.key",
        "no checkpoint location",
        "Error parsing 'soon' to interval",
    ):
        assert reason in told
    assert "hidden" not in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("trigger", "reason"),
    [
        ({"continuous": "1 second"}, "Continuous processing does not support Aggregate"),
        ({"availableNow": True}, "not supported for streaming aggregations without watermark"),
    ],
)
def test_a_query_that_spark_does_not_support_is_told(
    spark: SparkSession, tmp_path: Path, trigger: dict[str, Any], reason: str
) -> None:
    counts = rate(spark).groupBy("value").count()
    writer = to_spark(counts, **trigger).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.outputMode("update" if "continuous" in trigger else "append")
    for refused in (lambda: explain_query(writer), writer.start):
        with pytest.raises(ConfigError, match=f"Spark refuses the query: .*{reason}"):
            refused()
    writer.option("metricsPort", 9464)
    with pytest.raises(ConfigError, match="for 2 reasons"):
        writer.start()
    assert list(tmp_path.iterdir()) == []


def test_spark_does_not_go_on_with_a_checkpoint_of_the_engines_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    counts = rate(spark).groupBy((F.col("value") % 3).alias("key")).count()
    checkpoint = str(tmp_path / "checkpoint")
    ours = write_stream(counts).format("noop").outputMode("update")
    query = ours.option("checkpointLocation", checkpoint).start()
    assert query.awaitEpoch(0, 60)
    query.stop()
    files = sorted(tmp_path.rglob("*"))
    theirs = to_spark(counts, availableNow=True).outputMode("update")
    with pytest.raises(ConfigError, match="has the state of a query that runs continuously"):
        explain_query(theirs.option("checkpointLocation", checkpoint))
    assert sorted(tmp_path.rglob("*")) == files


@pytest.mark.parametrize("trigger", [{"continuous": "1 second"}, {"once": True}])
def test_what_opens_the_storage_of_no_checkpoint_is_told(
    spark: SparkSession, trigger: dict[str, Any]
) -> None:
    writer = write_stream(rate(spark)).format("noop").trigger(**trigger)
    with pytest.raises(ConfigError, match=r"checkpointStorage\.key has no meaning"):
        explain_query(writer.option("checkpointStorage.key", "k"))


def test_a_wrong_interval_of_the_trigger_hides_no_other_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = rate(spark).select(F.input_file_name().alias("a"))
    writer = to_files(df, tmp_path).trigger(continuous="soon").option("onBadRecord", "maybe")
    writer.option("onStall", "wait").option("compression", "none of them")
    for refused in (writer.start, lambda: explain_query(writer)):
        with pytest.raises(ConfigError) as caught:
            refused()
        told = str(caught.value)
        for reason in ("'soon' cannot be used", "onBadRecord", "onStall", "input_file_name"):
            assert told.count(reason) == 1
    assert "sink parquet" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["refreshInterval", "watermarkIdleAfter"])
def test_a_wrong_option_hides_no_option_that_does_not_fit(spark: SparkSession, option: str) -> None:
    writer = write_stream(rate(spark)).format("noop").option("onStall", "wait")
    with pytest.raises(ConfigError) as caught:
        writer.option(option, "1 hour").start()
    assert "for 2 reasons" in str(caught.value)
    assert option in str(caught.value)


def test_a_start_tells_what_explain_tells(spark: SparkSession) -> None:
    df = rate(spark).select(F.input_file_name().alias("a"))
    writer = write_stream(df).format("parquet").option("compression", "none of them")
    with pytest.raises(ConfigError) as explained:
        explain_query(writer)
    with pytest.raises(ConfigError) as started:
        writer.start()
    assert str(started.value) == str(explained.value)
    assert "for 3 reasons" in str(started.value)
