"""Kafka → filter, upper → Kafka, as fast as it goes: a topic is full, and the results' own times
tell how fast it was read."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import confluent_kafka

from bench.broker import PARTITIONS, SINK
from bench.kafka import (
    CONTINUOUS,
    ENGINE,
    EXACTLY_ONCE,
    MICRO_BATCH,
    REAL_TIME,
    Setting,
    in_sql,
    setting,
)
from bench.size import sized

ENGINES = (ENGINE, CONTINUOUS, REAL_TIME, MICRO_BATCH, EXACTLY_ONCE)
RECORDS = sized(3_000_000, 1_500_000, 50_000)
RECORD = b"x" * 70


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    with setting(engine) as here:
        print(json.dumps({"rows/s": _rows_per_second(here)}))


def _rows_per_second(here: Setting) -> float:
    here.fill(RECORDS, RECORD)
    handle = here.start(in_sql(here.read()))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": here.kafka.bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
        }
    )
    at = [confluent_kafka.TopicPartition(SINK, each) for each in range(PARTITIONS)]
    pause = threading.Event()
    while sum(consumer.get_watermark_offsets(each)[1] for each in at) < RECORDS:
        pause.wait(0.2)
    handle.stop()
    times = [time_ms for each in at for time_ms in _first_and_last_ms(consumer, each)]
    consumer.close()
    return RECORDS / (max(times) - min(times)) * 1000


def _first_and_last_ms(consumer: Any, at: Any) -> Iterator[int]:
    low, high = consumer.get_watermark_offsets(at)
    for offset in (low, high - 5):  # behind the last record stand markers of transactions
        consumer.assign([confluent_kafka.TopicPartition(at.topic, at.partition, offset)])
        while (message := consumer.poll(1.0)) is None or message.error() is not None:
            pass
        yield message.timestamp()[1]
