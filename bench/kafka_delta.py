"""Kafka → filter, upper → a Delta table, 3,000,000 records that are there; Spark with Delta's own
library."""

from __future__ import annotations

from functools import partial

from bench.kafka import ENGINE, MICRO_BATCH
from bench.kafka_tables import measure, to_folder
from tests.servers.jars import jars

ENGINES = (ENGINE, MICRO_BATCH)
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    conf = {
        "spark.jars": ",".join(map(str, jars(DELTA).glob("*.jar"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    measure(engine, partial(to_folder, sink="delta"), conf)
