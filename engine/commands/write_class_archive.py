"""``python -m engine.commands.write_class_archive`` makes the archive of Spark's classes
(:mod:`engine.spark.class_archive`), and is the process that has a JVM write it."""

from __future__ import annotations

import os
import sys
from typing import Any

from engine.spark.class_archive import MAKING, make_archive
from engine.spark.java import find_java

_JVM_END_TIMEOUT_S = 120


def main() -> int:
    """Make the archive, or be the process that does; return the exit code."""
    if MAKING in os.environ:
        _run_a_small_query()
        return 0
    java = find_java()
    path = None if java is None else make_archive(java)
    print(f"the archive of Spark's classes: {path or 'none'}", file=sys.stderr)
    return 0 if path else 1


def _run_a_small_query() -> None:
    """Have a JVM load what a query needs, and wait for its end: it writes the archive then."""
    from pyspark import SparkContext

    from engine.query.writer import write_stream
    from engine.spark.session import build_session

    spark = build_session({"spark.master": "local[2]"}, "class archive")
    spark.readStream.format("rate").option("numPartitions", 1).load().createTempView("source")
    df = spark.sql("SELECT timestamp, value + 1 AS next FROM source WHERE value >= 0")
    query: Any = write_stream(df).format("noop").trigger(continuous="100 milliseconds").start()
    query.awaitEpoch(1)
    query.drain()
    spark.stop()
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_JVM_END_TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(main())
