"""Which files of snapshots a checkpoint still needs. Pure.

The state behind an epoch is in the files of its chain, which are of epochs from ``since`` of its
handle up to that of its newest file. From one epoch to the next ``since`` never falls. So all files
of earlier epochs than ``since`` of the oldest entry that is kept may go, but for those that a pin
needs; the files that failed attempts and rewinds have left go with them.

Files in the middle of a chain may have been made into one: a query that runs removes those itself
(:class:`engine.checkpoint.state_retention.StatePurge`), and here they count as needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.snapshots.handles import SnapshotHandle
from engine.snapshots.names import SnapshotName


def removable(
    files: Iterable[str],
    kept_from: int,
    oldest: Sequence[SnapshotHandle],
    pinned: Sequence[SnapshotHandle] = (),
) -> list[str]:
    """The files that may go, the oldest first; what is no file of a snapshot is passed over.

    :param files: relative to the checkpoint.
    :param kept_from: the oldest epoch that is kept; all newer ones are.
    :param oldest: what its entry says of the state.
    :param pinned: what the entries of pinned epochs say.
    """
    since: dict[int, int] = {}
    for handle in oldest:
        since[handle.stage] = min(handle.since, since.get(handle.stage, kept_from))
    early = []
    for file in files:
        name = SnapshotName.parse(file)
        if name is not None and name.epoch < since.get(name.stage, kept_from):
            early.append((name.epoch, file))
    return unpinned([file for _, file in sorted(early)], pinned)


def unpinned(files: Iterable[str], pinned: Sequence[SnapshotHandle]) -> list[str]:
    """Those files of snapshots that no pin may need, in their order; see :func:`removable`."""
    chains = [(each.stage, each.since, newest.epoch) for each in pinned if (newest := _name(each))]
    return [
        file
        for file in files
        if (name := SnapshotName.parse(file)) is not None
        and not any(
            stage == name.stage and first <= name.epoch <= last for stage, first, last in chains
        )
    ]


def _name(handle: SnapshotHandle) -> SnapshotName | None:
    return None if handle.file is None else SnapshotName.parse(handle.file)
