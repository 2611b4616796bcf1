"""Removing the files of snapshots that no entry needs any more.

The entries go first, and only then are the pins read: whoever pins an epoch looks behind that
whether its entries are still there (:mod:`engine.checkpoint.pins`), so of the two at least one sees
the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from engine.checkpoint.folder import CheckpointFolder
from engine.checkpoint.noted_state import noted_in, noted_state
from engine.checkpoint.pins import all_pins
from engine.checkpoint.storage.contract import Storage
from engine.snapshots.handles import SnapshotHandle
from engine.snapshots.names import FOLDER, SnapshotName
from engine.snapshots.retention import removable, unpinned

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
    sizes = {f"{FOLDER}/{name}": size for name, size in storage.files_below(FOLDER).items()}
    if not sizes:
        return {}
    entry = checkpoint.offsets.get(kept_from)
    if entry is None:
        return {}  # removed meanwhile: who has removed it removes these as well
    found = removable(sizes, kept_from, noted_state(entry), _pinned(storage))
    return {name: sizes[name] for name in found}


def _pinned(storage: Storage) -> list[SnapshotHandle]:
    return [handle for pin in all_pins(storage) for handle in noted_in(pin.offsets)]


class StatePurge:
    """The same for a query while it runs: once in a while, and only if there is something to do.

    It also removes files in the middle of a chain that were made into one. They are known by what
    tasks tell; of those that the runs before have told, what they have left stays until the chain
    begins anew.
    """

    def __init__(self, checkpoint: CheckpointFolder) -> None:
        self._checkpoint = checkpoint
        self._next = 0
        self._since: set[tuple[int, int]] = set()
        self._replaced: list[tuple[int, str]] = []
        self._noting = threading.Lock()

    def note(self, epoch: int, handles: Iterable[SnapshotHandle]) -> None:
        """What an entry says of the state; in the order of the epochs, and from any thread."""
        with self._noting:
            self._replaced += [(epoch, file) for handle in handles for file in handle.replaced]

    def __call__(self, kept_from: int, check: Callable[[], None]) -> None:
        """Remove what the entries from an epoch on do not need, those before it being gone.

        :param check: asserts before each deletion that it may still be done.
        :raises CheckpointError: something cannot be read or deleted.
        """
        if kept_from < self._next:
            return
        self._next = kept_from + _EPOCHS_BETWEEN
        storage = self._checkpoint.storage
        handles = noted_state(self._checkpoint.offsets.get(kept_from))
        since = {(handle.stage, handle.since) for handle in handles}
        if since != self._since:
            for name in removable_state(self._checkpoint, kept_from):
                check()
                storage.delete(name)
            self._since = since
        with self._noting:
            replaced = [file for epoch, file in self._replaced if epoch <= kept_from]
        for name in unpinned(replaced, _pinned(storage)) if replaced else ():
            check()
            storage.delete(name)
        with self._noting:
            del self._replaced[: len(replaced)]
