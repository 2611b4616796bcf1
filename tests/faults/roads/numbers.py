"""Numbered records on disk, and a sink that keeps the rows of each epoch: what went in and what
came out can be told for every epoch, not at the end alone.

A partition is a file that grows by one byte for each record. Record k of partition p is ``(p, k)``.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.checkpoint.checkpoint import Checkpoint
from engine.sinks.adapter import PlainTaskWriter
from engine.sinks.contract import DriverSink, SinkBinding
from engine.sources.contract import DataSourceContinuousReader, Offset, PartitionReader
from tests.faults.roads.beside import beside

PARTITIONS = 2
FEED_EVERY_S = 0.004
BACKLOG = 500
"""A partition gets no more before its records are committed, but for so many: so one partition is
never ahead of another by more, and watermarks that wait for longer leave nothing out."""
_POLL_S = 0.002
_BATCH = 64
RECORDS = pa.schema([pa.field("partition", pa.int64()), pa.field("seq", pa.int64())])


class NumbersReader(DataSourceContinuousReader):
    """Offsets: ``{"0": next seq, "1": ...}``; of a partition: ``[partition, next seq]``."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def initialOffset(self) -> Offset:
        return {str(p): 0 for p in range(PARTITIONS)}

    def partitions(self, start: Offset) -> Sequence[Any]:
        return [(p, start[str(p)]) for p in range(PARTITIONS)]

    def latestOffset(self, start: Offset) -> Offset | None:
        return {str(p): available(self._folder, p) for p in range(PARTITIONS)}

    def open(self, partition: Any, until: Offset | None = None) -> PartitionReader:
        index, seq = partition
        return _PartitionReader(self._folder, index, seq, until)

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        return {str(p): seq for p, seq in offsets}


class _PartitionReader(PartitionReader):
    def __init__(self, folder: str, index: int, seq: int, until: Offset | None) -> None:
        self._folder, self._index, self._seq = folder, index, seq
        self._end = None if until is None else until[str(index)]

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        deadline_s, pause = time.monotonic() + timeout_s, threading.Event()
        while (end := self._there()) <= self._seq:
            if self.exhausted or time.monotonic() >= deadline_s:
                return None
            pause.wait(_POLL_S)
        seqs = range(self._seq, min(end, self._seq + _BATCH))
        self._seq = seqs.stop
        columns = [pa.array([self._index] * len(seqs)), pa.array(seqs)]
        return pa.RecordBatch.from_arrays(columns, schema=RECORDS)

    def _there(self) -> int:
        return available(self._folder, self._index) if self._end is None else self._end

    @property
    def offset(self) -> Offset:
        return [self._index, self._seq]

    @property
    def exhausted(self) -> bool:
        return self._end is not None and self._seq >= self._end


def available(folder: str, partition: int) -> int:
    """So many records has it."""
    try:
        return (Path(folder) / str(partition)).stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def feeding(folder: str, checkpoint: Checkpoint, source: int) -> Iterator[None]:
    """A record for each partition, again and again.

    :param source: whose committed offsets count, among those of the query.
    """
    stop = threading.Event()

    def feed() -> None:
        committed, seq = 0, available(folder, 0)
        while not stop.wait(FEED_EVERY_S):
            if seq - committed >= BACKLOG:
                committed = _committed(checkpoint, source)
                continue
            for partition in range(PARTITIONS):
                with (Path(folder) / str(partition)).open("ab") as file:
                    file.write(b".")
            seq += 1

    with beside(feed, stop):
        yield


def _committed(checkpoint: Checkpoint, source: int) -> int:
    newest = checkpoint.commits.latest_id()
    entry = None if newest is None else checkpoint.offsets.get(newest)
    offset = None if entry is None else entry.offsets[source]
    return 0 if not isinstance(offset, dict) else min(offset.values())


class Ledger:
    """A file for each epoch that has rows; the first write of an epoch wins. A row is kept as a
    list of JSON's values, a time as its seconds."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def binding(self) -> SinkBinding:
        driver = DriverSink(self.commit, lambda messages, epoch: None, delivery="exactly once")
        return SinkBinding(driver, PlainTaskWriter(self.write), "ledger")

    @staticmethod
    def write(batches: Iterator[pa.RecordBatch]) -> list[list[Any]]:
        return [[plain(value) for value in row] for batch in batches for row in rows_of(batch)]

    def commit(self, messages: Sequence[list[list[Any]]], epoch: int) -> None:
        rows = [row for message in messages for row in message]
        if not rows:
            return
        made = self._folder / f".{epoch}-{os.getpid()}"
        made.write_text(json.dumps(rows))
        with suppress(FileExistsError):
            os.link(made, self._folder / str(epoch))
        made.unlink()

    def rewind(self, epoch: int) -> None:
        """Take back what later epochs have brought."""
        for file in self._folder.glob("[0-9]*"):
            if int(file.name) > epoch:
                file.unlink()

    def rows(self, last: int) -> Iterator[list[Any]]:
        """Those of all epochs up to this one, in their order."""
        for epoch in sorted(int(each.name) for each in self._folder.glob("[0-9]*")):
            if epoch <= last:
                yield from json.loads((self._folder / str(epoch)).read_text())


def rows_of(rows: pa.RecordBatch | pa.Table) -> Iterator[tuple[Any, ...]]:
    """As Python's values."""
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def plain(value: Any) -> Any:
    """As JSON has it: times in seconds, those of a struct one behind the other."""
    if isinstance(value, dict):
        return [plain(each) for each in value.values()]
    return int(value.timestamp()) if hasattr(value, "timestamp") else value
