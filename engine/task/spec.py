"""What a task is made of: everything that travels to the executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.base.options import FAIL
from engine.pipeline.pipeline import Pipeline
from engine.sources.contract import DataSourceContinuousReader, Offset

EpochWriter = Callable[[Iterator[pa.RecordBatch]], Any]


@dataclass(frozen=True)
class TaskSpec:
    """One partition of one run.

    :param index: the partition, from 0.
    :param stream: which of the query's streams it reads, from 0.
    :param source_partition: the reader's own description of it.
    :param until: end the first epoch exactly at this offset of the whole stream and leave (the
        replay of an epoch whose end is known); None to read for as long as the query lives.
    :param write: called once per epoch with the epoch's batches, returns the writer's message.
    :param on_bad_record: see :class:`engine.base.options.EngineOptions`.
    :param write_letters: writes the bad records of an epoch, if they are kept.
    :param source: names the source in errors.
    :param tells_arrivals: the driver wants to know which epochs are not empty.
    :param heartbeat_s: a task that has said nothing for so many seconds says that it is alive.
    """

    query_id: str
    run_id: str
    generation: int
    index: int
    first_epoch: int
    pipeline: Pipeline
    reader: DataSourceContinuousReader
    source_partition: Any
    write: EpochWriter
    address: tuple[str, int]
    secret: bytes
    until: Offset | None = None
    heartbeat_s: float = 2.0
    stream: int = 0
    source: str = "the source"
    on_bad_record: str = FAIL
    write_letters: EpochWriter | None = None
    tells_arrivals: bool = False

    def __repr__(self) -> str:  # the secret must not reach a log
        return f"TaskSpec(run_id={self.run_id!r}, index={self.index})"
