"""What a task is made of: everything that travels to the executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.base.listing import partitions_named
from engine.base.options import FAIL
from engine.checkpoint.epoch_state import NO_MARKS, Marks
from engine.checkpoint.storage.contract import Storage
from engine.exchange.frames import Place
from engine.exchange.key_groups import KEY_GROUPS
from engine.pipeline.pipeline import Pipeline
from engine.sinks.contract import TaskWriter, WriterContext
from engine.snapshots.handles import SnapshotHandle
from engine.sources.contract import DataSourceContinuousReader, Offset
from engine.state.scratch import HERE, Scratch
from engine.wire.connection import Dialing


@dataclass(frozen=True)
class Reading:
    """What a task reads, and what happens to it.

    :param partitions: the reader's own descriptions of the partitions that this task reads, at
        least one. They are read in turn.
    :param first_partition: the number of the first of them among all partitions of the query.
    :param source: names the source in errors.
    :param until: end the first epoch exactly at this offset of the whole stream and leave (the
        replay of an epoch whose end is known); None to read for as long as the query lives.
    :param done: the numbers of partitions whose rows before ``until`` the sink has already.
    :param tells_arrivals: the driver wants to know which epochs are not empty.
    :param tells_commits: the source is told what is committed.
    """

    reader: DataSourceContinuousReader
    partitions: tuple[Any, ...]
    pipeline: Pipeline
    first_partition: int = 0
    source: str = "the source"
    until: Offset | None = None
    done: frozenset[int] = frozenset()
    tells_arrivals: bool = False
    tells_commits: bool = True

    @property
    def numbers(self) -> range:
        """The numbers of :attr:`partitions` among all partitions of the query."""
        return range(self.first_partition, self.first_partition + len(self.partitions))


@dataclass(frozen=True)
class Receiving:
    """What a task gets from other tasks, in place of a source.

    :param senders: how many tasks of each pipeline send rows, by the number of the pipeline.
    :param discards: the sink has its rows of the first epoch already.
    """

    pipeline: Pipeline
    senders: Mapping[int, int]
    discards: bool = False


@dataclass(frozen=True)
class Kept:
    """What a task knows of its state.

    :param owned: the key groups whose rows it gets; of a task that reads a source, the positions
        of its partitions in their stream, which are its key groups.
    :param storage: of the checkpoint, which keeps it.
    :param restored: the state of the task's pipeline, of all tasks that there were.
    :param memory_max_bytes: see :class:`engine.task.memory.MemoryLimit`.
    :param spill_after_bytes: what is more than that of the state is in files; 0: all is in memory.
    :param scratch: where it is that is neither in memory nor in the storage yet.
    """

    owned: range
    storage: Storage
    restored: tuple[SnapshotHandle, ...] = ()
    memory_max_bytes: int = 0
    spill_after_bytes: int = 0
    scratch: Scratch = HERE


@dataclass(frozen=True)
class Time:
    """What a task knows of time when its first epoch begins, see
    :class:`engine.state.contract.EventClock`.

    :param end_watermark_ms: if the end of the first epoch is given, the watermark behind it.
    :param marks: for the driver, see :class:`engine.checkpoint.epoch_state.EpochState`.
    """

    watermark_ms: int = 0
    opened_ms: int = 0
    end_watermark_ms: int = 0
    marks: Marks = NO_MARKS


@dataclass(frozen=True)
class Writing:
    """What a task writes.

    :param on_bad_record: see :class:`engine.base.options.EngineOptions`.
    :param letters: writes the bad and the late records of an epoch, if they are kept.
    :param keeps_late: late records are.
    """

    writer: TaskWriter
    on_bad_record: str = FAIL
    letters: TaskWriter | None = None
    keeps_late: bool = False


@dataclass(frozen=True)
class TaskSpec:
    """One task of one run. It has either ``reading`` or ``receiving``; its rows go to the sink, or
    where its pipeline's exchange says.

    :param identity: what the sink is told; one task of those that write to it.
    :param index: its own among all tasks of the run, from 0.
    :param kept: None of a task that remembers nothing.
    :param stage: the number of its pipeline in the query; ``share`` which of that pipeline's tasks
        it is.
    :param groups: how many key groups the query has.
    :param exchanges: tasks of the run send rows to one another, this one perhaps not.
    :param is_bounded: the end of the first epoch is given, and the task leaves behind it.
    :param dialing: how it reaches the driver; the run fills it in.
    :param silence_max_s: a task that the driver has not heard for so many seconds is lost: it and
        the driver give each other up.
    :param query: its name, for logs.
    """

    identity: WriterContext
    index: int
    reading: Reading | None
    writing: Writing
    first_epoch: int
    is_bounded: bool = False
    receiving: Receiving | None = None
    kept: Kept | None = None
    stage: int = 0
    share: int = 0
    groups: int = KEY_GROUPS
    exchanges: bool = False
    time: Time = Time()
    dialing: Dialing | None = None
    silence_max_s: float = 30.0
    query: str | None = None

    @property
    def heartbeat_s(self) -> float:
        """A task that has said nothing for so many seconds says that it is alive."""
        return min(2.0, self.silence_max_s / 4)

    @property
    def run_id(self) -> str:
        """Of the run that it belongs to."""
        return self.identity.run_id

    @property
    def pipeline(self) -> Pipeline:
        """What happens to the rows that it gets."""
        if self.reading is not None:
            return self.reading.pipeline
        assert self.receiving is not None
        return self.receiving.pipeline

    @property
    def numbers(self) -> range:
        """The numbers of the partitions that it reads, among all of the query."""
        return range(0) if self.reading is None else self.reading.numbers

    @property
    def place(self) -> Place | None:
        """Where others send rows to; None of a task that reads a source."""
        return None if self.receiving is None else Place(self.stage, self.share)

    @property
    def writes(self) -> bool:
        """Whether its rows go to the sink."""
        return self.pipeline.exchange is None

    @property
    def discards(self) -> bool:
        """See :attr:`Receiving.discards`."""
        return self.receiving is not None and self.receiving.discards

    @property
    def is_wired(self) -> bool:
        """Whether it begins when all that exchange rows have reached one another: the driver waits
        for each task of the run to say so."""
        return self.exchanges or self.receiving is not None or self.pipeline.exchange is not None

    @property
    def own_place(self) -> Place:
        """What those call it that it sends rows to."""
        return Place(self.stage, self.share)

    @property
    def named(self) -> str:
        """As errors name it: by its partitions, or by its place."""
        if self.receiving is not None:
            return str(self.own_place)
        return partitions_named(self.numbers)

    def __repr__(self) -> str:  # a log needs no pipeline
        return f"TaskSpec(run_id={self.run_id!r}, index={self.index})"
