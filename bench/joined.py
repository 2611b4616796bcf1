"""Two streams of rate, each row joined with the one of the other stream that has its key and comes
within a minute: rows of both per second.

A thousand rows are a second of event time, however fast they come: so that a minute is some 60,000
rows of each stream, which is what both engines keep.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bench import stateful

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENGINES = stateful.ENGINES
ROWS_PER_SECOND = {"engine": stateful.ENOUGH, "spark micro-batch": 50_000}


def query(spark: SparkSession, rows_per_second: int) -> DataFrame:
    """The DataFrame that both engines run."""
    from pyspark.sql import functions as f

    def side(name: str) -> DataFrame:
        rows = stateful.rate(spark, rows_per_second).selectExpr(
            f"timestamp AS {name}_timestamp",
            f"value AS {name}_key",
            f"timestamp_millis(value) AS {name}_at",
        )
        return rows.withWatermark(f"{name}_at", "10 seconds")

    within = "l_key = r_key AND r_at BETWEEN l_at AND l_at + INTERVAL 1 MINUTE"
    both = side("l").join(side("r"), f.expr(within))
    return both.selectExpr("greatest(l_timestamp, r_timestamp) AS timestamp", "l_key AS key")


def main(engine: str) -> None:
    """Measure one engine in this process and print its figure as JSON."""
    from bench.session import session

    with session(stateful.SLOTS[engine]) as spark:
        df = query(spark, ROWS_PER_SECOND[engine])
        figure = stateful.rows_per_second(df, engine, "append")
    print(json.dumps({"rows_per_second": figure}))
