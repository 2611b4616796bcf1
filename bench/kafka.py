"""Kafka → filter, upper → Kafka through one broker on this machine, for all who can do it.

``at 1,000/s``: each record carries the time at which it was to be sent; a consumer of the results
compares it with the clock. ``full``: a topic is full, and the results' own times tell how fast it
was read.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka

from bench.measure import percentile
from engine import register, write_stream
from engine.spark.session import build_session
from tests.servers.jars import jars
from tests.servers.kafka import Kafka, running_kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = (
    "engine",
    "engine, exactly once",
    "spark continuous",
    "spark real-time",
    "spark micro-batch",
)
PARTITIONS = 2
PER_SECOND = 1_000
WARM_UP_S, MEASURE_S = 25.0, 15.0
FULL = 2_000_000
RECORD = b"x" * 70
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    folder = Path(tempfile.mkdtemp())
    with running_kafka(folder / "kafka") as kafka, _session(engine) as spark:
        kafka.create_topic("paced", PARTITIONS)
        kafka.create_topic("full", PARTITIONS)
        kafka.create_topic("late", PARTITIONS)
        kafka.create_topic("fast", PARTITIONS)
        late = _latencies_ms(spark, kafka, engine, folder)
        figures = {f"p{p}": percentile(late, p) for p in (50, 99)}
        print(json.dumps({**figures, "rows/s": _rows_per_second(spark, kafka, engine, folder)}))


@contextmanager
def _session(engine: str) -> Iterator[SparkSession]:
    conf = {"spark.master": "local[2]"}
    if engine.startswith("spark"):
        found = jars(*CONNECTOR, alone=True)
        conf["spark.jars"] = ",".join(str(path) for path in found.glob("*.jar"))
    spark = build_session(conf, "bench")
    spark.sparkContext.setLogLevel("ERROR")
    if engine.startswith("engine"):
        register(spark)
    try:
        yield spark
    finally:
        spark.stop()


def _start(
    spark: SparkSession, kafka: Kafka, engine: str, source: str, sink: str, folder: Path
) -> Any:
    df = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .where("length(value) > 10")
        .selectExpr("upper(CAST(value AS STRING)) AS value")
    )
    writer: Any = write_stream(df) if engine.startswith("engine") else df.writeStream
    writer = (
        writer.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", str(folder / f"checkpoint-{sink}"))
    )
    if engine == "engine, exactly once":
        writer = writer.option("delivery", "exactly-once")
    if engine == "spark real-time":
        return writer.outputMode("update").trigger(realTime="10 seconds").start()
    if engine == "spark micro-batch":
        return writer.start()
    return writer.trigger(continuous="1 second").start()


# -- at 1,000/s -----------------------------------------------------------------------------------


def _latencies_ms(spark: SparkSession, kafka: Kafka, engine: str, folder: Path) -> list[float]:
    spawn = multiprocessing.get_context("spawn")
    stop, late = spawn.Event(), spawn.Queue()
    isolation = "read_committed" if "exactly" in engine else "read_uncommitted"
    processes = [
        spawn.Process(target=_pace, args=(kafka.bootstrap, stop)),
        spawn.Process(target=_watch, args=(kafka.bootstrap, isolation, stop, late)),
    ]
    handle = _start(spark, kafka, engine, "paced", "late", folder)
    for process in processes:
        process.start()
    threading.Event().wait(WARM_UP_S + MEASURE_S)
    stop.set()
    found: list[tuple[float, float]] = late.get(timeout=30)
    handle.stop()
    for process in processes:
        process.join()
    first_s = found[-1][0] - MEASURE_S
    return [ms for at_s, ms in found if at_s >= first_s]


def _pace(bootstrap: str, stop: Any) -> None:
    """An open loop: who is late is not waited for."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    began_s, number = time.time(), 0
    while not stop.is_set():
        due_s = began_s + number / PER_SECOND
        if (wait_s := due_s - time.time()) > 0:
            stop.wait(wait_s)
        producer.produce("paced", b"%.6f " % due_s + RECORD, partition=number % PARTITIONS)
        producer.poll(0)
        number += 1
    producer.flush()


def _watch(bootstrap: str, isolation: str, stop: Any, late: Any) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 5,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("late", each, 0) for each in range(PARTITIONS)])
    found: list[tuple[float, float]] = []
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            now_s, due_s = time.time(), float(message.value().split(b" ")[0])
            found.append((due_s, (now_s - due_s) * 1000))
    late.put(found)


# -- full -----------------------------------------------------------------------------------------


def _rows_per_second(spark: SparkSession, kafka: Kafka, engine: str, folder: Path) -> float:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "linger.ms": 50,
            "queue.buffering.max.messages": 10**6,
        }
    )
    for number in range(FULL):
        producer.produce("full", b"%019d " % number + RECORD, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
            while len(producer) > 500_000:
                producer.poll(0.05)
    producer.flush()
    handle = _start(spark, kafka, engine, "full", "fast", folder)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
        }
    )
    at = [confluent_kafka.TopicPartition("fast", each) for each in range(PARTITIONS)]
    pause = threading.Event()
    while sum(consumer.get_watermark_offsets(each)[1] for each in at) < FULL:
        pause.wait(0.2)
    handle.stop()
    times = [time_ms for each in at for time_ms in _first_and_last_ms(consumer, each)]
    consumer.close()
    return FULL / (max(times) - min(times)) * 1000


def _first_and_last_ms(consumer: Any, at: Any) -> Iterator[int]:
    low, high = consumer.get_watermark_offsets(at)
    for offset in (low, high - 5):  # behind the last record stand markers of transactions
        consumer.assign([confluent_kafka.TopicPartition(at.topic, at.partition, offset)])
        while (message := consumer.poll(1.0)) is None or message.error() is not None:
            pass
        yield message.timestamp()[1]
