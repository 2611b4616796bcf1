"""Topics as an end of a road: fed, read by the query, and read to their end."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import confluent_kafka

from engine.execution.definition import StreamBinding
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sources.kafka.data_source import KafkaDataSource
from tests.faults.roads.beside import beside
from tests.faults.roads.driver import DEADLINE_S
from tests.servers.kafka_transactions import await_ended

PARTITIONS = 2
FEED_EVERY_S = 0.01
TRANSACTION_EVERY_S = 0.1
TRANSACTION_MS = 10_000
ANSWER_S = 10.0
ABORTED_EVERY = 4
SETTINGS: Mapping[str, str] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"
}
"""Of the broker."""


COLUMNS = KafkaDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "none"}).schema()
"""Of every topic."""


def stream_of(bootstrap: str, topic: str) -> StreamBinding:
    """Its records, from the first one on."""
    source = KafkaDataSource(
        {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
    )
    schema = to_arrow(source.schema(), "source kafka")
    pipeline = Pipeline(SourceRelation("kafka", {}, schema), (), schema)
    return StreamBinding(pipeline, source.continuousReader(source.schema()), "kafka")


@contextmanager
def feeding(bootstrap: str, topic: str) -> Iterator[None]:
    """A record for each partition, again and again; and others in transactions, most of which are
    committed, so that between two records there are offsets that nobody reads."""
    stop = threading.Event()
    with (
        beside(lambda: _feed(bootstrap, topic, stop), stop),
        beside(lambda: _feed_in_transactions(bootstrap, topic, stop), stop),
    ):
        yield


def _feed(bootstrap: str, topic: str, stop: threading.Event) -> None:
    producer = _producer(bootstrap, {"enable.idempotence": True})
    number = 0
    while not stop.wait(FEED_EVERY_S):
        for partition in range(PARTITIONS):
            producer.produce(topic, f"{partition} {number}", partition=partition)
        producer.poll(0)
        number += 1
    assert producer.flush(DEADLINE_S) == 0


def _feed_in_transactions(bootstrap: str, topic: str, stop: threading.Event) -> None:
    settings = {"transactional.id": f"feed-{topic}", "transaction.timeout.ms": TRANSACTION_MS}
    number = 0
    gone_s = 0.0
    while gone_s < DEADLINE_S:
        began_s = time.monotonic()
        producer = _producer(bootstrap, settings)
        try:
            # Ends what an earlier one has left open. How that ended is seen by readers alone.
            producer.init_transactions(ANSWER_S)
            while not stop.wait(TRANSACTION_EVERY_S):
                number += 1
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    producer.produce(topic, f"{partition} in {number}", partition=partition)
                if number % ABORTED_EVERY:
                    producer.commit_transaction(ANSWER_S)
                else:
                    producer.flush(ANSWER_S)  # else the broker never sees them
                    producer.abort_transaction(ANSWER_S)
        except confluent_kafka.KafkaException:
            # The broker was away. It is back for good before anybody waits for this one's end.
            gone_s += time.monotonic() - began_s if stop.is_set() else 0.0
        else:
            return
    raise TimeoutError(f"transactions of {topic} have not ended within {DEADLINE_S:g} s")


def _producer(bootstrap: str, settings: Mapping[str, str | int | bool]) -> confluent_kafka.Producer:
    return confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0, **settings}
    )


def all_of(bootstrap: str, topic: str) -> Counter[bytes]:
    """The values of all records that are committed."""
    await_ended(bootstrap)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "faults",
            "isolation.level": "read_committed",
            "enable.partition.eof": "true",
        }
    )
    at = [
        confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)
        for partition in range(PARTITIONS)
    ]
    consumer.assign(at)
    found: Counter[bytes] = Counter()
    ended: set[int] = set()
    deadline_s = time.monotonic() + DEADLINE_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline_s, f"{topic} cannot be read to its end"
        for message in consumer.consume(1_000, 0.2):
            if message.error() is None:
                found[message.value()] += 1
            elif message.error().name() == "_PARTITION_EOF":
                ended.add(message.partition())
    consumer.close()
    return found
