"""A query, ready to run: everything that the execution needs, and nothing of pyspark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.pipeline.pipeline import Pipeline
from engine.sinks.contract import SinkBinding
from engine.sources.contract import DataSourceContinuousReader


@dataclass(frozen=True)
class StreamBinding:
    """One stream that the query reads: its source, and what happens to its records.

    :param reader: the driver's side of the source.
    :param description: for explain and progress, e.g. ``rate[rowsPerSecond=10]``.
    """

    pipeline: Pipeline
    reader: DataSourceContinuousReader
    description: str


@dataclass(frozen=True)
class QueryDefinition:
    """What ``write_stream(df)...start()`` has put together.

    :param streams: their order is that of the offset log's lines; all have the same output schema.
    :param read_again: the streams, with the tables that they are joined with read again; None if
        there are no tables.
    :param temporary_checkpoint: delete the checkpoint when the query has ended without an error,
        and no epoch is logged that is not committed.
    :param epoch_interval_ms: 0 for epochs as fast as they commit.
    """

    name: str | None
    streams: tuple[StreamBinding, ...]
    sink: SinkBinding
    checkpoint: Checkpoint
    epoch_interval_ms: int
    options: EngineOptions = field(default_factory=EngineOptions)
    temporary_checkpoint: bool = False
    read_again: Callable[[], tuple[StreamBinding, ...]] | None = None
