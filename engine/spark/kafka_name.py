"""The name ``kafka`` where Spark's own connector is not on the classpath.

Spark knows that name: it says that the connector is missing before it looks at what Python has
registered, and lets nobody register it. So the source is registered by another name, and PySpark's
reader, in sessions that have that one, takes it for ``kafka``.

Source: Spark's DataSource.lookupDataSource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.sources.kafka.data_source import KafkaDataSource, RegisteredKafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARKS_OWN: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_MARK: Final = "_engine_reads_kafka"


def bring_kafka(spark: SparkSession) -> None:
    """Have ``spark.readStream.format("kafka")`` work; again is fine."""
    jvm: Any = spark._jvm
    if jvm.org.apache.spark.util.Utils.classIsLoadable(_SPARKS_OWN):
        return
    spark.dataSource.register(RegisteredKafka)
    _teach_reader()


def _teach_reader() -> None:
    from pyspark.sql.streaming.readwriter import DataStreamReader

    taught: Any = DataStreamReader.format
    if hasattr(taught, _MARK):
        return

    def format(self: Any, source: str) -> Any:
        if source.lower() == KafkaDataSource.name() and _is_registered(self._spark):
            source = RegisteredKafka.name()
        return taught(self, source)

    format.__doc__ = taught.__doc__
    setattr(format, _MARK, True)
    DataStreamReader.format = format  # type: ignore[method-assign]


def _is_registered(spark: Any) -> bool:
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    return bool(manager.dataSourceExists(RegisteredKafka.name()))
