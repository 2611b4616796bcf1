"""A pipeline as text, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from engine.expressions.types import sql_name
from engine.pipeline.pipeline import Pipeline
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

    :param sink: the sink's description, without secrets.
    :param delivery: what the sink guarantees, e.g. ``exactly-once``.
    """
    shared = f", read by {tasks} task{'s' * (tasks > 1)}" if tasks < partitions else ""
    columns = ", ".join(f"{f.name} {sql_name(f.type)}" for f in pipelines[0].schema)
    lines = ["== Continuous Pipeline =="]
    for pipeline in pipelines:
        source = pipeline.source
        lines.append(f"Source     {describe_connector(source.format, source.options)}")
        lines += [f"           {description}" for description in pipeline.descriptions]
    lines += [
        f"Output     {columns}",
        f"Sink       {sink}",
        f"Partitions {partitions}{shared}",
        f"Epochs     every {epoch_interval_ms} ms",
        f"Delivery   {delivery}",
    ]
    return "\n".join(lines) + "\n"
