"""The folder of a checkpoint: its logs, whose it is, and which epochs are committed.

What else is kept there has rooms of its own that build upon this one: the lease, pins, rewinds,
status. :class:`engine.checkpoint.checkpoint.Checkpoint` has all of it together.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from engine.base.clock import Clock, SystemClock
from engine.base.json_text import JSON, dump, load_object
from engine.checkpoint.history_file import HistoryFile
from engine.checkpoint.logs.codec import MessageCodec
from engine.checkpoint.logs.commit_log import commit_log
from engine.checkpoint.logs.metadata_log import MetadataLog, entry_id
from engine.checkpoint.logs.offset_log import offset_log
from engine.checkpoint.logs.prepared_log import PreparedEntry, prepared_heads, prepared_log
from engine.checkpoint.recent_progress import ProgressFile
from engine.checkpoint.requests import Requests
from engine.checkpoint.rewound import without_late
from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.opening import open_storage
from engine.errors import CheckpointCorruptError, CheckpointError

_METADATA = "metadata"
COPY_RECORD = "control/copy"
"""Of what this is a copy, see :mod:`engine.checkpoint.copies`."""


class CheckpointFolder:
    """See the module.

    :param location: a path, a URL, or an open storage. It need not exist.
    :param storage_options: for fsspec, if ``location`` is a URL.
    :raises ConfigError: the location cannot be used.
    """

    def __init__(
        self,
        location: str | Storage,
        storage_options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self.storage = (
            location if isinstance(location, Storage) else open_storage(location, storage_options)
        )
        self.offsets = offset_log(self.storage)
        self.commits = commit_log(self.storage)
        self.prepared_heads = prepared_heads(self.storage)
        self.requests = Requests(self.storage, self._clock)
        self.progress = ProgressFile(self.storage)
        self.history = HistoryFile(self.storage)

    @property
    def url(self) -> str:
        """How to open it again."""
        return self.storage.url

    @cached_property
    def prepared(self) -> MetadataLog[PreparedEntry]:
        """The prepared log of no sink: it writes all messages, and reads plain ones."""
        return self.prepared_with(MessageCodec())

    def prepared_with(self, codec: MessageCodec) -> MetadataLog[PreparedEntry]:
        """The prepared log with the messages of a sink.

        ``prepared_heads`` reads entries without their messages.
        """
        return prepared_log(self.storage, codec)

    # -- identity -------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether a query has ever used this checkpoint."""
        return self.storage.exists(_METADATA) or self._has_entries()

    def query_id(self) -> str | None:
        """The query's id, or None if the checkpoint was never used.

        :raises CheckpointCorruptError: the metadata file is unreadable.
        """
        try:
            data = self.storage.read(_METADATA)
        except FileNotFoundError:
            return None
        try:
            query_id = load_object(data)["id"]
        except (ValueError, KeyError):
            query_id = None
        if not isinstance(query_id, str):
            raise CheckpointCorruptError(
                f"{self.storage.path(_METADATA)} is not the metadata of a query.",
                hint='Restore it; it holds {"id":"<the query\'s uuid>"}.',
            )
        return query_id

    def create_or_read_query_id(self, new_id: str) -> str:
        """The query's id; ``new_id`` becomes it if the checkpoint is new.

        :raises CheckpointCorruptError: there are logs, but the metadata file is missing (as in
            Spark since 4.2) or unreadable.
        """
        known = self.query_id()
        if known is not None:
            return known
        if self._has_entries():
            raise CheckpointCorruptError(
                "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] The checkpoint location "
                f"{self.url} has logs, but its metadata file is missing.",
                hint="Restore the file, or start the query with a new checkpoint.",
            )
        if self.storage.exists(COPY_RECORD):
            raise CheckpointError(
                f"{self.url} is a copy that is not finished.",
                hint="Make the copy again, with the same target, or remove it.",
            )
        if self.storage.create(_METADATA, dump({"id": new_id}).encode()):
            return new_id
        known = self.query_id()
        assert known is not None, "created by another run, then deleted"
        return known

    def _has_entries(self) -> bool:
        return bool(self.commits.ids() or self.offsets.ids())

    def delete(self) -> None:
        """Delete everything.

        :raises CheckpointError: something cannot be deleted.
        """
        self.storage.delete_all()

    # -- committed epochs -----------------------------------------------------------------------

    def epochs(self) -> list[int]:
        """The committed epochs that retention has kept, oldest first."""
        return without_late(self.commits.ids(), self.storage)

    def commit_times_ms(self) -> dict[int, int]:
        """The same epochs, each with when it was committed, as :meth:`committed_at_ms` has it; at
        the price of one listing."""
        times = {
            id: round(file.modified_s * 1000)
            for file in self.storage.list("commits")
            if (id := entry_id(file.name)) is not None
        }
        return {epoch: times[epoch] for epoch in without_late(sorted(times), self.storage)}

    def committed_epoch(self) -> int:
        """The last committed epoch, -1 if there is none. Opens no entry."""
        return max(self.epochs(), default=-1)

    def committed_offsets(self, epoch: int | None = None) -> tuple[JSON | None, ...] | None:
        """The end offsets of a committed epoch, one per source.

        :param epoch: None: the last one.
        :returns: None if the epoch is not committed, or retention has removed it.
        :raises CheckpointCorruptError: the epoch is committed, and its offsets are missing or
            unreadable.
        """
        while True:
            wanted = self.committed_epoch() if epoch is None else epoch
            if wanted < 0 or not self._is_committed(wanted):
                if epoch is None and wanted >= 0:
                    continue  # removed since the listing: newer ones are there
                return None
            entry = self.offsets.get(wanted)
            if entry is not None:
                return entry.offsets
            if self._is_committed(wanted):
                raise CheckpointCorruptError(
                    f"Batch {wanted} was committed without end epoch offsets! "
                    f"{self.storage.path(f'offsets/{wanted}')} is missing.",
                    epoch=wanted,
                    hint="Restore the checkpoint from a copy.",
                )

    def committed_at_ms(self, epoch: int) -> int | None:
        """When an epoch was committed, by the storage's clock, in milliseconds since 1970.

        :returns: None if it is not committed, or retention has removed it.
        """
        try:
            return round(self.storage.info(f"commits/{epoch}").modified_s * 1000)
        except FileNotFoundError:
            return None

    def _is_committed(self, epoch: int) -> bool:
        return self.storage.exists(f"commits/{epoch}")
