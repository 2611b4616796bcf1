"""Registers the engine's connectors with a Spark session.

After ``register(spark)`` these formats work with ``spark.readStream`` and, in Spark's own
micro-batch mode, with ``df.writeStream``:

====================================  ==========================================
``tail``                              :mod:`engine.sources.tail.data_source`
``arrow_rate``                        :mod:`engine.sources.rate`
``kafka``                             :mod:`engine.sources.kafka.data_source`, unless Spark's own
                                      is on the classpath: then its plan is read
``continuous_parquet``, ``_json``,    :mod:`engine.sinks.files.data_source`
``_csv``
====================================  ==========================================

Spark's own names, such as ``rate`` and ``parquet``, cannot be taken. In ``write_stream(df)`` the
sinks of the engine have their short names, and none of this is needed to read ``rate``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.sinks.files.data_source import CsvDataSource, JsonDataSource, ParquetDataSource
from engine.sources.kafka.data_source import KafkaDataSource
from engine.sources.rate import RateDataSource
from engine.sources.tail.data_source import TailDataSource
from engine.spark.workers import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARKS_KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_CONNECTORS = (RateDataSource, TailDataSource, ParquetDataSource, JsonDataSource, CsvDataSource)


def register(spark: SparkSession) -> None:
    """Make the connectors known to this session; again is fine."""
    # Before PySpark notes with each connector which Python Spark's planner asks for its schema.
    use_this_python(spark.sparkContext)
    for connector in _CONNECTORS:
        spark.dataSource.register(connector)
    if not _has_sparks_kafka(spark):  # Spark refuses a name that two have
        spark.dataSource.register(KafkaDataSource)


def _has_sparks_kafka(spark: SparkSession) -> bool:
    jvm: Any = spark._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(_SPARKS_KAFKA))
