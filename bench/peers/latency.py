"""Windowed counts at 1,000 records/s, written as they change: from when a record was due until a
consumer sees it counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack

from bench.broker import broker
from bench.kafka import setting
from bench.kafka_pace import latencies_ms
from bench.measure import percentile
from bench.peers import work
from bench.peers.environments import PEERS

ENGINES = work.ENGINES


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    if engine in PEERS:
        print(json.dumps(work.tried(engine, lambda: _figures(_of_peer(engine)))))
        return
    with setting(engine, slots=work.SLOTS) as here:
        late = latencies_ms(
            here.kafka.bootstrap,
            here.isolation,
            lambda: work.start(here, "update").stop,
            record,
            due,
        )
    print(json.dumps(_figures(late)))


def _of_peer(peer: str) -> list[float]:
    with broker() as (kafka, folder), ExitStack() as stack:

        def start() -> Callable[[], None]:
            stack.enter_context(work.running(peer, kafka.bootstrap, work.UPDATES, folder))
            return lambda: None

        return latencies_ms(kafka.bootstrap, "read_uncommitted", start, record, due)


def _figures(late: list[float]) -> dict[str, float]:
    return {f"p{percent}": percentile(late, percent) for percent in (50, 99)}


def record(number: int, due_s: float) -> tuple[bytes, bytes]:
    """One whose event time is now."""
    return work.record(number, round(due_s * 1000), due_s)


def due(value: bytes) -> float | None:
    """When the newest record of a result was due; None for one that is taken back."""
    result = json.loads(value)
    return None if result.get("diff") == -1 else float(result["due"])
