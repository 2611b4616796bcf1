"""One Spark session of two cores, the same for every engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session() -> Iterator[SparkSession]:
    """``local[2]``, quiet."""
    spark = build_session({"spark.master": "local[2]"}, "bench")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
