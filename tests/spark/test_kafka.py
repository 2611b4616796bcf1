"""Kafka to Kafka on a real Spark: exactly once though workers are killed, and what Spark's own
micro-batches write."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import udf

from engine import register, replay_epoch, write_stream
from engine.errors import ConfigError, SourceError
from engine.query.handle import ContinuousQuery
from tests.connectors.kafka.topics import Topic
from tests.faults.roads.kafka_topics import all_of
from tests.servers.kafka import Kafka
from tests.spark.since import WITH_MICRO_BATCHES
from tests.waiting import wait_until

pytestmark = pytest.mark.spark
WAIT_S = 90


def stream(spark: SparkSession, topic: Topic, **more: str) -> DataFrame:
    register(spark)
    options = {"subscribe": topic.name, "startingOffsets": "earliest", **more}
    servers = {"kafka.bootstrap.servers": topic.kafka.bootstrap}
    return spark.readStream.format("kafka").options(**servers, **options).load()


def written(topic: Topic) -> list[bytes]:
    """What a reader of committed records sees, without the process that has written each."""
    found = all_of(topic.kafka.bootstrap, topic.name)
    return sorted(value.partition(b" by ")[0] for value in found.elements())


def sent(topic: Topic) -> list[bytes]:
    """As :func:`query` writes them."""
    return sorted(
        f"{partition} {value}".encode()
        for partition, count in enumerate(topic.counts)
        for value in range(count)
    )


def worker(topic: Topic) -> int:
    """The one that has written the newest record of partition 0."""
    found = (value.split() for value in all_of(topic.kafka.bootstrap, topic.name))
    _, pid = max(
        (int(number), int(pid)) for partition, number, _, pid in found if partition == b"0"
    )
    return pid


def query(spark: SparkSession, source: Topic, target: Topic, folder: Path) -> ContinuousQuery:
    pid = udf(lambda _: os.getpid(), "int").asNondeterministic()
    text = F.concat_ws(" ", "partition", F.col("value").cast("string"), F.lit("by"), pid("offset"))
    started = (
        write_stream(stream(spark, source).select(text.alias("value")))
        .format("kafka")
        .option("kafka.bootstrap.servers", target.kafka.bootstrap)
        .option("topic", target.name)
        .option("delivery", "exactly-once")
        .option("checkpointLocation", str(folder))
        .trigger(continuous="200 milliseconds")
        .start()
    )
    assert isinstance(started, ContinuousQuery)
    return started


def test_a_worker_that_is_killed_loses_and_repeats_nothing(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    source, target = Topic.new(kafka, 2), Topic.new(kafka, 2)
    source.send(50)
    started = query(spark, source, target, tmp_path)
    try:
        kill_workers(started, source, target)
        started.drain(WAIT_S)
    finally:
        started.stop()  # its tasks hold the slots of the next test
    assert written(target) == sent(source)


def kill_workers(started: ContinuousQuery, source: Topic, target: Topic) -> None:
    wait_until(lambda: written(target) == sent(source), "the first records", WAIT_S)
    # Nor was one needed because these brokers have had no transaction before.
    assert started.status["restarts"] == 0
    for number in range(2):
        victim = worker(target)
        source.send(50)  # some are in an open transaction perhaps, and some are not read yet
        os.kill(victim, signal.SIGKILL)
        source.send(50)
        wait_until(lambda: len(written(target)) >= len(sent(source)), "the query goes on", WAIT_S)
        assert started.status["restarts"] > number
        assert worker(target) != victim


def micro_batches(df: DataFrame, target: Topic, folder: Path, **options: str) -> Any:
    return (
        write_stream(df)
        .format("kafka")
        .option("kafka.bootstrap.servers", target.kafka.bootstrap)
        .option("topic", target.name)
        .options(**options)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )


@WITH_MICRO_BATCHES
def test_sparks_micro_batches_write_by_this_sink(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    """Where its own connector is not there."""
    source, target = Topic.new(kafka, 2), Topic.new(kafka, 2)
    source.send(20)
    values = F.concat_ws(" ", "partition", F.col("value").cast("string")).alias("value")
    micro_batches(stream(spark, source).select(values), target, tmp_path).awaitTermination(WAIT_S)
    assert written(target) == sent(source)


def test_micro_batches_cannot_be_exactly_once(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic = Topic.new(kafka, 2)
    df = stream(spark, topic).select("value")
    with pytest.raises(ConfigError, match="cannot be exactly once with trigger"):
        micro_batches(df, topic, tmp_path, Delivery="Exactly-Once")
    assert not list(tmp_path.iterdir())


def test_an_epoch_is_replayed_as_long_as_its_records_are_there(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic = Topic.new(kafka, partitions=2)
    topic.send(5)

    def writer() -> Any:
        values = stream(spark, topic, failOnDataLoss="false").select("partition", "offset")
        return (
            write_stream(values)
            .format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("minEpochsToRetain", 10_000)
            .trigger(continuous="200 milliseconds")
        )

    query = writer().start()
    query.processAllAvailable()
    topic.send(3)
    query.processAllAvailable()
    topic.send(2)
    query.processAllAvailable()
    epochs = {each["batchId"]: each["numInputRows"] for each in query.recentProgress}
    before = {path: path.read_bytes() for path in tmp_path.rglob("offsets/[0-9]*")}
    epoch = max(each for each, rows in epochs.items() if rows)
    found = replay_epoch(str(tmp_path / "checkpoint"), epoch, writer())  # beside the query
    assert found.out.num_rows == epochs[epoch]
    assert query.isActive
    assert query.drain(WAIT_S)
    assert {path: path.read_bytes() for path in before} == before
    topic.expire([10, 10])
    with pytest.raises(SourceError, match=f"Epoch {epoch} .* cannot be run again: .* are gone"):
        replay_epoch(str(tmp_path / "checkpoint"), epoch, writer())
