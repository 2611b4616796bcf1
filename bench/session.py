"""A Spark session for one engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session(slots: int = 2) -> Iterator[SparkSession]:
    """Quiet.

    :param slots: for tasks. Micro-batch gets as many as there are cores; ours take a slot each for
        good, and mostly wait.
    """
    spark = build_session({"spark.master": f"local[{slots}]"}, "bench")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
