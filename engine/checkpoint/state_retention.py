"""Removing the files of snapshots that no entry needs any more.

The entries go first, and only then are the pins read: whoever pins an epoch looks behind that
whether its entries are still there (:mod:`engine.checkpoint.pins`), so of the two at least one sees
the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.checkpoint.folder import CheckpointFolder
from engine.checkpoint.noted_state import noted_in, noted_state
from engine.checkpoint.pins import all_pins
from engine.checkpoint.storage.contract import Storage
from engine.snapshots.names import FOLDER, SnapshotName, stage_folder
from engine.snapshots.retention import removable

_EPOCHS_BETWEEN: Final = 10


def state_stages(storage: Storage) -> list[int]:
    """The numbers of the stages of which there are snapshots."""
    names = (SnapshotName.parse(f"{FOLDER}/{name}") for name in storage.files_below(FOLDER))
    return sorted({name.stage for name in names if name is not None})


def removable_state(checkpoint: CheckpointFolder, kept_from: int) -> dict[str, int]:
    """The files that may go, in this order, and their sizes.

    :param kept_from: the oldest epoch that is kept; the entries of earlier ones are gone.
    :raises CheckpointCorruptError: the epoch's entry, or that of a pin, cannot be read.
    """
    storage = checkpoint.storage
    sizes = {
        f"{folder}/{file.name}": file.size
        for folder in map(stage_folder, state_stages(storage))
        for file in storage.list(folder)
    }
    if not sizes:
        return {}
    entry = checkpoint.offsets.get(kept_from)
    if entry is None:
        return {}  # removed meanwhile: who has removed it removes these as well
    pinned = [handle for pin in all_pins(storage) for handle in noted_in(pin.offsets)]
    return {name: sizes[name] for name in removable(sizes, kept_from, noted_state(entry), pinned)}


class StatePurge:
    """The same for a query while it runs: once in a while, and only if there is something to do."""

    def __init__(self, checkpoint: CheckpointFolder) -> None:
        self._checkpoint = checkpoint
        self._next = 0
        self._since: set[tuple[int, int]] = set()

    def __call__(self, kept_from: int, check: Callable[[], None]) -> None:
        """Remove what the entries from an epoch on do not need, those before it being gone.

        :param check: asserts before each deletion that it may still be done.
        :raises CheckpointError: something cannot be read or deleted.
        """
        if kept_from < self._next:
            return
        self._next = kept_from + _EPOCHS_BETWEEN
        handles = noted_state(self._checkpoint.offsets.get(kept_from))
        since = {(handle.stage, handle.since) for handle in handles}
        if since == self._since:
            return
        for name in removable_state(self._checkpoint, kept_from):
            check()
            self._checkpoint.storage.delete(name)
        self._since = since
