"""Registers the engine's connectors with a Spark session.

After ``register(spark)`` these formats work with ``spark.readStream`` and, in Spark's own
micro-batch mode, with ``df.writeStream``:

====================================  ==========================================
``tail``                              :mod:`engine.sources.tail.data_source`
``arrow_rate``                        :mod:`engine.sources.rate`
``redis``                             :mod:`engine.sources.redis.data_source`
``mqtt``                              :mod:`engine.sources.mqtt.data_source`, to be read, and not in
                                      micro-batches
``continuous_delta``                  :mod:`engine.sources.delta.data_source`, to be read, and not
                                      in micro-batches
``continuous_iceberg``                :mod:`engine.sources.iceberg.data_source`, likewise
``kafka``                             :mod:`engine.sources.kafka.data_source`, unless Spark's own
                                      is on the classpath: then its plan is read
``postgres``                          :mod:`engine.sources.postgres.data_source`
``continuous_state``                  :mod:`engine.query.state_table`: the state of a query, as a
                                      table
``continuous_parquet``, ``_json``,    :mod:`engine.sinks.files.data_source`
``_csv``
====================================  ==========================================

Spark's own names, such as ``rate`` and ``parquet``, cannot be taken. In ``write_stream(df)`` the
sinks of the engine have their short names, and none of this is needed to read ``rate``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.query.state_table import StateTableSource
from engine.sinks.files.data_source import CsvDataSource, JsonDataSource, ParquetDataSource
from engine.sources.delta.data_source import DeltaSource
from engine.sources.iceberg.data_source import IcebergSource
from engine.sources.mqtt.data_source import MqttSource
from engine.sources.postgres.data_source import PostgresDataSource
from engine.sources.rate import RateDataSource
from engine.sources.redis.data_source import RedisSource
from engine.sources.tail.data_source import TailDataSource
from engine.spark.kafka_name import bring_kafka
from engine.spark.workers import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECTORS = (
    RateDataSource,
    TailDataSource,
    RedisSource,
    MqttSource,
    PostgresDataSource,
    DeltaSource,
    IcebergSource,
    StateTableSource,
    ParquetDataSource,
    JsonDataSource,
    CsvDataSource,
)


def register(spark: SparkSession) -> None:
    """Make the connectors known to this session; again is fine."""
    # Before PySpark notes with each connector which Python Spark's planner asks for its schema.
    use_this_python(spark.sparkContext)
    for connector in _CONNECTORS:
        spark.dataSource.register(connector)
    bring_kafka(spark)
