"""Puts a query together from what ``write_stream`` was told, and starts it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from engine.base.connector_options import PARTITION_BY, SESSION_TIMEZONE, Options
from engine.base.options import EngineOptions, parse_interval_ms
from engine.base.output_modes import COMPLETE
from engine.errors import ConfigError
from engine.execution.admission import refuse_changed_query
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.pipeline.explain import explain
from engine.pipeline.pipeline import Pipeline, StaticJoin
from engine.pipeline.stateful import Exchanged
from engine.query.binding import bind_sink, bind_source, bind_writer
from engine.query.handle import ContinuousQuery
from engine.query.stateful_start import (
    check_idle_streams,
    check_kept_partitions,
    check_key_groups,
    check_late_records,
    check_output_mode,
    refuse_options_of_exchanges,
    refuse_options_of_state,
    shuffle_partitions,
    watermark_policy,
)
from engine.query.write_request import (
    CHECKPOINT,
    WriteRequest,
    checkpoint_location,
    open_checkpoint,
    pop_option,
    pop_storage,
)
from engine.sinks.builtin_sinks import PARTITIONED, SINKS, sink_kind
from engine.sinks.contract import SinkBinding
from engine.sinks.dead_letters import with_dead_letters
from engine.sources.polled.reader import PolledReader


def start_continuous(request: WriteRequest) -> ContinuousQuery:
    """Plan, check, and start; see
    :meth:`engine.query.writer.ContinuousStreamWriter.start`."""
    from engine.spark.executor_launcher import SparkLauncher
    from engine.spark.workers import check_workers, use_this_python

    context = request.df.sparkSession.sparkContext
    launcher = SparkLauncher(request.df.sparkSession)
    use_this_python(context)
    check_workers(context, launcher.slots())
    interval_ms = parse_interval_ms(str(request.trigger_value))
    options, rest = EngineOptions.take(request.sink_options)
    streams, stages = _planned(request, options)
    pipelines = [*(stream.pipeline for stream in streams), *stages]
    session_timezone = pipelines[0].session_timezone
    joins = any(isinstance(step, StaticJoin) for each in pipelines for step in each.steps)
    if options.refresh_interval and not joins:
        raise ConfigError(
            "Option refreshInterval has no meaning: the query is joined with no table.",
            hint="Leave it out.",
        )
    polled = any(isinstance(stream.reader, PolledReader) for stream in streams)
    if options.source_poll_interval_ms is not None and not polled:
        raise ConfigError(
            "Option sourcePollInterval has no meaning: no source of the query is polled.",
            hint="Leave it out.",
        )
    policy = watermark_policy(request.df.sparkSession)
    check_idle_streams(options, pipelines, policy)
    check_late_records(options, pipelines)
    if any(pipeline.kept is not None for pipeline in pipelines):
        check_output_mode(request)
        check_key_groups(options)
        check_kept_partitions(streams)
        if not stages:
            refuse_options_of_exchanges(options)
    else:
        refuse_options_of_state(options)
    _check_what_is_read_once(streams, str(request.sink_format))
    named, storage = pop_option(rest, CHECKPOINT), pop_storage(rest)
    sink = _sink(request, rest, session_timezone)
    if options.keeps_letters:
        sink = with_dead_letters(sink, options.dead_letter_path)
    location, temporary = checkpoint_location(request, named)
    definition = QueryDefinition(
        name=request.query_name,
        streams=streams,
        stages=stages,
        watermark_policy=policy,
        shuffle_partitions=shuffle_partitions(request.df.sparkSession),
        sink=sink,
        checkpoint=open_checkpoint(location, storage),
        epoch_interval_ms=interval_ms,
        options=options,
        temporary_checkpoint=temporary,
        read_again=(lambda: _planned(request, options)) if joins else None,
    )
    standby = request.standby
    if standby is not None:
        refuse_changed_query(definition)
        has_waited = standby.await_turn(definition.checkpoint, launcher.warm_up)
        if has_waited and joins:  # the tables are as old as the plan
            streams, stages = _planned(request, options)
        definition = replace(definition, streams=streams, stages=stages, lost=standby.lost)
    execution = ContinuousExecution(definition, launcher)
    try:
        execution.start()
    except BaseException:
        if temporary:
            definition.checkpoint.delete()
        raise

    def explanation() -> str:
        return explain(
            pipelines,
            sink=sink.description,
            partitions=execution.partitions,
            tasks=execution.tasks,
            epoch_interval_ms=interval_ms,
            delivery=sink.driver.delivery,
        )

    return ContinuousQuery(execution, explanation)


def _planned(
    request: WriteRequest, options: EngineOptions
) -> tuple[tuple[StreamBinding, ...], tuple[Pipeline, ...]]:
    """Plan the query, its streams and its stages; tables that it is joined with are read here."""
    from engine.pipeline.pruning import pruned
    from engine.plan.planner import plan_query

    parallelism = request.df.sparkSession.sparkContext.defaultParallelism
    streams, stages = [], []
    for pipeline in plan_query(
        request.df,
        options.static_side_max_bytes,
        options.exact_math,
        request.output_mode,
        options.folds_before_sending,
        options.keys_stay_in_partitions,
    ):
        if isinstance(pipeline.source, Exchanged):
            stages.append(pipeline)
            continue
        reader, source = bind_source(
            pipeline.source,
            parallelism,
            pipeline.session_timezone,
            options.source_poll_interval_ms,
        )
        streams.append(StreamBinding(*pruned(pipeline, reader), source))
    return tuple(streams), tuple(stages)


def _check_what_is_read_once(streams: Sequence[StreamBinding], sink: str) -> None:
    lossy = [each for each in streams if each.reader.readsOnce and not each.reader.acceptsLoss]
    if lossy and not sink_kind(sink).is_ephemeral:
        raise ConfigError(
            f"The source {lossy[0].description} cannot be read again: rows would be lost when "
            f"something fails, and the sink {sink} is to have each.",
            hint='If that may be, set option("failOnDataLoss", "false") of the source; or let a '
            "source that keeps its records (files that tail reads, Kafka) stand between the two.",
        )


def _sink(request: WriteRequest, options: dict[str, str], session_timezone: str) -> SinkBinding:
    spark, schema = request.df.sparkSession, request.df.schema
    name, is_whole = request.sink_format, request.output_mode == COMPLETE
    if name is None:
        raise ConfigError(
            "The query has no sink.", hint='Name one: .format("parquet").option("path", ...).'
        )
    if request.partition_columns and not sink_kind(name).has_partitions:
        raise ConfigError(
            f"partitionBy has no meaning for the sink {name}.",
            hint=f"It lays out the files of {', '.join(PARTITIONED)}.",
        )
    if name == "foreach":
        from engine.sinks.foreach import ForeachWriter

        Options("sink foreach", options).refuse_others()
        return bind_writer(ForeachWriter(request.function, schema), "foreach")
    if name in ("foreachBatch", "foreachBatchArrow"):
        from engine.sinks.foreach_batch import ForeachBatchArrowWriter, ForeachBatchWriter
        from engine.sinks.shipped import shipped_bytes_max
        from engine.spark.answers import ask_jvm

        taken = Options(f"sink {name}", options)
        bytes_max = shipped_bytes_max(taken)
        taken.refuse_others()
        function = request.function
        if name == "foreachBatch":
            check = partial(ask_jvm, spark)
            return bind_writer(ForeachBatchWriter(function, spark, schema, bytes_max, check), name)
        return bind_writer(ForeachBatchArrowWriter(function, schema, bytes_max), name)
    if name.lower() == "memory":
        from engine.sinks.memory import MemoryWriter
        from engine.sinks.shipped import shipped_bytes_max

        if request.query_name is None:
            raise ConfigError(
                "The memory sink needs a name for its table.", hint="Set queryName(...)."
            )
        taken = Options("sink memory", options)
        bytes_max = shipped_bytes_max(taken)
        taken.refuse_others()
        return bind_writer(
            MemoryWriter(request.query_name, schema, spark, bytes_max=bytes_max, replaces=is_whole),
            f"memory[{request.query_name}]",
            "memory",
        )
    if name.lower() in SINKS:  # a stranger may refuse options that it does not know
        options = {
            **options,
            PARTITION_BY: json.dumps(request.partition_columns),
            SESSION_TIMEZONE: session_timezone,
        }
    return bind_sink(spark, name, options, schema, overwrite=is_whole)
