"""rate at 10,000 rows/s → count by window and key, 10,000 keys, update mode: from a row's own
timestamp until the count that it has changed is in the writer's hands, two readers by two reducers.

As in :mod:`bench.latency`, the row of micro-batch looks at the JVM's clock in its last projection.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bench import stateful

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINES = stateful.ENGINES
ROWS_PER_SECOND = KEYS = 10_000


def query(spark: SparkSession) -> DataFrame:
    """The newest row of each key with its count."""
    from pyspark.sql import functions as f

    return (
        stateful.rate(spark, ROWS_PER_SECOND)
        .withWatermark("timestamp", "10 seconds")
        .groupBy(f.window("timestamp", "10 seconds"), (f.col("value") % KEYS).alias("key"))
        .agg(f.max("timestamp").alias("timestamp"), f.count("*").alias("count"))
        .select("timestamp", "key", "count")
    )


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    from bench.session import session

    with session(stateful.SLOTS[engine]) as spark:
        print(json.dumps(stateful.latencies(query(spark), engine, "update")))
