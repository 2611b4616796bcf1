"""Windowed counts, as fast as it goes: a topic is full, and each window is written when it has
closed. The results' own times tell how fast records were counted.

A second of event time has 10,000 records. Windows that the end of the topic leaves open are not
written, so the last ones do not count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import confluent_kafka

from bench.broker import PARTITIONS, SINK, broker
from bench.kafka import fill, setting
from bench.peers import work
from bench.peers.environments import PEERS
from bench.size import sized
from tests.servers.kafka import Cluster

ENGINES = work.ENGINES
RECORDS = sized(9_000_000, 4_500_000, 3_000_000)
PER_SECOND = 10_000
"""Of event time."""
PER_BATCH = sized(500_000, 250_000, 100_000)
"""Of micro-batches, which else would be one."""
FIRST_MS = 1_767_225_600_000
BURST_GAP_MS = 100
"""Results that are further apart are of different bursts."""
MEASURE_S = sized(90.0, 45.0, 15.0)
"""So long results are waited for: a slow engine does not have to count all."""
START_S = 120.0
CLOSED = RECORDS - PER_SECOND * (work.DELAY_MS + 2 * work.WINDOW_MS) // 1000
"""So many records are in windows that close for certain."""


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    if engine in PEERS:
        print(json.dumps(work.tried(engine, lambda: {"rows/s": _of_peer(engine)})))
        return
    with setting(engine, slots=work.SLOTS) as here:
        fill(here.kafka, RECORDS, record)
        batches = {} if here.is_ours else {"maxOffsetsPerTrigger": str(PER_BATCH)}
        handle = work.start(here, **batches)
        found = results(here.kafka)
        handle.stop()
    print(json.dumps({"rows/s": rows_per_second(found)}))


def _of_peer(peer: str) -> float:
    with broker() as (kafka, folder):
        fill(kafka, RECORDS, record)
        with work.running(peer, kafka.bootstrap, work.CLOSED, folder):
            return rows_per_second(results(kafka))


def record(number: int) -> tuple[bytes, bytes]:
    """One of a topic that is full."""
    at_ms = FIRST_MS + number * 1000 // PER_SECOND
    return work.record(number, at_ms, at_ms / 1000)


def results(kafka: Cluster) -> list[tuple[int, int]]:
    """When each result was written, in ms, and how many records it counts; until all closed windows
    are there, or it takes too long."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "bench", "fetch.wait.max.ms": 5}
    )
    consumer.assign([confluent_kafka.TopicPartition(SINK, each, 0) for each in range(PARTITIONS)])
    found: list[tuple[int, int]] = []
    counted, deadline_s = 0, time.monotonic() + START_S
    while counted < CLOSED and time.monotonic() < deadline_s:
        for message in consumer.consume(1_000, 0.2):
            if message.error() is not None:
                continue
            result = json.loads(message.value())
            if not found:
                deadline_s = time.monotonic() + MEASURE_S
            sign = result.get("diff", 1)
            counted += sign * result["count"]
            found.append((message.timestamp()[1], sign * result["count"]))
    consumer.close()
    return found


def rows_per_second(found: Sequence[tuple[int, int]]) -> float:
    """From the end of the first burst of results to the last result: what was counted between.

    :param found: times in ms, and counts.
    :raises TooFewError: there is one burst, or none: too little to tell.
    """
    ordered = sorted(found)
    gaps = (
        index
        for index in range(1, len(ordered))
        if ordered[index][0] - ordered[index - 1][0] > BURST_GAP_MS
    )
    first = next(gaps, None)
    if first is None:
        raise work.TooFewError(f"{len(ordered)} results, all of one moment")
    took_ms = ordered[-1][0] - ordered[first - 1][0]
    return sum(count for _, count in ordered[first:]) / took_ms * 1000
