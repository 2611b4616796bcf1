"""Two streams of rate at 10,000 rows/s each, joined as in :mod:`bench.joined`: from the timestamp
of the later row until the pair is in the hands of the writer, ms.

A minute of event time takes six seconds, so that after the warm-up as many rows are kept as ever.
"""

from __future__ import annotations

import json

from bench import joined, stateful

ENGINES = stateful.ENGINES
ROWS_PER_SECOND = 10_000


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    from bench.session import session

    with session(stateful.SLOTS[engine]) as spark:
        df = joined.query(spark, ROWS_PER_SECOND)
        print(json.dumps(stateful.latencies(df, engine, "append")))
