"""A query, ready to run: everything that the execution needs, and nothing of pyspark."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.base.options import EngineOptions
from engine.base.text_tables import count
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.epoch_state import Marks
from engine.checkpoint.lease import LeaseRecord
from engine.coordinator.watermarks import MIN, Watermarks
from engine.errors import ConfigError
from engine.metrics.meter import QueryMeter
from engine.pipeline.pipeline import Pipeline, Watermark
from engine.redaction.logs import log_failure
from engine.sinks.contract import SinkBinding
from engine.sources.contract import DataSourceContinuousReader

logger = logging.getLogger(__name__)


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

    :param streams: their order is that of the offset log's lines.
    :param stages: the pipelines behind exchanges; their numbers follow those of the streams.
    :param watermark_policy: see :class:`engine.coordinator.watermarks.Watermarks`.
    :param shuffle_partitions: a stage has no more tasks, unless option ``reducers`` says it.
    :param lost: the run that was stood by for, see :meth:`engine.checkpoint.lease.Lease.acquire`.
    :param read_again: the streams and stages, with the tables that they are joined with read again;
        None if there are no tables.
    :param temporary_checkpoint: delete the checkpoint when the query has ended without an error,
        and no epoch is logged that is not committed.
    :param meter: hears of each epoch, and is closed with the query; None: nobody wants metrics.
    :param tells_sources: sources are told what is committed, to let go of it.
    :param logs_failures: of tasks, with their traces; else for debugging only, as who gets the
        error tells it.
    :param epoch_interval_ms: 0 for epochs as fast as they commit.
    """

    name: str | None
    streams: tuple[StreamBinding, ...]
    sink: SinkBinding
    checkpoint: Checkpoint
    epoch_interval_ms: int
    options: EngineOptions = field(default_factory=EngineOptions)
    temporary_checkpoint: bool = False
    read_again: Callable[[], tuple[tuple[StreamBinding, ...], tuple[Pipeline, ...]]] | None = None
    stages: tuple[Pipeline, ...] = ()
    watermark_policy: str = MIN
    shuffle_partitions: int = 200
    lost: LeaseRecord | None = None
    tells_sources: bool = True
    logs_failures: bool = True
    meter: QueryMeter | None = None

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """All of them, by their numbers."""
        return (*(stream.pipeline for stream in self.streams), *self.stages)

    @property
    def task_parts(self) -> list[object]:
        """What its tasks are made of, whatever they are to read."""
        readers = [stream.reader for stream in self.streams]
        return [self.pipelines, readers, self.sink.writer, self.sink.letters]

    @property
    def keeps_state(self) -> bool:
        """Whether anything is remembered from one epoch to the next."""
        return any(each.kept is not None for each in self.pipelines)

    @property
    def kept_by_partition(self) -> list[int]:
        """The numbers of the streams whose tasks keep state, each of their own partitions."""
        return [n for n, each in enumerate(self.streams) if each.pipeline.kept is not None]

    @property
    def delays_ms(self) -> list[int]:
        """Of each watermark, by its number."""
        steps = (step for pipeline in self.pipelines for step in pipeline.steps)
        found = {step.number: step.delay_ms for step in steps if isinstance(step, Watermark)}
        return [found[number] for number in sorted(found)]

    def reducers(self, partitions: int, groups: int, asked: int | None = None) -> list[int]:
        """How many tasks each stage has where there are slots enough: as somebody has asked for, or
        the option says, or as many as the sources have partitions, and no more than Spark's
        shuffles.

        :param groups: how many key groups the query has.
        :raises ConfigError: more were asked for than that.
        """
        named = asked or self.options.reducers
        if named > groups:
            raise ConfigError(
                f"A stage cannot have {named} tasks: the query has {count(groups, 'key group')}, "
                "and each task needs one.",
                hint="Set option reducers lower, or ask for fewer by `continuous rescale`. Option "
                "keyGroups sets how many groups there are, for a new checkpoint.",
            )
        wanted = named or min(partitions, self.shuffle_partitions)
        exchanges = [each.exchange for each in self.pipelines if each.exchange is not None]
        without_keys = {each.stage for each in exchanges if not each.keys}
        numbers = range(len(self.streams), len(self.pipelines))
        return [1 if number in without_keys else min(wanted, groups) for number in numbers]

    def watermarks(self, current_ms: int, marks: Marks) -> Watermarks | None:
        """How far event time has come, from a watermark on; None of a query without.

        :param marks: see :class:`engine.coordinator.watermarks.Watermarks`.
        """
        delays_ms = self.delays_ms
        if not delays_ms:
            return None
        idle_after_ms = self.options.watermark_idle_after_ms or 0
        return Watermarks(delays_ms, self.watermark_policy, current_ms, idle_after_ms, marks)

    def stop_sources(self) -> None:
        """Let the sources end what they have open. One that fails at it keeps no other one."""
        for stream in self.streams:
            try:
                stream.reader.stop()
            except Exception:
                log_failure(logger, "the source %s did not stop cleanly", stream.description)
