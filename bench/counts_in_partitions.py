"""As :mod:`bench.windowed_counts`, of keys that are each in one partition: counted where they are
read, and behind an exchange."""

from __future__ import annotations

import json

from bench import stateful, windowed_counts

ENGINES = ("engine", "engine, with an exchange")


def main(engine: str) -> None:
    """Measure one of them in this process and print its figures as JSON."""
    from bench.session import session

    stays = str(engine == ENGINES[0]).lower()
    figures = {}
    with session(stateful.SLOTS["engine"]) as spark:
        for keys in windowed_counts.KEYS:  # an even number: a key is odd, or it is not
            df = windowed_counts.query(spark, stateful.ENOUGH, keys)
            figures[f"{keys:,} keys"] = stateful.rows_per_second(
                df, "engine", "update", keysStayInPartitions=stays
            )
    print(json.dumps(figures))
