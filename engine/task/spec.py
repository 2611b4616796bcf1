"""What a task is made of: everything that travels to the executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.base.options import FAIL
from engine.pipeline.pipeline import Pipeline
from engine.sinks.contract import TaskWriter, WriterContext
from engine.sources.contract import DataSourceContinuousReader, Offset
from engine.wire.connection import Dialing


@dataclass(frozen=True)
class Reading:
    """What a task reads, and what happens to it.

    :param partitions: the reader's own descriptions of the partitions that this task reads, at
        least one. They are read in turn.
    :param first_partition: the number of the first of them among all partitions of the query.
    :param stream: which of the query's streams they belong to, from 0.
    :param source: names the source in errors.
    :param until: end the first epoch exactly at this offset of the whole stream and leave (the
        replay of an epoch whose end is known); None to read for as long as the query lives.
    :param done: the numbers of partitions whose rows before ``until`` the sink has already.
    :param tells_arrivals: the driver wants to know which epochs are not empty.
    """

    reader: DataSourceContinuousReader
    partitions: tuple[Any, ...]
    pipeline: Pipeline
    first_partition: int = 0
    stream: int = 0
    source: str = "the source"
    until: Offset | None = None
    done: frozenset[int] = frozenset()
    tells_arrivals: bool = False

    @property
    def numbers(self) -> range:
        """The numbers of :attr:`partitions` among all partitions of the query."""
        return range(self.first_partition, self.first_partition + len(self.partitions))


@dataclass(frozen=True)
class Writing:
    """What a task writes.

    :param on_bad_record: see :class:`engine.base.options.EngineOptions`.
    :param letters: writes the bad records of an epoch, if they are kept.
    """

    writer: TaskWriter
    on_bad_record: str = FAIL
    letters: TaskWriter | None = None


@dataclass(frozen=True)
class TaskSpec:
    """One task of one run.

    :param identity: whose task it is, and its index.
    :param dialing: how it reaches the driver; the run fills it in.
    :param heartbeat_s: a task that has said nothing for so many seconds says that it is alive.
    """

    identity: WriterContext
    reading: Reading
    writing: Writing
    first_epoch: int
    dialing: Dialing | None = None
    heartbeat_s: float = 2.0

    @property
    def run_id(self) -> str:
        """Of the run that it belongs to."""
        return self.identity.run_id

    @property
    def index(self) -> int:
        """Of the task, from 0."""
        return self.identity.task

    def __repr__(self) -> str:  # a log needs no pipeline
        return f"TaskSpec(run_id={self.run_id!r}, index={self.index})"
