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
NOTHING: Final = 0
"""The number before that of a table's first snapshot."""


def lineage(table: Table) -> list[Snapshot]:
    """The snapshots that the table's rows are from, the oldest first, as far as it has them."""
    return list(ancestors_of(table.current_snapshot(), table.metadata))[::-1]


def sequence(snapshot: Snapshot) -> int:
    """Its number."""
    return snapshot.sequence_number or 0


def place_before(history: Sequence[Snapshot], snapshot: Snapshot) -> tuple[int, int | None]:
    """What :func:`next_snapshot` finds a snapshot of the history by, its ``number`` and ``after``:
    it comes behind the one before it."""
    at = history.index(snapshot)
    return (sequence(history[at - 1]) + 1, None) if at else first_place(sequence(snapshot))


def first_place(number: int) -> tuple[int, int | None]:
    """The same for a snapshot of this number, or a later one, that none is read before."""
    return number, NOTHING if number - 1 > NOTHING else None


def next_snapshot(
    table: Table, where: str, number: int, *, after: int | None = None, is_begun: bool = False
) -> Snapshot | None:
    """The first of this number or a later one; None if there is none yet.

    :param number: comes behind that of the last one that was read.
    :param after: that number, if it is not the one before. ``NOTHING``: none was read.
    :param is_begun: of the snapshot of just this number something is read.
    :raises SourceError: the table was rolled back behind what was read, or replaced.
    :raises LostError: snapshots in between have expired.
    """
    history = lineage(table)
    if not history:
        return None
    first = sequence(history[0])
    has_read = number < first if is_begun else after != NOTHING and NOTHING + 1 < number <= first
    if has_read and _is_first(history[0]):
        # It says that it is an append: of all rows that the table has from then on.
        raise SourceChangedError(
            f"{OWNER}: the table {where} was replaced (CREATE OR REPLACE TABLE, for example) by "
            f"its snapshot {history[0].snapshot_id}: what was read before is no part of it any "
            "more, and what it has now may be the same rows.",
            hint="Start the query with a checkpoint of its own. A table whose rows are changed by "
            "INSERT OVERWRITE is the same table: see option skipOverwriteSnapshots.",
        )
    found = next((each for each in history if sequence(each) >= number), None)
    numbers = [sequence(each) for each in history]
    is_known = number in numbers and (
        is_begun or after is not None or number == numbers[0] or _is_behind_gap(table, number)
    )
    if not is_begun:
        is_known = is_known or (number - 1 if after is None else after) in numbers
    if is_known:
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


def _is_first(snapshot: Snapshot) -> bool:
    """Whether it comes behind none.

    Some clients remove the name of the one before when that expires, but not what it says of all
    files. (One behind a table without files then looks like a first one.)
    """
    if snapshot.parent_snapshot_id is not None or snapshot.summary is None:
        return False
    told = snapshot.summary.additional_properties
    return int(told.get("total-data-files", -1)) == int(told.get("added-data-files", 0))


def _is_behind_gap(table: Table, number: int) -> bool:
    """Whether the number before is one of a snapshot that never was the table's own, but another
    branch's: it cannot have been read. Offsets once did not tell that."""
    own = {each.snapshot_id for each in table.metadata.snapshot_log}
    return any(
        sequence(each) == number - 1 and each.snapshot_id not in own for each in table.snapshots()
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
