"""What is known of a query by ``write_stream(df)`` alone: its plan, its sources, its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from engine.base.options import EngineOptions, parse_interval_ms
from engine.base.reasons import Reasons
from engine.errors import ConfigError, ContinuousError
from engine.execution.definition import StreamBinding
from engine.pipeline.pipeline import Pipeline, SourceRelation, StaticJoin
from engine.pipeline.stateful import Exchanged
from engine.query.binding import bind_source
from engine.query.stateful_start import (
    check_idle_streams,
    check_kept_partitions,
    check_key_groups,
    check_late_records,
    check_output_mode,
    refuse_options_of_exchanges,
    refuse_options_of_state,
    watermark_policy,
)
from engine.query.write_request import WriteRequest
from engine.sources.polled.reader import PolledReader

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class PlannedQuery:
    """What of a query is known before its sink and its checkpoint are looked at."""

    options: EngineOptions
    interval_ms: int
    streams: tuple[StreamBinding, ...]
    stages: tuple[Pipeline, ...]
    watermark_policy: str

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """All of them, by their numbers."""
        return (*(stream.pipeline for stream in self.streams), *self.stages)

    @property
    def joins(self) -> bool:
        """Whether tables are joined with the streams."""
        return any(isinstance(step, StaticJoin) for each in self.pipelines for step in each.steps)


def plan_request(request: WriteRequest, overriding: Mapping[str, str] = _NOTHING) -> PlannedQuery:
    """Plan the query, and check all that needs neither its sink nor its checkpoint.

    :param overriding: options of the sources that take the place of those of the same name, where
        there are such.
    :raises ConfigError: it cannot run, or options are wrong; lists all that is.
    """
    found = Reasons()
    planned = plan_or_hear(request, found, overriding)
    found.raise_any()
    assert planned is not None
    return planned


def plan_or_hear(
    request: WriteRequest, found: Reasons, overriding: Mapping[str, str] = _NOTHING
) -> PlannedQuery | None:
    """As :func:`plan_request`; what is wrong with an option is no reason not to go on.

    :param found: hears why the query cannot run.
    :return: None if there is no plan of it.
    """
    interval_ms = found.hear(lambda: parse_interval_ms(str(request.trigger_value)))
    options, _ = EngineOptions.take(request.sink_options, found)
    policy = watermark_policy(request.df.sparkSession)
    try:
        streams, stages = plan_streams(request, options, overriding)
    except ContinuousError as exc:  # what others raise need not be a fault of the query
        found.add(exc)
        return None
    planned = PlannedQuery(options, interval_ms or 0, streams, stages, policy)
    found.hear(lambda: _refuse_intervals(planned))
    found.hear(lambda: check_idle_streams(options, planned.pipelines, policy))
    found.hear(lambda: check_late_records(options, planned.pipelines))
    if any(pipeline.kept is not None for pipeline in planned.pipelines):
        found.hear(lambda: check_output_mode(request))
        found.hear(lambda: check_key_groups(options))
        found.hear(lambda: check_kept_partitions(streams))
        if not stages:
            found.hear(lambda: refuse_options_of_exchanges(options))
    else:
        found.hear(lambda: refuse_options_of_state(options))
    return planned


def _refuse_intervals(planned: PlannedQuery) -> None:
    if planned.options.refresh_interval and not planned.joins:
        raise ConfigError(
            "Option refreshInterval has no meaning: the query is joined with no table.",
            hint="Leave it out.",
        )
    polled = any(isinstance(stream.reader, PolledReader) for stream in planned.streams)
    if planned.options.source_poll_interval_ms is not None and not polled:
        raise ConfigError(
            "Option sourcePollInterval has no meaning: no source of the query is polled.",
            hint="Leave it out.",
        )


def plan_streams(
    request: WriteRequest, options: EngineOptions, overriding: Mapping[str, str] = _NOTHING
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
            _overridden(pipeline.source, overriding),
            parallelism,
            pipeline.session_timezone,
            options.source_poll_interval_ms,
        )
        streams.append(StreamBinding(*pruned(pipeline, reader), source))
    return tuple(streams), tuple(stages)


def _overridden(source: SourceRelation, options: Mapping[str, str]) -> SourceRelation:
    there = {key: options.get(key.lower(), value) for key, value in source.options.items()}
    return replace(source, options=there)
