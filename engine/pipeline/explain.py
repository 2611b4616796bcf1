"""A pipeline as text, for people."""

from __future__ import annotations

from collections.abc import Sequence

from engine.expressions.types import sql_name
from engine.pipeline.described import describe_connector
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.stateful import Exchange, Exchanged


def explain(
    pipelines: Sequence[Pipeline],
    *,
    sink: str,
    partitions: int | None,
    readers: int,
    epoch_interval_ms: int,
    delivery: str,
    needs: str = "",
) -> str:
    """The whole query, from the sources on top to the sink.

    :param partitions: of the sources; None if they tell it when the query starts.
    :param readers: how many tasks read them.
    :param sink: the sink's description, without secrets.
    :param delivery: what the sink guarantees, e.g. ``exactly-once``.
    :param needs: which tasks there are, and what they need, if that is to be told.
    """
    shared = ""
    if readers < (partitions or 0):
        shared = f", read by {readers} task{'s' * (readers > 1)}"
    count = "as the source tells when the query starts" if partitions is None else partitions
    written = next(each for each in pipelines if each.exchange is None)
    columns = ", ".join(f"{f.name} {sql_name(f.type)}" for f in written.schema)
    lines = ["== Continuous Pipeline =="]
    for number, pipeline in enumerate(pipelines):
        lines.append("{:<11}{}".format(*origin(number, pipeline).split(" ", 1)))
        lines += [f"           {description}" for description in pipeline.descriptions]
        if pipeline.exchange is not None:
            lines.append(f"           {_sending(pipeline, pipeline.exchange)}")
    lines += [
        f"Output     {columns}",
        f"Sink       {sink}",
        f"Partitions {count}{shared}",
        *([f"Tasks      {needs}"] if needs else []),
        f"Epochs     every {epoch_interval_ms} ms",
        f"Delivery   {delivery}",
    ]
    return "\n".join(lines) + "\n"


def origin(number: int, pipeline: Pipeline) -> str:
    """Where the rows of a pipeline come from: ``Source rate[...]`` or ``Stage 1``."""
    source = pipeline.source
    if isinstance(source, Exchanged):
        lag = pipeline.watermark_lag_ms
        return f"Stage {number}" + (f", {lag} ms behind the watermark" if lag else "")
    return f"Source {describe_connector(source.format, source.options)}"


def _sending(pipeline: Pipeline, exchange: Exchange) -> str:
    keys = ", ".join(pipeline.schema.names[key] for key in exchange.keys)
    return f"Exchange by {keys or 'nothing'} to stage {exchange.stage}"
