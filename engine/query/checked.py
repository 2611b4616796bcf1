"""A query that this engine is to run, and why it is refused, before anything is created."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.options import EngineOptions
from engine.base.reasons import Reasons
from engine.checkpoint.checkpoint import Checkpoint
from engine.errors import ConfigError
from engine.execution.definition import StreamBinding
from engine.query.planned import PlannedQuery, plan_or_hear
from engine.query.request_sink import bind_request_sink
from engine.query.write_request import (
    CHECKPOINT,
    WriteRequest,
    named_checkpoint,
    pop_option,
    pop_storage,
)
from engine.sinks.builtin_sinks import sink_kind
from engine.sinks.contract import SinkBinding


@dataclass(frozen=True)
class CheckedQuery:
    """What was told to ``write_stream(df)``, and fits together.

    :param checkpoint: None: it has a temporary one.
    """

    planned: PlannedQuery
    sink: SinkBinding
    checkpoint: Checkpoint | None


def check_query(request: WriteRequest) -> CheckedQuery:
    """Plan the query, and look at its sink and at where its checkpoint is.

    :raises ConfigError: it is refused; all reasons at once.
    """
    found = Reasons()
    options, rest = EngineOptions.take(request.sink_options, found)
    planned = plan_or_hear(request, found)
    named, storage = pop_option(rest, CHECKPOINT), pop_storage(rest)
    zone = str(request.df.sparkSession.conf.get("spark.sql.session.timeZone"))
    sink = found.hear(lambda: bind_request_sink(request, rest, options, zone))
    if planned is not None and request.sink_format is not None:
        streams, name = planned.streams, request.sink_format
        found.hear(lambda: refuse_what_is_read_once(streams, name))
    checkpoint = found.hear(lambda: named_checkpoint(request, named, storage))
    found.raise_any()
    assert planned is not None
    assert sink is not None
    return CheckedQuery(planned, sink, checkpoint)


def refuse_what_is_read_once(streams: Sequence[StreamBinding], sink: str) -> None:
    """:raises ConfigError: a source cannot be read again, and the sink is to have each row."""
    lossy = [each for each in streams if each.reader.readsOnce and not each.reader.acceptsLoss]
    if lossy and not sink_kind(sink).is_ephemeral:
        raise ConfigError(
            f"The source {lossy[0].description} cannot be read again: rows would be lost when "
            f"something fails, and the sink {sink} is to have each.",
            hint='If that may be, set option("failOnDataLoss", "false") of the source; or let a '
            "source that keeps its records (files that tail reads, Kafka) stand between the two.",
        )
