"""As :mod:`bench.kafka_latency`, with a Python function, which Spark's real-time mode refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench import kafka_latency
from bench.kafka import CONTINUOUS, ENGINE, MICRO_BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENGINES = (ENGINE, CONTINUOUS, MICRO_BATCH)


def main(engine: str) -> None:
    """Measure one engine in this process and print its figures as JSON."""
    kafka_latency.main(engine, _by_function)


def _by_function(df: DataFrame) -> DataFrame:
    upper = F.udf(lambda text: text.upper(), "string")
    text = F.col("value").cast("string")
    return df.where("length(value) > 10").select(upper(text).alias("value"))
