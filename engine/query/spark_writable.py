"""Whether Spark can write a stream to what it has found by the name of a sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SQL: Final = "org.apache.spark.sql"
_TABLES: Final = f"{_SQL}.connector.catalog.TableProvider"
_WRITTEN: Final = f"{_SQL}.connector.catalog.SupportsWrite"
_OWN_SINKS: Final = f"{_SQL}.sources.StreamSinkProvider"
_NOT_WRITTEN: Final = "it does not support streamed writing"
_OF_HIVE: Final = f"{_SQL}.hive.execution.HiveFileFormat"
_FILES: Final = (
    f"{_SQL}.execution.datasources.FileFormat",
    f"{_SQL}.execution.datasources.v2.FileDataSourceV2",
)


def why_not_written(spark: SparkSession, found: Any, options: Mapping[str, str]) -> str:
    """Take the steps of Spark's ``DataStreamWriter.start`` that create nothing; empty: it can.

    :param found: the class that Spark has looked up.
    :param options: those of the sink.
    :raises Py4JJavaError: Spark refuses it, which PySpark may tell by a class of its own.
    """
    from py4j.java_gateway import is_instance_of

    gateway, jvm = spark.sparkContext._gateway, spark._jvm
    assert jvm is not None
    if found.getName() == _OF_HIVE:  # a format of files that Spark itself treats apart
        return _NOT_WRITTEN
    provider = found.newInstance()

    def is_a(instance: Any, name: str) -> bool:
        return bool(is_instance_of(gateway, instance, name))

    if any(is_a(provider, each) for each in _FILES):
        return _of_files(jvm, {name.lower(): text for name, text in options.items()})
    disabled = spark._jsparkSession.sessionState().conf().disabledV2StreamingWriters()
    if is_a(provider, _TABLES) and found.getCanonicalName() not in disabled.split(","):
        table = _table(jvm, provider, options)
        streams = jvm.org.apache.spark.sql.connector.catalog.TableCapability.STREAMING_WRITE
        if is_a(table, _WRITTEN) and table.capabilities().contains(streams):
            return ""
    return "" if is_a(provider, _OWN_SINKS) else _NOT_WRITTEN


def _table(jvm: Any, provider: Any, options: Mapping[str, str]) -> Any:
    sql = jvm.org.apache.spark.sql
    given = sql.util.CaseInsensitiveStringMap(dict(options))
    none = jvm.scala.Option.empty()
    tables = sql.execution.datasources.v2.DataSourceV2Utils
    return tables.getTableFromProvider(provider, given, none)


def _of_files(jvm: Any, options: Mapping[str, str]) -> str:
    if "path" not in options:
        return "option path, the folder, is missing"
    retention = options.get("retention")
    if retention is not None:
        jvm.org.apache.spark.network.util.JavaUtils.timeStringAsMs(retention)
    return ""
