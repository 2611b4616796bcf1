"""From a specification to a query that is ready to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from engine.errors import ConfigError, ContinuousError
from engine.query.connections import give
from engine.query.spec.query_spec import QuerySpec, SourceSpec
from engine.query.write_request import CHECKPOINT, STORAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from engine.query.writer import ContinuousStreamWriter

SOURCE_VIEW = "source"


def build(spec: QuerySpec, spark: SparkSession) -> ContinuousStreamWriter:
    """Put the query together; nothing is started.

    :param spark: gets our connectors registered and, with ``spec.source``, the view ``source``.
    :raises ConfigError: Spark does not know the source or cannot analyze the SQL, or the function
        is missing, fails, or returns something else than an unstarted ``write_stream(...)``.
    """
    from engine.query.registration import register
    from engine.query.writer import write_stream

    register(spark)
    if spec.query is not None:
        give(spec.connections)
        writer = _call(spec.query, spark)
    else:
        assert spec.source is not None, "a specification has a source or a query"
        df = _read(spec.source, spark)
        if spec.sql is not None:
            df.createOrReplaceTempView(SOURCE_VIEW)
            with _blamed_on("sql"):
                df = spark.sql(spec.sql)
        writer = write_stream(df)
    return _apply(spec, writer)


def _read(source: SourceSpec, spark: SparkSession) -> DataFrame:
    reader = spark.readStream.format(source.format).options(**source.options)
    if source.schema is not None:
        with _blamed_on("source.schema"):
            reader = reader.schema(source.schema)
    with _blamed_on("source"):
        df = reader.load()
    if source.watermark is not None:
        with _blamed_on("source.watermark"):
            df = df.withWatermark(*source.watermark)
    return df


def _apply(spec: QuerySpec, writer: ContinuousStreamWriter) -> ContinuousStreamWriter:
    sink = spec.sink
    if sink is not None:
        writer.format(sink.format).options(**sink.options)
        if sink.output_mode is not None:
            writer.outputMode(sink.output_mode)
        if sink.partition_by:
            writer.partitionBy(*sink.partition_by)
    if spec.name is not None:
        writer.queryName(spec.name)
    if spec.trigger is not None:
        kind, value = spec.trigger
        writer.trigger(**{kind: value})  # type: ignore[arg-type]  # the value has the kind's type
    if spec.mode is not None:
        writer.mode(spec.mode)
    if spec.checkpoint_location is not None:
        writer.option(CHECKPOINT, spec.checkpoint_location)
    for key, value in spec.checkpoint_storage.items():
        writer.option(f"{STORAGE}{key}", value)
    return writer


def _call(query: str, spark: SparkSession) -> ContinuousStreamWriter:
    from engine.query.writer import ContinuousStreamWriter

    module_name, _, function_name = query.partition(":")
    try:
        function = getattr(import_module(module_name), function_name)
        writer = function(spark)
    except ContinuousError:
        raise
    except Exception as exc:
        raise ConfigError(f"query: {query} failed with {type(exc).__name__}: {exc}") from exc
    if not isinstance(writer, ContinuousStreamWriter):
        raise ConfigError(
            f"query: {query} returned {type(writer).__name__}.",
            hint="It has to return write_stream(df)..., without start().",
        )
    return writer


@contextmanager
def _blamed_on(path: str) -> Iterator[None]:
    """Name the place in the document for what Spark says about it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as exc:
        raise ConfigError(f"{path}: {_without_stack(str(exc))}") from exc
    except Py4JJavaError as exc:  # some of Spark's errors, as for an unknown source, stay Java's
        reason = exc.java_exception.getMessage()
        raise ConfigError(f"{path}: {_without_stack(str(reason))}") from exc


def _without_stack(message: str) -> str:
    """Spark's message without the plan and the JVM's stack that may follow it."""
    return message.partition(";\n")[0].partition("\n\nJVM stacktrace")[0].strip()
