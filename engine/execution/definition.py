"""A query, ready to run: everything that the execution needs, and nothing of pyspark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.codec import MessageCodec
from engine.pipeline.pipeline import Pipeline
from engine.sources.contract import DataSourceContinuousReader
from engine.task.spec import EpochWriter

EXACTLY_ONCE: Final = "exactly once"
AT_LEAST_ONCE: Final = "at least once"


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
class SinkBinding:
    """A sink bound to its path and options.

    :param writer: the driver's stream writer (``commit``, ``abort``, and perhaps ``validate`` and
        ``latestEpoch``).
    :param write: its executor side, picklable.
    :param description: for explain and progress, e.g. ``parquet[/data/out]``.
    :param delivery: the guarantee, e.g. ``"exactly once"``.
    :param write_letters: writes the bad records of an epoch, if they are kept; picklable.
    :param message_modules: where the classes of a third party's messages may come from;
        ``message_types`` are the engine's own, by their tags.
    :param format: its name, and ``options`` the user's options: they tell one sink from another.
    """

    writer: Any
    write: EpochWriter
    description: str
    delivery: str
    message_modules: Collection[str] = ()
    write_letters: EpochWriter | None = None
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    message_types: Mapping[str, type] = field(default_factory=dict)

    @property
    def codec(self) -> MessageCodec:
        """Stores the writer's messages."""
        return MessageCodec(self.message_types, self.message_modules)


@dataclass(frozen=True)
class QueryDefinition:
    """What ``write_stream(df)...start()`` has put together.

    :param streams: their order is that of the offset log's lines; all have the same output schema.
    :param read_again: the streams, with the tables that they are joined with read again; None if
        there are no tables.
    :param temporary_checkpoint: delete the checkpoint when the query has ended without an error.
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
