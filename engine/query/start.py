"""Puts a query together from what ``write_stream`` was told, and starts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from engine.errors import ConcurrentRunError, ConfigError
from engine.execution.admission import refuse_changed_query
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.measured import look_at
from engine.metrics.publishing import metered
from engine.pipeline.explain import explain
from engine.query.handle import ContinuousQuery
from engine.query.planned import plan_request, plan_streams
from engine.query.request_sink import bind_request_sink
from engine.query.stateful_start import shuffle_partitions
from engine.query.write_request import (
    CHECKPOINT,
    WriteRequest,
    named_checkpoint,
    pop_option,
    pop_storage,
    temporary_checkpoint,
)
from engine.sinks.builtin_sinks import sink_kind


def start_continuous(request: WriteRequest) -> ContinuousQuery:
    """Plan, check, and start; see
    :meth:`engine.query.writer.ContinuousStreamWriter.start`."""
    from engine.spark.executor_launcher import SparkLauncher
    from engine.spark.warm_workers import WarmWorkers
    from engine.spark.workers import check_workers, use_this_python

    context = request.df.sparkSession.sparkContext
    launcher = SparkLauncher(request.df.sparkSession)
    use_this_python(context)
    check_workers(context, launcher.slots())
    planned = plan_request(request)
    options, streams, stages = planned.options, planned.streams, planned.stages
    interval_ms, joins = planned.interval_ms, planned.joins
    refuse_what_is_read_once(streams, str(request.sink_format))
    rest = dict(planned.rest)
    named, storage = pop_option(rest, CHECKPOINT), pop_storage(rest)
    sink = bind_request_sink(request, rest, options, planned.session_timezone)
    checkpoint = named_checkpoint(request, named, storage)
    temporary = checkpoint is None
    definition = QueryDefinition(
        name=request.query_name,
        streams=streams,
        stages=stages,
        watermark_policy=planned.watermark_policy,
        shuffle_partitions=shuffle_partitions(request.df.sparkSession),
        sink=sink,
        checkpoint=checkpoint or temporary_checkpoint(),
        epoch_interval_ms=interval_ms,
        options=options,
        temporary_checkpoint=temporary,
        read_again=(lambda: plan_streams(request, options)) if joins else None,
    )
    standby = request.standby
    if standby is not None:
        refuse_changed_query(definition)
    name = request.query_name or definition.checkpoint.url.rstrip("/").rpartition("/")[2]
    meter = metered(options, name, stands_by=standby is not None)
    try:
        if standby is not None:
            warm = WarmWorkers(launcher, definition.task_parts)
            try:
                has_waited = standby.await_turn(definition.checkpoint, warm.keep)
            finally:
                warm.end()
            if has_waited and joins:  # the tables are as old as the plan
                streams, stages = plan_streams(request, options)
            definition = replace(definition, streams=streams, stages=stages, lost=standby.lost)
        execution = ContinuousExecution(replace(definition, meter=meter), launcher)
        if request.on_made is not None:
            request.on_made(execution)
        if meter is not None:
            meter.look = partial(look_at, execution)
        try:
            execution.start()
        except ConcurrentRunError:
            if standby is not None:
                standby.was_late(definition.checkpoint)
            raise
    except BaseException:
        if meter is not None:
            meter.close()
        if temporary:
            definition.checkpoint.delete()
        raise

    def explanation() -> str:
        return explain(
            planned.pipelines,
            sink=sink.description,
            partitions=execution.spread.partitions,
            readers=execution.spread.readers,
            epoch_interval_ms=interval_ms,
            delivery=sink.driver.delivery,
        )

    return ContinuousQuery(execution, explanation)


def refuse_what_is_read_once(streams: Sequence[StreamBinding], sink: str) -> None:
    lossy = [each for each in streams if each.reader.readsOnce and not each.reader.acceptsLoss]
    if lossy and not sink_kind(sink).is_ephemeral:
        raise ConfigError(
            f"The source {lossy[0].description} cannot be read again: rows would be lost when "
            f"something fails, and the sink {sink} is to have each.",
            hint='If that may be, set option("failOnDataLoss", "false") of the source; or let a '
            "source that keeps its records (files that tail reads, Kafka) stand between the two.",
        )
