"""Kafka → filter, upper → Parquet files, 3,000,000 records that are there."""

from __future__ import annotations

from functools import partial

from bench.kafka import ENGINE, MICRO_BATCH
from bench.kafka_tables import measure, to_folder

ENGINES = (ENGINE, MICRO_BATCH)


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    measure(engine, partial(to_folder, sink="parquet"))
