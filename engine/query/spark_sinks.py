"""What is known of Spark's own sinks before a query is handed to Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from engine.errors import ConfigError
from engine.plan.stream_relation import user_data_source
from engine.query.binding import load_data_source
from engine.query.spark_options import mistyped
from engine.query.spark_writable import why_not_written
from engine.query.write_request import WriteRequest
from engine.sinks.builtin_sinks import FILE_FORMATS, sink_kind
from engine.spark.failure import gist
from engine.spark.kafka_name import name_in_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

_NO_FORMATS: Final = frozenset({"memory", "foreach", "foreachbatch", "foreachbatcharrow"})
"""Sinks of Spark that it does not look up by their names."""
_PACKAGES: Final[Mapping[str, str]] = {
    "avro": "org.apache.spark:spark-avro_2.13",
    "delta": "io.delta:delta-spark_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13",
}
"""What brings a sink that does not come with Spark."""
_INSTEAD: Final = "use trigger(continuous=...): the engine has a sink of this name"
_ENGINES_ALONE: Final = f"It is the engine's alone: {_INSTEAD}."
_OTHER: Final = (
    "Correct its options, or use another sink, or foreachBatch with a function that writes a batch."
)
_OF_LAKES = ("schemaEvolution", "targetFileSize", "commitInterval")
_SHIPPED = "maxShippedBytesPerEpoch"
_OURS_ALONE: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(FILE_FORMATS, ("compactInterval",)),
    "delta": _OF_LAKES,
    "iceberg": (*_OF_LAKES, "catalog", "compression", "location", "partitionSpec", "table"),
    "kafka": ("transactionalIdPrefix",),
    "console": (_SHIPPED, "timeZone"),
    "memory": (_SHIPPED,),
    "foreachbatch": (_SHIPPED,),
}
"""Options of a sink that Spark's own of the same name drops without a word."""
_STORAGE_OF: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys((*FILE_FORMATS, "delta"), ("storage.", "spark.hadoop.fs.")),
    "iceberg": ("catalog.", "spark.sql.catalog."),
}
"""What begins the options that open a sink's storage, and the settings that do so in Spark."""


def refuse_sink(request: WriteRequest, options: Mapping[str, str]) -> None:
    """Look for a sink as Spark does, and where it does, and whether it can be written to; nothing
    is created.

    :param options: its own.
    :raises ConfigError: Spark does not find it, or cannot load it; it only reads; or it lacks what
        it needs before anything else.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    spark = request.df.sparkSession
    name = request.sink_format or spark.conf.get("spark.sql.sources.default") or "parquet"
    if name.lower() == "memory" and request.query_name is None:
        raise ConfigError("The memory sink needs a name for its table.", hint="Set queryName(...).")
    if name.lower() in _NO_FORMATS:
        return
    pickled = _registered(spark, name)
    if pickled is not None:
        _refuse_source(name, load_data_source(pickled))
        return
    jvm, conf = spark._jvm, spark._jsparkSession.sessionState().conf()
    assert jvm is not None
    sources = jvm.org.apache.spark.sql.execution.datasources
    try:
        found = sources.DataSource.lookupDataSource(name, conf)
    except (Py4JJavaError, PySparkException) as exc:
        raise ConfigError(
            f"Spark refuses the sink {name}: {gist(exc).rstrip('.')}.",
            hint=_hint(spark, name.lower()),
        ) from exc
    try:
        refused = why_not_written(spark, found, options)
    except (Py4JJavaError, PySparkException) as exc:
        refused = gist(exc).rstrip(".")
    if refused:
        raise ConfigError(f"Spark refuses the sink {name}: {refused}.", hint=_OTHER)


def _refuse_source(name: str, data_source: type[DataSource]) -> None:
    from pyspark.sql.datasource import DataSource

    if data_source.streamWriter is DataSource.streamWriter:
        is_ours = sink_kind(name).data_source
        raise ConfigError(
            f"Spark refuses the sink {name}: what is registered by this name only reads.",
            hint=_ENGINES_ALONE if is_ours else "Implement its method streamWriter.",
        )


def _hint(spark: SparkSession, sink: str) -> str:
    package = _PACKAGES.get(sink)
    if package is not None:
        or_here = f"; or {_INSTEAD}" if sink_kind(sink).data_source else ""
        return (
            f"It is in {package}: name that in the setting spark.jars.packages of the session, "
            f"with the version for Spark {spark.version}{or_here}."
        )
    if sink_kind(sink).data_source:
        return _ENGINES_ALONE
    return (
        "Correct the name; or let the session have what brings the sink: a package, by the setting "
        "spark.jars.packages, or a class of Python, by spark.dataSource.register."
    )


def refuse_opening_options(request: WriteRequest, options: Mapping[str, str]) -> None:
    """:raises ConfigError: options are to open the sink's storage. Spark's own sink would take them
    without a word, and do otherwise.
    """
    sink = (request.sink_format or "").lower()
    prefix, instead = _STORAGE_OF.get(sink, ("", ""))
    opening = [name for name in options if prefix and name.lower().startswith(prefix)]
    if opening:
        raise ConfigError(
            f"The sink {sink} has no option {', '.join(sorted(opening))} with "
            f"trigger({request.trigger_kind}=...): Spark itself runs this query, and opens the "
            "storage by its own settings.",
            hint=f"Set the storage up in the session, by settings that begin with {instead}, and "
            "leave these options, or the connection that says them, out; or use "
            "trigger(continuous=...).",
        )


def refuse_exactly_once(request: WriteRequest, options: Mapping[str, str]) -> None:
    """:raises ConfigError: Kafka's sink is to be exactly once. Spark's would take the option
    without a word.
    """
    delivery = {name.lower(): text for name, text in options.items()}.get("delivery", "")
    is_kafka = (request.sink_format or "").lower() == "kafka"
    if is_kafka and delivery.strip().lower() == "exactly-once":
        raise ConfigError(
            f"The sink kafka cannot be exactly once with trigger({request.trigger_kind}=...): "
            "Spark itself runs this query, and repeats a micro-batch after a failure.",
            hint='Use trigger(continuous=...), or set option("delivery", "at-least-once").',
        )


def options_without_effect(sink: str | None, options: Iterable[str]) -> list[str]:
    """Those that the engine's sink of this name knows, and Spark's does not."""
    ours_alone = {name.lower() for name in _OURS_ALONE.get((sink or "").lower(), ())}
    return [key for key in options if key.lower() in ours_alone]


def mistyped_options(request: WriteRequest, options: Iterable[str]) -> dict[str, str]:
    """Those that Spark's sink does not have, each with the one that was probably meant. A sink that
    was registered has options of its own."""
    sink = request.sink_format or ""
    if _registered(request.df.sparkSession, sink) is not None:
        return {}
    ours_alone = options_without_effect(sink, options)
    return mistyped(sink, [key for key in options if key not in ours_alone])


def _registered(spark: SparkSession, name: str) -> bytes | None:
    return user_data_source(spark, name_in_spark(spark, name))
