"""What is known of Spark's own sinks before a query is handed to Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from engine.errors import ConfigError
from engine.plan.stream_relation import user_data_source
from engine.sinks.builtin_sinks import sink_kind
from engine.spark.failure import gist

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_FORMATS: Final = frozenset({"memory", "foreach", "foreachbatch", "foreachbatcharrow"})
"""Sinks of Spark that it does not look up by their names."""
_PACKAGES: Final[Mapping[str, str]] = {
    "avro": "org.apache.spark:spark-avro_2.13",
    "delta": "io.delta:delta-spark_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13",
}
"""What brings a sink that does not come with Spark."""


def refuse_unknown_sink(spark: SparkSession, name: str | None) -> None:
    """Look for a sink as Spark does, and where it does; nothing is created.

    :param name: None is Spark's default.
    :raises ConfigError: Spark does not find it, or cannot load it.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from engine.spark.kafka_name import name_in_spark

    if name is None or name.lower() in _NO_FORMATS:
        return
    known = name_in_spark(spark, name)
    if user_data_source(spark, known) is not None:
        return
    jvm, conf = spark._jvm, spark._jsparkSession.sessionState().conf()
    assert jvm is not None
    sources = jvm.org.apache.spark.sql.execution.datasources
    try:
        sources.DataSource.lookupDataSource(known, conf)
    except (Py4JJavaError, PySparkException) as exc:
        raise ConfigError(
            f"Spark refuses the sink {name}: {gist(exc)}", hint=_hint(spark, name.lower())
        ) from exc


def _hint(spark: SparkSession, sink: str) -> str:
    instead = "use trigger(continuous=...): the engine has a sink of this name"
    package = _PACKAGES.get(sink)
    if package is not None:
        or_here = f"; or {instead}" if sink_kind(sink).data_source else ""
        return (
            f"It is in {package}: name that in the setting spark.jars.packages of the session, "
            f"with the version for Spark {spark.version}{or_here}."
        )
    if sink_kind(sink).data_source:
        return f"It is the engine's alone: {instead}."
    return (
        "Correct the name; or let the session have what brings the sink: a package, by the setting "
        "spark.jars.packages, or a class of Python, by spark.dataSource.register."
    )
