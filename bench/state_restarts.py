"""A restart in place of a windowed count with a million keys, two readers by two reducers: from the
kill of a worker until an epoch is committed that was not under way, s.

Epochs take 200 ms; of each, a tenth of the keys change.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil

from bench import stateful
from bench.size import sized
from engine import write_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = ("1,000,000 keys",)
KEYS = sized(1_000_000, 1_000_000, 10_000)
ROWS_PER_SECOND = 500_000
FILL_S = 15.0
"""Long enough for all keys to have come, on a machine that does nothing else."""
TIMEOUT_S = 60.0


def main(engine: str) -> None:
    """Measure in this process and print the figure as JSON."""
    from bench.session import session

    with (
        session(stateful.SLOTS["engine"]) as spark,
        tempfile.TemporaryDirectory(prefix="bench-state-restarts-") as folder,
    ):
        print(json.dumps({"seconds": _measure(spark, folder)}))


def _measure(spark: SparkSession, folder: str) -> float:
    from pyspark.sql import functions as f

    rows = stateful.rate(spark, ROWS_PER_SECOND).withWatermark("timestamp", "1 hour")
    key = (f.col("value") % KEYS).alias("key")
    df = rows.groupBy(f.window("timestamp", "1 day"), key).count()
    query: Any = (
        write_stream(df)
        .format("noop")
        .outputMode("update")
        .option("checkpointLocation", folder)
        .trigger(continuous="200 milliseconds")
        .start()
    )
    try:
        return _restarted(query)
    finally:
        query.stop()


def _restarted(query: Any) -> float:
    never = threading.Event()
    deadline_s = time.monotonic() + FILL_S + TIMEOUT_S
    while sum(each["numRowsTotal"] for each in _operators(query)) < KEYS:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"the keys do not come: {_operators(query)}")
        never.wait(0.1)
    _workers()[-1].kill()
    began_s = time.monotonic()
    # Epochs that all tasks had reported are committed although a worker is gone; their reports
    # know of no restart.
    while query.lastProgress["restarts"] == 0:
        if time.monotonic() > began_s + TIMEOUT_S:
            raise TimeoutError(f"nothing is committed behind the kill: {query.status}")
        never.wait(0.005)
    return time.monotonic() - began_s


def _operators(query: Any) -> list[dict[str, Any]]:
    return (query.lastProgress or {"stateOperators": []})["stateOperators"]


def _workers() -> list[psutil.Process]:
    """Those that Spark's daemon has forked for this process's tasks, the oldest first."""
    forked = [each for each in psutil.Process().children(recursive=True) if _is_forked(each)]
    daemons = {each.pid for each in forked}
    return sorted(
        (each for each in forked if each.ppid() in daemons), key=lambda each: each.create_time()
    )


def _is_forked(process: psutil.Process) -> bool:
    """By the daemon, or the daemon itself: they have one command line."""
    try:
        return "engine.spark.daemon" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False
