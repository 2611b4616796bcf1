"""Records that come to a topic at a steady pace, and how late a consumer sees what became of them.

An open loop: who is late is not waited for, and each record knows when it was due.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka

from bench.broker import PARTITIONS, SINK, SOURCE
from bench.size import sized

PER_SECOND = 1_000
WARM_UP_S, MEASURE_S = sized((20.0, 15.0), (15.0, 10.0), (2.0, 3.0))
"""From the first result on."""
START_S = 120.0

Record = Callable[[int, float], tuple[bytes | None, bytes]]
"""Key and value of a record, by its number and the time in seconds at which it is due."""
Due = Callable[[bytes], float | None]
"""When what a consumer sees was due; None for what does not count."""


def latencies_ms(
    bootstrap: str,
    isolation: str,
    start: Callable[[], Callable[[], object]],
    record: Record,
    due: Due,
) -> list[float]:
    """Milliseconds of each result after the warm-up.

    :param isolation: what the consumer asks for.
    :param start: starts what is measured; returns what stops it.
    :param record: and ``due``: functions that another process can import.
    :raises TimeoutError: there is no result in time.
    """
    spawn = multiprocessing.get_context("spawn")
    begun, ending, late = spawn.Event(), spawn.Event(), spawn.Queue()
    processes = [
        spawn.Process(target=_pace, args=(bootstrap, record, ending)),
        spawn.Process(target=_watch, args=(bootstrap, isolation, due, begun, ending, late)),
    ]
    stop = start()
    try:
        for process in processes:
            process.start()
        if not begun.wait(START_S):
            raise TimeoutError(f"no result within {START_S:g} s")
        threading.Event().wait(WARM_UP_S + MEASURE_S)
        ending.set()
        found: list[tuple[float, float]] = late.get(timeout=30)
    finally:
        ending.set()
        stop()
    for process in processes:
        process.join()
    first_s = found[-1][0] - MEASURE_S
    return [ms for at_s, ms in found if at_s >= first_s]


def _pace(bootstrap: str, record: Record, ending: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    began_s, number = time.time(), 0
    while not ending.is_set():
        due_s = began_s + number / PER_SECOND
        if (wait_s := due_s - time.time()) > 0:
            ending.wait(wait_s)
        key, value = record(number, due_s)
        producer.produce(SOURCE, value, key, partition=number % PARTITIONS)
        producer.poll(0)
        number += 1
    producer.flush()


def _watch(bootstrap: str, isolation: str, due: Due, begun: Any, ending: Any, late: Any) -> None:
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
    while not ending.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            now_s, due_s = time.time(), due(message.value())
            if due_s is not None:
                found.append((due_s, (now_s - due_s) * 1000))
                begun.set()
    late.put(found)
