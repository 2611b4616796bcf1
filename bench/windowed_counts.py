"""rate → count by window of ten seconds and key, update mode → noop: rows per second.

Of Spark the time counts that its batches take: a batch has all rows that have come due since the
one before, so the rate is one at which they do not grow without end.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bench import stateful
from bench.size import sized

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINES = stateful.ENGINES
KEYS = sized((10_000, 1_000_000), (10_000, 1_000_000), (1_000,))
ROWS_PER_SECOND = {"engine": stateful.ENOUGH, "spark micro-batch": 500_000}


def query(spark: SparkSession, rows_per_second: int, keys: int) -> DataFrame:
    """The DataFrame that both engines run."""
    from pyspark.sql import functions as f

    return (
        stateful.rate(spark, rows_per_second)
        .withWatermark("timestamp", "10 seconds")
        .groupBy(f.window("timestamp", "10 seconds"), (f.col("value") % keys).alias("key"))
        .count()
    )


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    from bench.session import session

    figures = {}
    with session(stateful.SLOTS[engine]) as spark:
        for keys in KEYS:
            df = query(spark, ROWS_PER_SECOND[engine], keys)
            figures[f"{keys:,} keys"] = stateful.rows_per_second(df, engine, "update")
    print(json.dumps(figures))
