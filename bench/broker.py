"""The broker of the benchmarks: one for all runs of a case, as Kafka's own scripts start it, and
warm.

A broker that has just started takes 3.2 ms of CPU for a record that is sent alone and read; the
same one takes 0.4 behind half a minute of load, when its code is compiled. Those of tests never
compile so far. Since it shares the cores with what is measured, a cold one would be most of a
figure.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.size import VARIABLE as SIZE
from bench.size import WHOLE, sized_as
from tests.servers.kafka import Cluster, running_kafka

VARIABLE = "BENCH_KAFKA"
"""Where the broker of this run listens."""
SOURCE, SINK = "source", "sink"
PARTITIONS = 2
OPTIONS = (
    "-XX:TieredStopAtLevel=4",
    "-XX:-UseSerialGC",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-Xms1g",
    "-Xmx1g",
)
_WARM_UP = "warm-up"


@contextmanager
def warm_broker(size: str) -> Iterator[str]:
    """Its address; until the end of the block.

    :param size: that of the benchmark: one that only tries does not wait for a warm one.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        running_kafka(Path(folder) / "kafka", options=OPTIONS) as kafka,
    ):
        _warm_up(kafka, sized_as(size, 45.0, 45.0, 1.0))
        yield kafka.bootstrap


@contextmanager
def broker() -> Iterator[tuple[Cluster, Path]]:
    """That of the case, or one of its own if a benchmark runs alone; with two empty topics, and a
    folder for whoever uses it."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        address = os.environ.get(VARIABLE) or stack.enter_context(
            warm_broker(os.environ.get(SIZE, WHOLE))
        )
        cluster = Cluster(address)
        _delete(cluster, SOURCE, SINK)  # of a run before this one
        cluster.create_topic(SOURCE, PARTITIONS)
        # What tells when a result was written is one clock, the broker's, whoever writes.
        cluster.create_topic(SINK, PARTITIONS, message_timestamp_type="LogAppendTime")
        yield cluster, Path(name)


def _warm_up(cluster: Cluster, seconds: float) -> None:
    """Send records one by one, as fast as they are taken, and read them twice."""
    cluster.create_topic(_WARM_UP, PARTITIONS)
    ending = threading.Event()
    threads = [threading.Thread(target=_send, args=(cluster.bootstrap, ending))]
    threads += [threading.Thread(target=_read, args=(cluster.bootstrap, ending)) for _ in range(2)]
    for thread in threads:
        thread.start()
    ending.wait(seconds)
    ending.set()
    for thread in threads:
        thread.join()
    _delete(cluster, _WARM_UP)


def _send(bootstrap: str, ending: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    number = 0
    while not ending.is_set():
        producer.produce(_WARM_UP, b"x" * 100, partition=number % PARTITIONS)
        number += 1
        while len(producer) >= PARTITIONS and not ending.is_set():
            producer.poll(0.1)
    producer.flush()


def _read(bootstrap: str, ending: threading.Event) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "fetch.wait.max.ms": 5}
    )
    consumer.assign([TopicPartition(_WARM_UP, each, 0) for each in range(PARTITIONS)])
    while not ending.is_set():
        consumer.poll(0.1)
    consumer.close()


def _delete(cluster: Cluster, *topics: str) -> None:
    """Those that are there."""
    admin = cluster.admin()
    there = [each for each in topics if each in admin.list_topics(timeout=10).topics]
    for gone in admin.delete_topics(there).values() if there else ():
        gone.result()
