"""Kafka → filter, upper → Kafka at 1,000 records/s.

Each record carries the time at which it was to be sent; a consumer of the results compares it with
the clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.kafka import (
    CONTINUOUS,
    ENGINE,
    EXACTLY_ONCE,
    MICRO_BATCH,
    REAL_TIME,
    in_sql,
    setting,
)
from bench.kafka_pace import latencies_ms
from bench.measure import percentile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENGINES = (ENGINE, CONTINUOUS, REAL_TIME, MICRO_BATCH, EXACTLY_ONCE)
RECORD = b"x" * 70


def main(engine: str, transform: Callable[[DataFrame], DataFrame] = in_sql) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    with setting(engine) as here:

        def start() -> Any:
            return here.start(transform(here.read())).stop

        late = latencies_ms(here.kafka.bootstrap, here.isolation, start, record, due)
    print(json.dumps({f"p{percent}": percentile(late, percent) for percent in (50, 99)}))


def record(number: int, due_s: float) -> tuple[None, bytes]:
    """Its time stands in front."""
    return None, b"%.6f " % due_s + RECORD


def due(value: bytes) -> float:
    """When a result was due."""
    return float(value.split(b" ")[0])
