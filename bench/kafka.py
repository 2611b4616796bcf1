"""What the benchmarks with Kafka share: the same query for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka

from bench.broker import PARTITIONS, SINK, SOURCE, broker
from engine import register, write_stream
from engine.spark.session import build_session
from tests.servers.jars import jars
from tests.servers.kafka import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINE, EXACTLY_ONCE = "engine", "engine, exactly once"
CONTINUOUS, REAL_TIME = "spark continuous", "spark real-time"
MICRO_BATCH = "spark micro-batch"
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)


@dataclass(frozen=True)
class Setting:
    """One engine with a session of its own, and two empty topics."""

    engine: str
    kafka: Cluster
    spark: SparkSession
    folder: Path

    @property
    def is_ours(self) -> bool:
        return self.engine.startswith("engine")

    @property
    def isolation(self) -> str:
        """What a reader of the sink has to ask for."""
        return "read_committed" if self.engine == EXACTLY_ONCE else "read_uncommitted"

    def read(self, **options: str) -> DataFrame:
        """The source, from its first record on."""
        return (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.kafka.bootstrap)
            .option("subscribe", SOURCE)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
        )

    def start(self, df: DataFrame, mode: str = "append", **options: str) -> Any:
        """Write it to the topic; the handle."""
        to = {"kafka.bootstrap.servers": self.kafka.bootstrap, "topic": SINK}
        return self.start_to(df, "kafka", mode, **to, **options)

    def start_to(self, df: DataFrame, sink: str, mode: str = "append", **options: str) -> Any:
        """Write it somewhere; the handle."""
        writer: Any = write_stream(df) if self.is_ours else df.writeStream
        writer = writer.format(sink).options(**options, checkpointLocation=str(self.checkpoint))
        writer = writer.outputMode(mode)
        if self.engine == EXACTLY_ONCE:
            writer = writer.option("delivery", "exactly-once")
        if self.engine == REAL_TIME:
            return writer.outputMode("update").trigger(realTime="10 seconds").start()
        if self.engine == MICRO_BATCH:
            return writer.start()
        return writer.trigger(continuous="1 second").start()

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def fill(self, records: int, record: bytes) -> None:
        """Put so many into the source."""
        fill(self.kafka, records, lambda number: (None, b"%019d " % number + record))


def fill(kafka: Cluster, records: int, record: Callable[[int], tuple[bytes | None, bytes]]) -> None:
    """Put so many into the source, in turn into each partition.

    :param record: key and value, by the number.
    """
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "linger.ms": 50,
            "queue.buffering.max.messages": 10**6,
        }
    )
    for number in range(records):
        key, value = record(number)
        producer.produce(SOURCE, value, key, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
            while len(producer) > 500_000:
                producer.poll(0.05)
    producer.flush()


@contextmanager
def setting(
    engine: str, more: Mapping[str, str] | None = None, slots: int = 2
) -> Iterator[Setting]:
    """Everything stops with the block.

    :param more: settings of Spark's own session: its ``spark.jars`` are added to the connector's.
    :param slots: for tasks.
    """
    conf = {"spark.master": f"local[{slots}]"}
    if engine.startswith("spark"):
        conf |= more or {}
        found = jars(*CONNECTOR, alone=True)
        others = [conf["spark.jars"]] if "spark.jars" in conf else []
        conf["spark.jars"] = ",".join([*map(str, found.glob("*.jar")), *others])
    with broker() as (kafka, folder):
        spark = build_session(conf, "bench")
        try:
            spark.sparkContext.setLogLevel("ERROR")
            if engine.startswith("engine"):
                register(spark)
            yield Setting(engine, kafka, spark, folder)
        finally:
            spark.stop()


def in_sql(df: DataFrame) -> DataFrame:
    """Filter, upper."""
    return df.where("length(value) > 10").selectExpr("upper(CAST(value AS STRING)) AS value")
