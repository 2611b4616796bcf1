"""What the driver and its tasks say to each other.

=====================  =========  ==================================================
message                sent by    meaning
=====================  =========  ==================================================
StateLoading           task       it loads its state, or has loaded it
TaskStarted            task       the reader is open, the first epoch is being read
TaskWired              task       it has reached all tasks that it sends rows to
EpochCommitMessage     task       this partition's part of an epoch is prepared
RecordsArrived         task       the epoch is not empty, if the driver wants to know
TaskFailed             task       the task ends with this error
TaskAlive              task       nothing else to say for a while
Welcome                driver     the run takes this task: open the source
Wiring                 driver     where the tasks are that rows are sent to
EpochMarker            driver     this epoch is over: finish it
HandedOut              driver     read this as well
Dismissed              driver     leave at once, report nothing more
=====================  =========  ==================================================

In all of them ``partition`` is the task's index: a task may read several of the source's.

Each carries nothing that needs a JVM. One :class:`EpochCommitMessage` per task and epoch holds both
the end offset and the writer's message, so that neither can be lost without the other (Spark's
EpochCoordinator gets two, and has to pair them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ContinuousError
from engine.progress.counters import EpochCounters
from engine.snapshots.handles import SnapshotHandle


@dataclass(frozen=True)
class Address:
    """Where a task takes rows from others.

    :param certificate: its own, as PEM; None without TLS.
    """

    host: str
    port: int
    certificate: str | None = None


@dataclass(frozen=True)
class StateLoading:
    """Comes before :class:`TaskStarted`, twice, of a task whose checkpoint has state of it."""

    run_id: str
    partition: int
    is_over: bool = False


@dataclass(frozen=True)
class TaskStarted:
    """:param address: where it takes rows from other tasks, if it does."""

    run_id: str
    partition: int
    host: str
    pid: int
    address: Address | None = None


@dataclass(frozen=True)
class TaskWired:
    run_id: str
    partition: int


@dataclass(frozen=True)
class EpochCommitMessage:
    """:param offsets: where each of its source partitions stands behind the epoch's last record.
    :param writer_message: what the sink's ``write`` returned; of a task whose rows go to others,
        None or :class:`LettersAlone`.
    :param state: its state at the epoch's end, durable by now; None of a task that keeps none.
    """

    run_id: str
    partition: int
    epoch: int
    offsets: tuple[Any, ...]
    writer_message: Any
    counters: EpochCounters
    state: SnapshotHandle | None = None


@dataclass(frozen=True)
class SunkEpoch:
    """A writer's message where dead letters are kept as well.

    :param written: what the sink's ``write`` returned.
    :param dead_letters: what the dead letters' sink returned; None if there were no letters.
    """

    written: Any
    dead_letters: Any


@dataclass(frozen=True)
class LettersAlone:
    """The message of a task whose rows go to other tasks, and which has dead letters.

    :param dead_letters: as of a :class:`SunkEpoch`.
    """

    dead_letters: Any


@dataclass(frozen=True)
class TaskFailed:
    """:param trace: the remote traceback, for the log."""

    run_id: str
    partition: int
    error: ContinuousError
    trace: str


@dataclass(frozen=True)
class RecordsArrived:
    """Told with an epoch's first records, read or written by timers, if an empty epoch may be
    longer than others."""

    run_id: str
    partition: int
    epoch: int


@dataclass(frozen=True)
class TaskAlive:
    run_id: str
    partition: int


@dataclass(frozen=True)
class EpochMarker:
    """:param final: the task ends after this epoch (drain).
    :param committed: the last committed epoch, -1 before the first.
    :param next_watermark_ms: the watermark of the next epoch; what it closes belongs to this one.
    :param next_opened_ms: when the next epoch has begun, by the driver's wall clock.
    """

    epoch: int
    final: bool = False
    committed: int = -1
    next_watermark_ms: int = 0
    next_opened_ms: int = 0


@dataclass(frozen=True)
class HandedOut:
    """What a source's driver has found for a task's partitions.

    :param work: by the number of the partition among all of the query.
    """

    work: Mapping[int, Any]


@dataclass(frozen=True)
class Welcome:
    """The first message to a task, unless the run has ended: then it is dismissed before it has
    opened its source."""


@dataclass(frozen=True)
class Wiring:
    """:param addresses: of the tasks of each pipeline that takes rows from others, in the order of
    the key groups that they own.
    """

    addresses: Mapping[int, tuple[Address, ...]]


@dataclass(frozen=True)
class Dismissed:
    """:param committed: the last committed epoch, as in :class:`EpochMarker`."""

    reason: str
    committed: int = -1


TaskEvent = (
    StateLoading | TaskStarted | TaskWired | EpochCommitMessage | RecordsArrived | TaskFailed
)
TaskMessage = TaskEvent | TaskAlive
DriverMessage = Welcome | Wiring | EpochMarker | HandedOut | Dismissed
