"""A pipeline as text, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from engine.expressions.types import sql_name
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.stateful import Exchange, Exchanged
from engine.redaction.texts import SECRET_NAME, redact

REDACTED: Final = "*********(redacted)"
"""What Spark prints in place of a secret."""


def _redacted(options: Mapping[str, str]) -> dict[str, str]:
    """The options with the values of those that look like secrets replaced."""
    return {
        key: REDACTED if SECRET_NAME.search(key) or SECRET_NAME.search(value) else redact(value)
        for key, value in options.items()
    }


def describe_connector(name: str, options: Mapping[str, str]) -> str:
    """A source or a sink in one line, without secrets: ``rate[rowsPerSecond=10]``."""
    shown = ", ".join(f"{key}={value}" for key, value in sorted(_redacted(options).items()))
    return f"{name}[{shown}]"


def explain(
    pipelines: Sequence[Pipeline],
    *,
    sink: str,
    partitions: int,
    tasks: int,
    epoch_interval_ms: int,
    delivery: str,
) -> str:
    """The whole query, from the sources on top to the sink.

    :param tasks: how many read the ``partitions`` of the sources.
    :param sink: the sink's description, without secrets.
    :param delivery: what the sink guarantees, e.g. ``exactly-once``.
    """
    shared = f", read by {tasks} task{'s' * (tasks > 1)}" if tasks < partitions else ""
    written = next(each for each in pipelines if each.exchange is None)
    columns = ", ".join(f"{f.name} {sql_name(f.type)}" for f in written.schema)
    lines = ["== Continuous Pipeline =="]
    for number, pipeline in enumerate(pipelines):
        lines.append(origin(number, pipeline))
        lines += [f"           {description}" for description in pipeline.descriptions]
        if pipeline.exchange is not None:
            lines.append(f"           {_sending(pipeline, pipeline.exchange)}")
    lines += [
        f"Output     {columns}",
        f"Sink       {sink}",
        f"Partitions {partitions}{shared}",
        f"Epochs     every {epoch_interval_ms} ms",
        f"Delivery   {delivery}",
    ]
    return "\n".join(lines) + "\n"


def origin(number: int, pipeline: Pipeline) -> str:
    """Where the rows of a pipeline come from, in one line."""
    source = pipeline.source
    if isinstance(source, Exchanged):
        lag = pipeline.watermark_lag_ms
        return f"Stage      {number}" + (f", {lag} ms behind the watermark" if lag else "")
    return f"Source     {describe_connector(source.format, source.options)}"


def _sending(pipeline: Pipeline, exchange: Exchange) -> str:
    keys = ", ".join(pipeline.schema.names[key] for key in exchange.keys)
    return f"Exchange by {keys or 'nothing'} to stage {exchange.stage}"
