"""What the snapshots of a table have added to it.

Snapshots are told by their sequence numbers, which grow from one to the next. Not each number is
one of the table's history: other branches, and what was rolled back, have taken theirs.

Source: Iceberg's spec, sequence numbers, snapshots, manifests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from engine.errors import OffsetOutOfRangeError, SourceChangedError

OWNER: Final = "source iceberg"


def lineage(table: Table) -> list[Snapshot]:
    """The snapshots that the table's rows are from, the oldest first, as far as it has them."""
    return list(ancestors_of(table.current_snapshot(), table.metadata))[::-1]


def sequence(snapshot: Snapshot) -> int:
    """Its number."""
    return snapshot.sequence_number or 0


def number_before(history: Sequence[Snapshot], snapshot: Snapshot) -> int:
    """What :func:`next_snapshot` finds a snapshot of the history by: it comes behind the one before
    it."""
    at = history.index(snapshot)
    return sequence(history[at - 1]) + 1 if at else sequence(snapshot)


def next_snapshot(table: Table, where: str, number: int) -> Snapshot | None:
    """The first of this number or a later one; None if there is none yet.

    :param number: comes behind that of the last one that was read.
    :raises SourceError: the table was rolled back behind what was read.
    :raises LostError: snapshots in between have expired.
    """
    history = lineage(table)
    found = next((each for each in history if sequence(each) >= number), None)
    numbers = [sequence(each) for each in history]
    if not history or number - 1 in numbers or number == numbers[0]:
        return found
    if numbers[0] < number:
        raise SourceChangedError(
            f"{OWNER}: the table {where} was rolled back, or made another branch's: what was read "
            "last is no part of it any more.",
            hint="Start the query with a checkpoint of its own.",
        )
    raise LostError(
        f"{OWNER}: the snapshots of the table {where} from sequence number {number} on, and before "
        f"{numbers[0]}, have expired: what they have added is not known any more.",
        hint="Start the query with a checkpoint of its own, or, to go on without them, set option "
        "failOnDataLoss to false. To keep them for longer, set "
        "history.expire.max-snapshot-age-ms.",
    )


class LostError(OffsetOutOfRangeError):
    """Snapshots have expired before they were read."""


def added(table: Table, snapshot: Snapshot) -> list[FileScanTask]:
    """The data files that a snapshot has added, in the order of their names."""
    found = [
        entry.data_file
        for manifest in snapshot.manifests(table.io)
        if manifest.content == ManifestContent.DATA
        and manifest.added_snapshot_id == snapshot.snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
    ]
    return [FileScanTask(file) for file in sorted(found, key=lambda file: file.file_path)]


def all_files(table: Table, where: str, snapshot: Snapshot) -> list[FileScanTask]:
    """The data files of the table as of a snapshot, in the order of their names.

    :raises SourceError: rows are deleted in a way that Iceberg's client does not read.
    """
    try:
        tasks = table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
    except (NotImplementedError, ValueError) as exc:
        raise SourceChangedError(
            f"{OWNER}: the table {where} cannot be read as it is: {exc}",
            hint="Rewrite its files (CALL system.rewrite_data_files), or begin behind it: option "
            "startingSnapshotId = latest.",
        ) from exc
    return sorted(tasks, key=lambda task: task.file.file_path)


def due(
    table: Table, where: str, snapshot: Snapshot, *, skips_overwrites: bool, skips_deletes: bool
) -> Sequence[FileScanTask]:
    """What is to be read of a snapshot.

    :param skips_overwrites: those that change rows are left out, as a whole.
    :param skips_deletes: those that only delete rows are left out.
    :raises SourceError: it changes or deletes rows, and that is not to be left out.
    """
    operation = Operation.APPEND if snapshot.summary is None else snapshot.summary.operation
    if operation == Operation.APPEND:
        return added(table, snapshot)
    if operation == Operation.REPLACE:  # the same rows
        return ()
    is_delete = operation == Operation.DELETE
    if (skips_deletes and is_delete) or (skips_overwrites and not is_delete):
        return ()
    option = "skipDeleteSnapshots" if is_delete else "skipOverwriteSnapshots"
    raise SourceChangedError(
        f"{OWNER}: snapshot {snapshot.snapshot_id} (sequence number {sequence(snapshot)}) "
        f"{'deletes' if is_delete else 'changes'} rows of the table {where}, and a stream of what "
        "is added cannot tell that.",
        hint=f"Set option {option} to true to leave such snapshots out.",
    )
