"""Inspection: all that a checkpoint tells, its faults included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from engine.base.json_text import JSON
from engine.checkpoint.copy_record import read_copy
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.checkpoint.logs.metadata_log import entry_id
from engine.checkpoint.pins import Pin
from engine.checkpoint.query_history import history
from engine.errors import CheckpointCorruptError, CheckpointVersionError

if TYPE_CHECKING:
    from engine.checkpoint.checkpoint import Checkpoint

T = TypeVar("T")
LAST_DEFAULT = 20


@dataclass(frozen=True)
class LogSummary:
    """One log.

    :param first: the oldest entry that is kept; None if there is none.
    :param gaps: the missing ids between the first and the last, as ``3`` or ``3-5``.
    """

    entries: int
    bytes: int
    first: int | None
    last: int | None
    gaps: tuple[str, ...]


@dataclass(frozen=True)
class HistorySummary:
    """What is kept of the last week.

    :param points: how many; they begin at ``first_ms`` and end at ``last_ms``, exclusive, in
        milliseconds since 1970, None if there are none.
    :param marks: the last things that happened to the query, oldest first: at_ms, kind, reason.
    """

    points: int
    first_ms: int | None
    last_ms: int | None
    marks: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Inspection:
    """See :func:`inspect_checkpoint`.

    :param status: as :meth:`engine.checkpoint.checkpoint.CheckpointStatus.to_dict`; None if it
        cannot be read.
    :param written_by: ``engine`` or ``spark``: who has run the query, as far as can be told.
    :param logs: ``offsets``, ``commits`` and ``prepared``.
    :param open_epochs: logged, and not committed.
    :param epochs: the last committed ones, oldest first: epoch, committed_at_ms, rows, offsets.
    :param last_progress: the last progress report, if the engine runs the query.
    :param pins: name, epoch, pinned_at_ms.
    :param history: None if it cannot be read.
    :param copied_from: what it is a copy of, if it is one.
    :param problems: what a restart could not deal with, or a reader could not read.
    """

    location: str
    status: dict[str, Any] | None
    written_by: str
    logs: dict[str, LogSummary]
    open_epochs: tuple[int, ...]
    epochs: tuple[dict[str, Any], ...]
    last_progress: dict[str, Any] | None
    pins: tuple[dict[str, Any], ...]
    history: HistorySummary | None
    copied_from: dict[str, Any] | None
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        found = asdict(self)
        for key in ("open_epochs", "epochs", "pins", "problems"):
            found[key] = list(found[key])
        if found["history"] is not None:
            found["history"]["marks"] = list(found["history"]["marks"])
        for log in found["logs"].values():
            log["gaps"] = list(log["gaps"])
        return found


def inspect_checkpoint(checkpoint: Checkpoint, last: int = LAST_DEFAULT) -> Inspection:
    """Look at everything; what is damaged is told among the problems, and the rest all the same.

    :param last: so many of the newest epochs, and marks of the history, are described.
    :raises CheckpointError: the storage cannot be read.
    """
    problems: list[str] = []

    def read(what: Callable[[], T], otherwise: T) -> T:
        try:
            return what()
        except (CheckpointCorruptError, CheckpointVersionError) as exc:
            if exc.message not in problems:
                problems.append(exc.message)
            return otherwise

    # The commits first: what is committed has been logged before.
    committed = checkpoint.epochs()
    logs = {name: _summary(checkpoint, name) for name in ("commits", "offsets", "prepared")}
    status = read(lambda: checkpoint.status().to_dict(), None)
    reports = {report.get("batchId"): report for report in checkpoint.progress.read()}

    last_ones = committed[-last:]
    looks = checkpoint.storage.together(*(partial(_epoch, checkpoint, each) for each in last_ones))
    epochs = []
    for epoch, (at, offsets) in zip(last_ones, looks, strict=True):
        ends = read(offsets, None)
        if at is not None:  # else removed since the listing
            epochs.append(
                {
                    "epoch": epoch,
                    "committed_at_ms": at,
                    "rows": reports.get(epoch, {}).get("numInputRows"),
                    "offsets": None if ends is None else list(ends),
                }
            )
    for name in ("commits", "offsets"):
        if logs[name].gaps:
            problems.append(
                f"The log {name} has gaps: {', '.join(logs[name].gaps)}. Among the oldest entries "
                "they are what a prune that was killed has left: no restart needs these, and the "
                "next prune removes them."
            )
    newest = committed[-1] if committed else -1
    nothing: list[Pin] = []
    pins = read(checkpoint.pins, nothing)
    copied = read(lambda: read_copy(checkpoint), None)
    # Spark's own queries may run under a lease: only the engine prepares, and writes this.
    fingerprint = read(lambda: read_fingerprint(checkpoint.storage), None)
    return Inspection(
        location=checkpoint.url,
        status=status,
        written_by="engine" if logs["prepared"].entries or fingerprint else "spark",
        logs=logs,
        open_epochs=tuple(id for id in checkpoint.offsets.ids() if id > newest),
        epochs=tuple(epochs),
        last_progress=next(reversed(checkpoint.progress.read()), None),
        pins=tuple(pin.to_dict() for pin in pins),
        history=read(lambda: _history(checkpoint, last), None),
        copied_from=None if copied is None else asdict(copied),
        problems=tuple(problems),
    )


def _epoch(
    checkpoint: Checkpoint, epoch: int
) -> tuple[int | None, Callable[[], tuple[JSON | None, ...] | None]]:
    """When it was committed; and what returns its offsets, or raises why they cannot be read."""
    offsets: Future[tuple[JSON | None, ...] | None] = Future()
    try:
        offsets.set_result(checkpoint.committed_offsets(epoch))
    except (CheckpointCorruptError, CheckpointVersionError) as exc:
        offsets.set_exception(exc)
    return checkpoint.committed_at_ms(epoch), offsets.result


def _history(checkpoint: Checkpoint, last: int) -> HistorySummary:
    found = history(checkpoint)
    return HistorySummary(
        points=len(found.starts_ms),
        first_ms=found.starts_ms[0] if found.starts_ms else None,
        last_ms=found.starts_ms[-1] + found.lengths_ms[-1] if found.starts_ms else None,
        marks=tuple(asdict(mark) for mark in found.marks[-last:]),
    )


def _summary(checkpoint: Checkpoint, folder: str) -> LogSummary:
    files = checkpoint.storage.list(folder)
    ids = sorted(id for file in files if (id := entry_id(file.name)) is not None)
    return LogSummary(
        entries=len(ids),
        bytes=sum(file.size for file in files),
        first=ids[0] if ids else None,
        last=ids[-1] if ids else None,
        gaps=tuple(_gaps(ids)),
    )


def _gaps(ids: Sequence[int]) -> list[str]:
    gaps = []
    for one, next_one in pairwise(ids):
        if next_one == one + 2:
            gaps.append(str(one + 1))
        elif next_one > one + 2:
            gaps.append(f"{one + 1}-{next_one - 1}")
    return gaps
