"""The name ``kafka`` where Spark's own connector is not on the classpath.

Spark knows that name: it says that the connector is missing before it looks at what Python has
registered, and lets nobody register it. So source and sink are registered by another name, and
PySpark's reader and writer, in sessions that have that one, take it for ``kafka``.

Source: Spark's DataSource.lookupDataSource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource

from engine.sinks.kafka.data_source import KafkaSink, KafkaWriter
from engine.sources.kafka.data_source import REGISTERED, KafkaDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_SPARKS_OWN: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_MARK: Final = "_engine_brings_kafka"


class RegisteredKafka(DataSource):
    """The source or the sink, whichever is asked for."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    @classmethod
    def name(cls) -> str:
        return REGISTERED

    def schema(self) -> StructType:
        return KafkaDataSource(self._options).schema()

    def continuousReader(self, schema: StructType) -> Any:
        return KafkaDataSource(self._options).continuousReader(schema)

    def streamReader(self, schema: StructType) -> Any:
        return KafkaDataSource(self._options).streamReader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaWriter:
        return KafkaSink(self._options).streamWriter(schema, overwrite)


def bring_kafka(spark: SparkSession) -> None:
    """Have ``format("kafka")`` work, of ``spark.readStream`` and ``df.writeStream``; again is
    fine."""
    jvm: Any = spark._jvm
    if jvm.org.apache.spark.util.Utils.classIsLoadable(_SPARKS_OWN):
        return
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    spark.dataSource.register(RegisteredKafka)
    _teach(DataStreamReader)
    _teach(DataStreamWriter)


def name_in_spark(spark: Any, name: str) -> str:
    """By which Spark finds what ``format(name)`` asks for."""
    is_ours = name.lower() == KafkaDataSource.name() and _is_registered(spark)
    return REGISTERED if is_ours else name


def _teach(kind: Any) -> None:
    taught: Any = kind.format
    if hasattr(taught, _MARK):
        return

    def format(self: Any, source: str) -> Any:
        return taught(self, name_in_spark(self._spark, source))

    format.__doc__ = taught.__doc__
    setattr(format, _MARK, True)
    kind.format = format


def _is_registered(spark: Any) -> bool:
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    return bool(manager.dataSourceExists(REGISTERED))
