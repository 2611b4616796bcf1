"""From a format's name and its options to a reader or a sink that the engine can run.

Formats are looked up first among the engine's own connectors, then among the data sources that the
user registered with ``spark.dataSource.register``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.base.connector_options import DEFAULT_PARALLELISM, PARTITION_BY, SESSION_TIMEZONE
from engine.errors import ConfigError
from engine.expressions.types import schema_to_spark
from engine.pipeline.explain import describe_connector
from engine.pipeline.pipeline import SourceRelation
from engine.plan.stream_relation import user_data_source
from engine.sinks.adapter import task_writer
from engine.sinks.builtin_sinks import SINKS, sink_class
from engine.sinks.contract import DriverSink, SinkBinding
from engine.sources.builtin_sources import SOURCES, source_class
from engine.sources.contract import DataSourceContinuousReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType


def bind_source(
    relation: SourceRelation, default_parallelism: int, session_timezone: str
) -> tuple[DataSourceContinuousReader, str]:
    """The driver's reader of a plan's source, and its description.

    :param default_parallelism: how many partitions a source has that leaves it to the engine.
    :param session_timezone: for times without a zone.
    :raises ConfigError: the source cannot be read continuously, or an option is wrong.
    """
    from pyspark.sql.types import StructType

    data_source = (
        _load(relation.data_source)
        if relation.data_source is not None
        else source_class(relation.format)
    )
    options = dict(relation.options)
    if relation.format.lower() in SOURCES:  # a stranger may refuse options that it does not know
        options[DEFAULT_PARALLELISM] = str(default_parallelism)
        options[SESSION_TIMEZONE] = session_timezone
    source = _instantiate(data_source, options)
    if not hasattr(source, "continuousReader"):
        raise ConfigError(
            f"Source {relation.format!r} cannot be read continuously: {data_source.__name__} has "
            "no method continuousReader(schema).",
            hint="Add it (see engine.sources.contract), or use trigger(processingTime=...).",
        )
    schema = StructType.fromJson(schema_to_spark(relation.schema))
    return (
        source.continuousReader(schema),
        describe_connector(relation.format, relation.options),
    )


def bind_sink(
    spark: SparkSession, name: str, options: Mapping[str, str], schema: StructType
) -> SinkBinding:
    """A sink by its format's name.

    :param schema: the columns it will get.
    :raises ConfigError: no such sink, it cannot be written to as a stream, or an option is wrong.
    """
    pickled = None if name.lower() in SINKS else user_data_source(spark, name)
    data_source = sink_class(name) if pickled is None else _load(pickled)
    shown = {key: value for key, value in options.items() if not key.startswith("__")}
    partition_by = json.loads(options.get(PARTITION_BY, "[]"))
    writer = _instantiate(data_source, options).streamWriter(schema, overwrite=False)
    identity = {key.lower(): value for key, value in shown.items()}
    if partition_by:
        identity["partitionby"] = ", ".join(partition_by)
    return bind_writer(writer, describe_connector(name, shown), name, identity)


def bind_writer(
    writer: Any, description: str, name: str = "", options: Mapping[str, str] | None = None
) -> SinkBinding:
    """A sink from its stream writer.

    :param name: its format; ``options`` are the user's.
    :raises ConfigError: it is no stream writer.
    """
    identity, driver = dict(options or {}), DriverSink.of(writer)
    module = type(writer).__module__
    if driver.path is not None:  # whatever folder the next start or rewind is made in
        identity["path"] = driver.path
    return SinkBinding(
        driver=driver,
        writer=task_writer(writer),
        description=description,
        message_modules=() if module.startswith("engine.") else (module,),
        format=name or description,
        options=identity,
    )


def _load(pickled: bytes) -> type[DataSource]:
    from pyspark import cloudpickle

    data_source: type[DataSource] = cloudpickle.loads(pickled)
    return data_source


def _instantiate(data_source: type[DataSource], options: Mapping[str, str]) -> Any:
    from pyspark.sql.datasource import CaseInsensitiveDict

    return data_source(options=CaseInsensitiveDict(options))
