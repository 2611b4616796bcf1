"""Puts a query together from what ``write_stream`` was told, and starts it."""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING

from engine.checkpoint.checkpoint import Checkpoint
from engine.config import DEAD_LETTER, EngineOptions, parse_interval_ms
from engine.connectors import bind_sink, bind_source, bind_writer
from engine.definition import QueryDefinition, SinkBinding, StreamBinding
from engine.errors import ConfigError
from engine.execution import ContinuousExecution
from engine.options import PARTITION_BY, SESSION_TIMEZONE
from engine.plan.explain import explain
from engine.plan.pipeline import StaticJoin
from engine.query import ContinuousQuery
from engine.sinks.dead_letters import with_dead_letters
from engine.sinks.registry import SINKS
from engine.spark.tables import FILE_FORMATS

if TYPE_CHECKING:
    from engine.api import ContinuousStreamWriter

CHECKPOINT = "checkpointLocation"
_EPHEMERAL_SINKS = ("console", "memory", "noop", "foreach", "foreachbatch")
"""These need no checkpoint location, as in Spark: a temporary one serves."""


def start_continuous(builder: ContinuousStreamWriter) -> ContinuousQuery:
    """Plan, check, and start; see :meth:`ContinuousStreamWriter.start`."""
    from engine.spark.launcher import SparkLauncher

    interval_ms = parse_interval_ms(str(builder.trigger_value))
    options, rest = EngineOptions.take(builder.sink_options)
    streams = _streams(builder, options)
    pipelines = [stream.pipeline for stream in streams]
    session_timezone = pipelines[0].session_timezone
    joins = any(isinstance(step, StaticJoin) for each in pipelines for step in each.steps)
    if options.refresh_interval and not joins:
        raise ConfigError(
            "Option refreshInterval has no meaning: the query is joined with no table.",
            hint="Leave it out.",
        )
    location = pop_option(rest, CHECKPOINT)
    launcher = SparkLauncher(builder.df.sparkSession)
    sink = _sink(builder, rest, session_timezone)
    if options.on_bad_record == DEAD_LETTER:
        sink = with_dead_letters(sink, options.dead_letter_path)
    partitions = sum(len(s.reader.partitions(s.reader.initialOffset())) for s in streams)
    explanation = explain(
        pipelines,
        sink=sink.description,
        partitions=partitions,
        epoch_interval_ms=interval_ms,
        delivery=sink.delivery,
    )
    location, temporary = checkpoint_location(builder, location)
    definition = QueryDefinition(
        name=builder.query_name,
        streams=streams,
        sink=sink,
        checkpoint=Checkpoint(location),
        epoch_interval_ms=interval_ms,
        options=options,
        temporary_checkpoint=temporary,
        read_again=(lambda: _streams(builder, options)) if joins else None,
    )
    execution = ContinuousExecution(definition, launcher)
    try:
        execution.start()
    except BaseException:
        if temporary:
            definition.checkpoint.delete()
        raise
    return ContinuousQuery(execution, explanation)


def _streams(builder: ContinuousStreamWriter, options: EngineOptions) -> tuple[StreamBinding, ...]:
    """Plan the query; tables that it is joined with are read here."""
    from engine.plan.planner import plan_query
    from engine.plan.pruning import pruned

    parallelism = builder.df.sparkSession.sparkContext.defaultParallelism
    streams = []
    for pipeline in plan_query(builder.df, options.static_side_max_bytes):
        reader, source = bind_source(pipeline.source, parallelism, pipeline.session_timezone)
        streams.append(StreamBinding(*pruned(pipeline, reader), source))
    return tuple(streams)


def _sink(
    builder: ContinuousStreamWriter, options: dict[str, str], session_timezone: str
) -> SinkBinding:
    spark, schema = builder.df.sparkSession, builder.df.schema
    name = builder.sink_format
    if name is None:
        raise ConfigError(
            "The query has no sink.", hint='Name one: .format("parquet").option("path", ...).'
        )
    if builder.partition_columns and name.lower() not in FILE_FORMATS:
        raise ConfigError(
            f"partitionBy has no meaning for the sink {name}.",
            hint=f"It lays out the files of {', '.join(FILE_FORMATS)}.",
        )
    if name == "foreach":
        from engine.sinks.foreach import ForeachWriter

        return bind_writer(ForeachWriter(builder.function, schema), "foreach")
    if name == "foreachBatch":
        from engine.sinks.foreach_batch import ForeachBatchWriter

        return bind_writer(ForeachBatchWriter(builder.function, spark, schema), "foreachBatch")
    if name.lower() == "memory":
        from engine.sinks.memory import MemoryWriter

        if builder.query_name is None:
            raise ConfigError(
                "The memory sink needs a name for its table.", hint="Set queryName(...)."
            )
        return bind_writer(
            MemoryWriter(builder.query_name, schema, spark),
            f"memory[{builder.query_name}]",
            "memory",
        )
    if name.lower() in SINKS:  # a stranger may refuse options that it does not know
        options = {
            **options,
            PARTITION_BY: json.dumps(builder.partition_columns),
            SESSION_TIMEZONE: session_timezone,
        }
    return bind_sink(spark, name, options, schema)


def checkpoint_location(builder: ContinuousStreamWriter, location: str | None) -> tuple[str, bool]:
    """The checkpoint's URL, and whether it is temporary."""
    if location is not None:
        return location, False
    default = builder.df.sparkSession.conf.get("spark.sql.streaming.checkpointLocation", None)
    if default and builder.query_name:
        return f"{default.rstrip('/')}/{builder.query_name}", False
    if str(builder.sink_format).lower() in _EPHEMERAL_SINKS:
        return tempfile.mkdtemp(prefix="continuous-"), True
    raise ConfigError(
        "The query has no checkpoint location.",
        hint='Set option("checkpointLocation", ...): it is what makes the query restartable.',
    )


def pop_option(options: dict[str, str], name: str) -> str | None:
    """Take an option out, whatever the case of its key; None if it is not there."""
    for key in list(options):
        if key.lower() == name.lower():
            return options.pop(key)
    return None
