"""A log with one file per epoch, in the format of Spark's ``HDFSMetadataLog``::

    <folder>/0  <folder>/1  <folder>/2 ...

- An entry is created once and never changed: the first write wins.
- A file is an entry if its name is a whole number as Spark writes it. Everything else is invisible:
  folders, temporary files, checksum twins.
- The first line of an entry is the version of its format: ``v1``.
- Entries go from the oldest on (:meth:`MetadataLog.purge`), never from the middle.

Source: Spark HDFSMetadataLog, MetadataVersionUtil; SPARK-38033 (gaps).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointCorruptError, CheckpointVersionError

T = TypeVar("T")
logger = logging.getLogger(__name__)

_ENTRY_NAME = re.compile(r"0|[1-9][0-9]{0,18}")
_VERSION = re.compile(r"v([1-9][0-9]*)")
_CORRUPT_HINT = "Restore the checkpoint from a copy, or start the query with a new one."
# So many entries are deleted by number, whether they exist or not: on an object store that costs
# less than to list the folder first.
_PURGE_BY_NAME_MAX = 3


class MetadataLog(Generic[T]):
    """See the module.

    :param folder: inside the storage.
    :param serialize: an entry's bytes, version line included.
    :param deserialize: the reverse; raises ValueError or a CheckpointError that says why not.
    """

    def __init__(
        self,
        storage: Storage,
        folder: str,
        serialize: Callable[[T], bytes],
        deserialize: Callable[[bytes], T],
    ) -> None:
        self.storage = storage
        self.name = folder
        self._serialize = serialize
        self._deserialize = deserialize
        self._purged_below: int | None = None

    def add(self, id: int, entry: T, text: str | None = None) -> bool:
        """Write an entry durably; False, and nothing changes, if there is one with this id.

        :param text: that of the entry, if the caller has it.
        :raises CheckpointError: it cannot be written.
        """
        assert id >= 0, f"{self.name}: {id} is not an epoch"
        data = self._serialize(entry) if text is None else text.encode()
        return self.storage.create(self._file(id), data)

    def get(self, id: int) -> T | None:
        """An entry, or None if there is none.

        :raises CheckpointCorruptError: it is torn or unreadable; names the file.
        :raises CheckpointVersionError: something newer has written it.
        """
        try:
            data = self.storage.read(self._file(id))
        except FileNotFoundError:
            return None
        path = self.storage.path(self._file(id))
        try:
            return self._deserialize(data)
        except CheckpointVersionError as exc:
            raise CheckpointVersionError(
                f"Failed to read log file {path}. {exc.message}", hint=exc.hint, epoch=id
            ) from exc
        except (ValueError, CheckpointCorruptError) as exc:
            reason = exc.message if isinstance(exc, CheckpointCorruptError) else str(exc)
            raise CheckpointCorruptError(
                f"Failed to read log file {path}. {reason}", hint=_CORRUPT_HINT, epoch=id
            ) from exc

    def text(self, entry: T) -> str:
        """What :meth:`add` would write."""
        return self._serialize(entry).decode()

    def text_of(self, id: int) -> str:
        """An entry's file as it is; what is no text is replaced.

        :raises FileNotFoundError: there is none.
        """
        return self.storage.read(self._file(id)).decode(errors="replace")

    def restore(self, id: int, text: str) -> None:
        """Put back what an entry held before it was damaged.

        :raises CheckpointError: it cannot be written.
        """
        self.storage.replace(self._file(id), text.encode())

    def ids(self) -> list[int]:
        """All ids, sorted. Opens no entry."""
        names = (file.name for file in self.storage.list(self.name))
        return sorted(id for id in map(entry_id, names) if id is not None)

    def latest_id(self) -> int | None:
        """The highest id, or None. Opens no entry."""
        return max(self.ids(), default=None)

    def purge(self, below: int, check: Callable[[], None] = lambda: None) -> None:
        """Delete the entries with ids less than ``below``, oldest first.

        :param check: asserts before each deletion that it may still be done.
        :raises CheckpointError: one cannot be deleted.
        """
        if below <= 0:
            return
        first = self._purged_below
        if first is None or below - first > _PURGE_BY_NAME_MAX:
            doomed: Sequence[int] = [id for id in self.ids() if id < below]
        else:
            doomed = range(first, below)
        for id in doomed:
            check()
            self.delete(id)
        self._purged_below = below if first is None else max(first, below)

    def delete(self, id: int) -> None:
        """Delete one entry, and its checksum twin. A missing one is fine.

        :raises CheckpointError: it cannot be deleted.
        """
        self.storage.delete(self._file(id))

    def _file(self, id: int) -> str:
        return f"{self.name}/{id}"


def entry_id(name: str) -> int | None:
    """The id of an entry's file name; None if the file is not an entry."""
    return int(name) if _ENTRY_NAME.fullmatch(name) else None


def split_version(data: bytes, max_supported: int, what: str) -> tuple[int, list[str]]:
    """Split an entry into its version and the lines behind it.

    :param what: names the log, for the error: ``offset log``.
    :raises ValueError: there is no version line, or it is none.
    :raises CheckpointVersionError: the version is higher than ``max_supported``.
    """
    if not data:
        raise ValueError(f"Incomplete log file in the {what}.")
    version, *lines = data.decode("utf-8").split("\n")
    return parse_version(version, max_supported), lines


def parse_version(line: str, max_supported: int) -> int:
    """The number of a version line: 3 for ``v3``.

    :raises ValueError: the line is none.
    :raises CheckpointVersionError: it is higher than ``max_supported``.
    """
    found = _VERSION.fullmatch(line)
    if found is None:
        raise ValueError(f"Log file was malformed: failed to read correct log version from {line}.")
    version = int(found.group(1))
    if version > max_supported:
        raise CheckpointVersionError(
            f"UnsupportedLogVersion: maximum supported log version is v{max_supported}, but "
            f"encountered v{version}. The log file was produced by a newer version of Spark and "
            "cannot be read by this version.",
            hint="Upgrade this engine.",
        )
    return version


def read_entries(log: MetadataLog[T], epochs: Sequence[int]) -> tuple[dict[int, T], list[int]]:
    """The entries that can be read, and the epochs of those that cannot, with a warning each."""

    def look(epoch: int) -> tuple[T | None, bool]:
        try:
            return log.get(epoch), False
        except CheckpointCorruptError as exc:
            logger.warning("%s", exc)
            return None, True

    looks = log.storage.together(*(partial(look, epoch) for epoch in epochs))
    found = dict(zip(epochs, looks, strict=True))
    return (
        {epoch: entry for epoch, (entry, _) in found.items() if entry is not None},
        [epoch for epoch, (_, torn) in found.items() if torn],
    )
