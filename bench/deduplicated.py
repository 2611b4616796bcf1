"""rate → dropDuplicates by a key of which there are a million → noop: rows per second."""

from __future__ import annotations

import json

from bench import stateful

ENGINES = stateful.ENGINES
KEYS = 1_000_000
ROWS_PER_SECOND = {"engine": stateful.ENOUGH, "spark micro-batch": 500_000}


def main(engine: str) -> None:
    """Measure one engine in this process and print its figure as JSON."""
    from bench.session import session

    with session(stateful.SLOTS[engine]) as spark:
        rows = stateful.rate(spark, ROWS_PER_SECOND[engine])
        df = rows.selectExpr(f"value % {KEYS} AS key", "timestamp").dropDuplicates(["key"])
        figure = stateful.rows_per_second(df, engine, "append")
    print(json.dumps({"rows_per_second": figure}))
