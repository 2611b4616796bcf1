"""Wrong versions of what keeps state, which the roads with state have to catch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Timer
from typing import Any

import pyarrow as pa

from engine.coordinator.watermarks import Watermarks
from engine.exchange.partitioning import Partitioner
from engine.state.snapshots import SnapshotWriter
from engine.task.by_partition import StageByPartition
from engine.task.sending import SendingWriter
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log

OVERTAKEN = "the end of an epoch overtakes a record"
LATE_SNAPSHOT = "the snapshot is taken an epoch late"
ONE_EPOCH_OFF = "the state is restored from one epoch before"
AHEAD = "the watermark is ahead of what was read"
NOT_DURABLE = "an epoch is committed before its snapshot is durable"
TWO_OWNERS = "a key group is given to two tasks"
WRONG_PARTITION = "rows count for another partition of their task"
LOST_PARTITION = "the state of a partition stays behind when others read it"


def marker_overtakes() -> None:
    """The last batch of an epoch is sent behind its end."""
    right = SendingWriter.write

    def write(self: Any, epoch: int, batches: Iterator[pa.RecordBatch]) -> None:
        held = list[pa.RecordBatch]()

        def but_the_last() -> Iterator[pa.RecordBatch]:
            if (late := getattr(self, "late", None)) is not None:
                yield late
            for batch in batches:
                if held:
                    yield held.pop()
                held.append(batch)

        right(self, epoch, but_the_last())
        self.late = held[0] if held else None

    SendingWriter.write = write  # type: ignore[method-assign]


def snapshot_taken_late() -> None:
    """What belongs to an epoch is the state of the one before."""
    right = SnapshotWriter.prepare

    def prepare(self: Any, *given: Any) -> Any:
        late, self.late = getattr(self, "late", None), right(self, *given)
        return self.late if late is None else late

    SnapshotWriter.prepare = prepare  # type: ignore[method-assign]


def restored_one_epoch_off() -> None:
    """The newest file of each chain is left out."""
    from engine.state import restoring

    right: Callable[..., Any] = restoring.read_chains

    def read_chains(*given: Any) -> Any:
        return [files[:-1] if len(files) > 1 else files for files in right(*given)]

    restoring.read_chains = read_chains  # type: ignore[assignment]


def watermark_ahead() -> None:
    """It is that of the newest event, and some more."""
    right = Watermarks.take

    def take(self: Any, *given: Any) -> Any:
        self._delays_ms = [-10_000] * len(self._delays_ms)
        return right(self, *given)

    Watermarks.take = take  # type: ignore[method-assign]


def snapshot_not_durable() -> None:
    """Its file comes some time later."""
    right = SnapshotWriter._create

    def create(self: Any, *given: Any) -> Any:
        storage = self._storage
        self._storage = _Slow(storage)
        try:
            return right(self, *given)
        finally:
            self._storage = storage

    SnapshotWriter._create = create  # type: ignore[method-assign]


class _Slow:
    """A storage that says that a file is there, and then writes it."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def create(self, name: str, data: bytes) -> bool:
        later = Timer(0.2, self._storage.create, (name, data))
        later.daemon = True
        later.start()
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


def group_of_two_tasks() -> None:
    """The owners of key groups change from batch to batch."""
    right = Partitioner.split

    def split(self: Any, batch: pa.RecordBatch) -> Any:
        if self._tasks > 1:
            self._owners = (self._owners + 1) % self._tasks
        return right(self, batch)

    Partitioner.split = split  # type: ignore[method-assign]


def wrong_partition() -> None:
    """All are taken for rows of its first one."""
    from engine.task import loop

    right = loop.ReadPartitions

    def reads(owned: range, current: Any, silent: frozenset[int]) -> Any:
        return right(owned, lambda: owned.start, silent)

    loop.ReadPartitions = reads  # type: ignore[assignment, misc]


def lost_partition() -> None:
    """A task gets that of its first partition only."""
    right = StageByPartition.restore

    def restore(self: Any, tables: Any, **given: Any) -> None:
        all_of_them = self._stages
        self._stages = dict(list(all_of_them.items())[:1])
        right(self, tables, **given)
        self._stages = all_of_them

    StageByPartition.restore = restore  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    OVERTAKEN: marker_overtakes,
    LATE_SNAPSHOT: snapshot_taken_late,
    ONE_EPOCH_OFF: restored_one_epoch_off,
    AHEAD: watermark_ahead,
    NOT_DURABLE: snapshot_not_durable,
    TWO_OWNERS: group_of_two_tasks,
}
IN_PARTITIONS: dict[str, Callable[[], None]] = {
    **{name: MUTANTS[name] for name in (LATE_SNAPSHOT, ONE_EPOCH_OFF, AHEAD, NOT_DURABLE)},
    WRONG_PARTITION: wrong_partition,
    LOST_PARTITION: lost_partition,
}
"""Of queries that exchange nothing."""
EARLY: dict[str, Callable[[], None]] = {COMMITTED_EARLY: commit_before_log}
"""Of those that tell what an epoch has read: what the watermark closes was decided by the epochs of
before, and is nearly always the same when an epoch runs again."""
