"""Kafka → filter, upper → Kafka at 1,000 records/s.

Each record carries the time at which it was to be sent; a consumer of the results compares it with
the clock.
"""

from __future__ import annotations

import json
import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import confluent_kafka

from bench.kafka import (
    CONTINUOUS,
    ENGINE,
    EXACTLY_ONCE,
    MICRO_BATCH,
    PARTITIONS,
    REAL_TIME,
    SINK,
    SOURCE,
    Setting,
    in_sql,
    setting,
)
from bench.measure import percentile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENGINES = (ENGINE, CONTINUOUS, REAL_TIME, MICRO_BATCH, EXACTLY_ONCE)
PER_SECOND = 1_000
WARM_UP_S, MEASURE_S = 25.0, 15.0
RECORD = b"x" * 70


def main(engine: str, transform: Callable[[DataFrame], DataFrame] = in_sql) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    with setting(engine) as here:
        late = _latencies_ms(here, transform)
    print(json.dumps({f"p{percent}": percentile(late, percent) for percent in (50, 99)}))


def _latencies_ms(here: Setting, transform: Callable[[DataFrame], DataFrame]) -> list[float]:
    spawn = multiprocessing.get_context("spawn")
    stop, late = spawn.Event(), spawn.Queue()
    processes = [
        spawn.Process(target=_pace, args=(here.kafka.bootstrap, stop)),
        spawn.Process(target=_watch, args=(here.kafka.bootstrap, here.isolation, stop, late)),
    ]
    handle = here.start(transform(here.read()))
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
        producer.produce(SOURCE, b"%.6f " % due_s + RECORD, partition=number % PARTITIONS)
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
    consumer.assign([confluent_kafka.TopicPartition(SINK, each, 0) for each in range(PARTITIONS)])
    found: list[tuple[float, float]] = []
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            now_s, due_s = time.time(), float(message.value().split(b" ")[0])
            found.append((due_s, (now_s - due_s) * 1000))
    late.put(found)
