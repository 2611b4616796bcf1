"""``progress/history``: what was measured of a query for a week, see :mod:`engine.history.folding`.

One object of 256 KiB at most, replaced as a whole by the run that holds the lease, ten seconds
apart or more. A run that was fenced in the middle of it may write once more; the next write of its
successor, which has the whole history in memory, makes that good. It is told by time and not by
epochs: a rewind leaves it alone but for a mark, retention leaves it alone, a copy begins its own.
"""

from __future__ import annotations

import logging
from functools import partial

from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointCorruptError, ContinuousError
from engine.history.folding import History, Mark
from engine.history.stored import Packer, StoredHistory, unpack

logger = logging.getLogger(__name__)
_FILE = "progress/history"


class HistoryFile:
    """See the module."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self) -> StoredHistory:
        """What is there; an empty history if nothing is.

        :raises CheckpointCorruptError: it is damaged.
        :raises CheckpointVersionError: a newer engine has written it.
        :raises CheckpointError: it cannot be read.
        """
        try:
            return unpack(self._storage.read(_FILE))
        except FileNotFoundError:
            return StoredHistory(History())
        except ValueError as exc:
            raise CheckpointCorruptError(
                f"{self._storage.path(_FILE)} cannot be read: {exc}.",
                hint="Delete it: the next run begins a new history. Nothing else needs it.",
            ) from exc

    def write(self, data: bytes) -> None:
        """Replace it by these bytes of a history.

        :raises CheckpointError: it cannot be written.
        """
        self._storage.replace(_FILE, data)

    def mark(self, mark: Mark) -> None:
        """Add a mark, if there is a history that can be read. For who holds the lease, while no
        query runs; what goes wrong is logged."""
        try:
            stored = self.read()
            if next(stored.history.points(), None) is None:
                return
            stored.history.marks.append(mark)
            narrow = partial(stored.history.narrow, mark.at_ms)
            self.write(Packer().within_budget(stored.blocks, narrow))
        except (OSError, ContinuousError) as exc:
            logger.warning("the history has no mark of it: %s", exc)
