"""From a format's name and its options to a reader or a sink that the engine can run.

Formats are looked up first among the engine's own connectors, then among the data sources that the
user registered with ``spark.dataSource.register``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from engine.base.connector_options import DEFAULT_PARALLELISM, PARTITION_BY, SESSION_TIMEZONE
from engine.errors import ConfigError, ContinuousError
from engine.expressions.types import schema_to_spark
from engine.pipeline.described import REDACTED, describe_connector
from engine.pipeline.pipeline import SourceRelation
from engine.plan.stream_relation import user_data_source
from engine.sinks.adapter import PlainTaskWriter, WriterCopies, message_modules, task_writer
from engine.sinks.builtin_sinks import SINKS, sink_class
from engine.sinks.contract import ContinuousWriter, DriverSink, HasTaskWriter, SinkBinding
from engine.sources.builtin_sources import SOURCES, source_class
from engine.sources.contract import DataSourceContinuousReader
from engine.sources.polled.reader import polled_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType

logger: Final = logging.getLogger(__name__)
_READER_HINT: Final = (
    "Give it a method streamReader(schema), simpleStreamReader(schema), or, see "
    "engine.sources.contract, continuousReader(schema)."
)
_WRITER_HINT: Final = "Give it a method streamWriter(schema, overwrite)."


def bind_source(
    relation: SourceRelation,
    default_parallelism: int,
    session_timezone: str,
    poll_interval_ms: int | None = None,
) -> tuple[DataSourceContinuousReader, str]:
    """The driver's reader of a plan's source, and its description.

    :param default_parallelism: how many partitions a source has that leaves it to the engine.
    :param session_timezone: for times without a zone.
    :param poll_interval_ms: how often a source is polled that has no continuous reader.
    :raises ConfigError: the source cannot be read continuously, or an option is wrong.
    """
    from pyspark.sql.types import StructType

    data_source = (
        load_data_source(relation.data_source)
        if relation.data_source is not None
        else source_class(relation.format)
    )
    options = dict(relation.options)
    if relation.format.lower() in SOURCES:  # a stranger may refuse options that it does not know
        options[DEFAULT_PARALLELISM] = str(default_parallelism)
        options[SESSION_TIMEZONE] = session_timezone
    schema = StructType.fromJson(schema_to_spark(relation.schema))
    reader: DataSourceContinuousReader
    with _own_words(f"Source {relation.format}: a stream reader", _READER_HINT):
        source = _instantiate(data_source, options)
        if hasattr(source, "continuousReader"):
            reader = source.continuousReader(schema)
        else:
            name = f"source {relation.format}"
            reader = polled_reader(name, source, schema, relation.schema, poll_interval_ms)
    return reader, describe_connector(relation.format, relation.options)


def bind_sink(
    spark: SparkSession,
    name: str,
    options: Mapping[str, str],
    schema: StructType,
    *,
    overwrite: bool = False,
) -> SinkBinding:
    """A sink by its format's name.

    :param schema: the columns it will get.
    :param overwrite: the rows of each epoch take the place of those before (output mode complete).
    :raises ConfigError: no such sink, it cannot be written to as a stream, or an option is wrong.
    """
    pickled = None if name.lower() in SINKS else user_data_source(spark, name)
    data_source = sink_class(name) if pickled is None else load_data_source(pickled)
    given = {key: value for key, value in options.items() if not key.startswith("__")}
    partition_by = json.loads(options.get(PARTITION_BY, "[]"))
    with _own_words(f"Sink {name}: a stream writer", _WRITER_HINT):
        writer = _instantiate(data_source, options).streamWriter(schema, overwrite=overwrite)
    secret = {key.lower() for key in DriverSink.of(writer).secret_options}
    shown = {key: REDACTED if key.lower() in secret else each for key, each in given.items()}
    identity = {key.lower(): each for key, each in given.items() if key.lower() not in secret}
    if partition_by:
        identity["partitionby"] = ", ".join(partition_by)
    bound = bind_writer(writer, describe_connector(name, shown), name, identity)
    return bound if pickled is None else _as_spark_calls_it(writer, bound)


def bind_writer(
    writer: Any, description: str, name: str = "", options: Mapping[str, str] | None = None
) -> SinkBinding:
    """A sink from its stream writer.

    :param name: its format; ``options`` are the user's.
    :raises ConfigError: it is no stream writer.
    """
    identity, driver = dict(options or {}), DriverSink.of(writer)
    if driver.commit_interval_ms and driver.commit_together is None:
        raise ConfigError(
            f"{description} has commitIntervalMs, and no commitTogether(epochs).",
            hint="See engine.sinks.contract.CommitsTogether.",
        )
    if driver.path is not None:  # whatever folder the next start or rewind is made in
        identity["path"] = driver.path
    return SinkBinding(
        driver=driver,
        writer=task_writer(writer),
        description=description,
        message_modules=message_modules(type(writer)),
        format=name or description,
        options=identity,
    )


def _as_spark_calls_it(writer: Any, bound: SinkBinding) -> SinkBinding:
    """The sink of a writer that was registered, which may know nothing of this engine."""
    if isinstance(writer, ContinuousWriter):
        return bound
    plain = DriverSink(writer.commit, writer.abort, path=bound.driver.path)
    if bound.driver != plain or isinstance(writer, HasTaskWriter):
        logger.warning(
            "%s has methods or attributes of the names that this engine calls; they are not, as it "
            "does not inherit from %s.%s",
            type(writer).__name__,
            ContinuousWriter.__module__,
            ContinuousWriter.__name__,
        )
    copies = WriterCopies(writer)
    return replace(
        bound,
        driver=replace(plain, commit=copies.commit, abort=copies.abort),
        writer=PlainTaskWriter(copies.write),
    )


@contextmanager
def _own_words(what: str, hint: str) -> Iterator[None]:
    """What the code of a data source raises before anything has started is an error of the query.

    :param hint: what to do if it does not implement this.
    """
    try:
        yield
    except ContinuousError:
        raise
    except NotImplementedError as exc:  # PySpark's own is a subclass
        raise ConfigError(f"{what} is not implemented by it: {exc}", hint=hint) from exc
    except Exception as exc:
        raise ConfigError(f"{what} failed: {type(exc).__name__}: {exc}") from exc


def load_data_source(pickled: bytes) -> type[DataSource]:
    """What :func:`engine.plan.stream_relation.user_data_source` has returned."""
    from pyspark import cloudpickle

    data_source: type[DataSource] = cloudpickle.loads(pickled)
    return data_source


def _instantiate(data_source: type[DataSource], options: Mapping[str, str]) -> Any:
    from pyspark.sql.datasource import CaseInsensitiveDict

    return data_source(options=CaseInsensitiveDict(options))
