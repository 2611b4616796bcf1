"""What tests of the Kafka sink make of it, without a query, and what a reader sees."""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pyarrow as pa
from pyspark.sql.types import StructType

from engine.checkpoint.sink_context import SinkContext
from engine.expressions.types import schema_to_spark
from engine.sinks.contract import WriterContext
from engine.sinks.kafka.data_source import KafkaSink, KafkaWriter
from tests.servers.kafka import Kafka
from tests.servers.kafka_transactions import await_ended
from tests.waiting import wait_until

VALUES = pa.schema([("value", pa.string())])
_numbers = itertools.count()
_made: list[KafkaWriter] = []


def new_topic(kafka: Kafka, **settings: str) -> str:
    """Of two partitions, empty; its name."""
    name = f"sink{os.getpid()}-{next(_numbers)}"
    kafka.create_topic(name, 2, **settings)
    return name


def writer(kafka: Kafka, schema: pa.Schema = VALUES, **options: str) -> KafkaWriter:
    given = {name.replace("_", "."): text for name, text in options.items() if "_" in name}
    given |= {name: text for name, text in options.items() if "_" not in name}
    source = KafkaSink({"kafka.bootstrap.servers": kafka.bootstrap, **given})
    return source.streamWriter(spark(schema), overwrite=False)


def spark(schema: pa.Schema) -> StructType:
    return StructType.fromJson(schema_to_spark(schema))


def exactly_once(kafka: Kafka, topic: str, query_id: str | None = None, **options: str) -> Any:
    made = writer(kafka, topic=topic, delivery="exactly-once", **options)
    made.bind(SinkContext(query_id or topic, "run", 0, 0))
    _made.append(made)
    return made


def close_all() -> None:
    """The connections of sinks that the test has made: nobody tells a sink that its query has
    ended. One that outlives its test tries to reach brokers that a later one has killed, and its
    client forgets the sockets that were not connected."""
    while _made:
        transactions = _made.pop()._transactions
        if transactions is not None:
            transactions.close()


def task(made: KafkaWriter, topic: str, number: int = 0) -> Any:
    """The executor's side, as a task gets it."""
    found = pickle.loads(pickle.dumps(made.taskWriter()))
    found.open(WriterContext(topic, "run", 0, 0, number, 2))
    return found


def batches(*values: str) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"value": list(values)}, VALUES)])


def read(kafka: Kafka, topic: str, isolation: str = "read_committed") -> list[Any]:
    """Records up to the end of each partition, in the order of partitions."""
    if isolation == "read_committed":
        await_ended(kafka.bootstrap)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "tests",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in (0, 1)])
    found: list[Any] = []
    ends: set[int] = set()

    def is_read() -> bool:
        for message in consumer.consume(100, 0.1):
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().name() == "_PARTITION_EOF"
                ends.add(message.partition())
        return len(ends) == 2

    wait_until(is_read, f"{topic} is read", 30)
    consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def values(kafka: Kafka, topic: str, isolation: str = "read_committed") -> list[str]:
    return sorted(message.value().decode() for message in read(kafka, topic, isolation))
