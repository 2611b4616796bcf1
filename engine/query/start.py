"""Puts a query together from what ``write_stream`` was told, and starts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from engine.checkpoint.sink_context import BoundContext
from engine.errors import ConcurrentRunError
from engine.execution.admission import refuse_changed_query
from engine.execution.definition import QueryDefinition
from engine.execution.execution import ContinuousExecution
from engine.execution.measured import look_at
from engine.metrics.publishing import metered
from engine.pipeline.explain import explain
from engine.query.checked import check_query
from engine.query.handle import ContinuousQuery
from engine.query.planned import plan_streams
from engine.query.stateful_start import shuffle_partitions
from engine.query.write_request import WriteRequest, temporary_checkpoint
from engine.sinks.contract import SinkBinding


def start_continuous(
    request: WriteRequest, make_table: Callable[[], None] | None = None
) -> ContinuousQuery:
    """Plan, check, and start; see
    :meth:`engine.query.writer.ContinuousStreamWriter.start`.

    :param make_table: makes that of the sink; called when this run has the checkpoint, and the
        query is the checkpoint's.
    """
    from engine.spark.executor_launcher import SparkLauncher
    from engine.spark.warm_workers import WarmWorkers
    from engine.spark.workers import check_workers, use_this_python

    context = request.df.sparkSession.sparkContext
    launcher = SparkLauncher(request.df.sparkSession)
    use_this_python(context)
    check_workers(context, launcher.slots())
    checked = check_query(request)
    planned, sink, temporary = checked.planned, checked.sink, checked.checkpoint is None
    options, streams, stages = planned.options, planned.streams, planned.stages
    interval_ms, joins = planned.interval_ms, planned.joins
    definition = QueryDefinition(
        name=request.query_name,
        streams=streams,
        stages=stages,
        watermark_policy=planned.watermark_policy,
        shuffle_partitions=shuffle_partitions(request.df.sparkSession),
        sink=sink if make_table is None else _with_table(sink, make_table),
        checkpoint=checked.checkpoint or temporary_checkpoint(),
        epoch_interval_ms=interval_ms,
        options=options,
        temporary_checkpoint=temporary,
        read_again=(lambda: plan_streams(request, options)) if joins else None,
    )
    standby = request.standby
    if standby is not None or make_table is not None:  # before the sink makes a folder
        refuse_changed_query(definition)
    name = request.query_name or definition.checkpoint.url.rstrip("/").rpartition("/")[2]
    meter = None
    try:
        meter = metered(options, name, stands_by=standby is not None)
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


def _with_table(sink: SinkBinding, make_table: Callable[[], None]) -> SinkBinding:
    bind, made_once = sink.driver.bind, cache(make_table)

    def make_and_bind(context: BoundContext) -> None:
        made_once()  # Spark wants its folder empty
        if bind is not None:
            bind(context)

    return replace(sink, driver=replace(sink.driver, bind=make_and_bind))
