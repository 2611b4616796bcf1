"""Where a checkpoint lives: named files with an atomic create-if-absent.

All that the logs and the lease need of a file system or an object store:

- :meth:`Storage.create` makes a file with its whole content, or tells that it is there already.
  The first write wins; a reader never sees a part of it; it is durable when the call returns.
- :meth:`Storage.replace` swaps the whole content.

Names are relative POSIX paths, ``offsets/3``. Nothing here writes Hadoop's checksum twins
(``.3.crc``); deleting or replacing a file deletes its twin as well, or Hadoop would refuse it.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, ClassVar

from engine.base.daemon_threads import together
from engine.errors import CheckpointError

PART_BYTES = 1 << 22
"""So much of a large file is read at a time."""


@dataclass(frozen=True)
class FileInfo:
    """One file of a folder.

    :param name: without the folder that was asked for.
    :param size: bytes.
    :param modified_s: seconds since 1970; 0.0 if the storage does not tell.
    """

    name: str
    size: int
    modified_s: float


class Storage(ABC):
    """A folder, local or remote.

    :ivar url: how to open it again.
    """

    url: str
    at_once_max: ClassVar[int] = 1
    """So many calls are made at the same time by :meth:`together`; more than one where each is a
    round trip to somewhere else."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The content of a file.

        :raises FileNotFoundError: there is none.
        :raises CheckpointError: it cannot be read.
        """

    def mapped(self, name: str, scratch: IO[bytes]) -> mmap.mmap:
        """The content of a large file, which is not empty, without holding it in memory.

        :param scratch: an empty file, for a copy of what is elsewhere; the caller closes it.
        :raises FileNotFoundError: there is none.
        :raises CheckpointError: it cannot be read.
        :raises OSError: the copy cannot be written.
        """
        for part in self._parts(name):
            rest = memoryview(part)
            while len(rest):
                rest = rest[scratch.write(rest) :]
        return mmap.mmap(scratch.fileno(), 0, access=mmap.ACCESS_READ)

    def beginning(self, name: str, bytes_max: int = PART_BYTES) -> bytes:
        """The first bytes of a file; all of one that has no more.

        :raises FileNotFoundError: there is none.
        :raises CheckpointError: it cannot be read.
        """
        return next(self._parts(name, bytes_max), b"")[:bytes_max]

    def _parts(self, name: str, bytes_max: int = PART_BYTES) -> Iterator[bytes]:
        """The content of a file, piece by piece; see :meth:`mapped` for errors.

        :param bytes_max: of a piece; where a file can be read only as a whole, it is one piece.
        """
        yield self.read(name)

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Create a file; False, and nothing changes, if it exists.

        :raises CheckpointError: it cannot be written; nothing half-written is left.
        """

    @abstractmethod
    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Create a file or swap its content, in one step as readers see it.

        :param durable: on disk when the call returns; otherwise a crash of the machine may leave
            the old content, or none.
        :raises CheckpointError: it cannot be written; the old content stays.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file and its checksum twin. A missing one is fine.

        :raises CheckpointError: it cannot be deleted.
        """

    @abstractmethod
    def list(self, folder: str) -> list[FileInfo]:
        """The files right in a folder, hidden ones too, folders not; empty if there is no such
        folder. ``""`` is the root. No order."""

    @abstractmethod
    def files_below(self, folder: str) -> Mapping[str, int]:
        """All files in a folder and the folders in it, hidden ones too: names relative to it, and
        bytes; empty if there is no such folder. No order.

        :raises CheckpointError: it cannot be listed.
        """

    @abstractmethod
    def info(self, name: str) -> FileInfo:
        """Size and time of one file.

        :raises FileNotFoundError: there is none.
        """

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        try:
            self.info(name)
        except FileNotFoundError:
            return False
        return True

    def together(self, *looks: Callable[[], Any]) -> Sequence[Any]:
        """What independent looks return, in their order; at the same time where each of them is a
        round trip to somewhere else.

        :raises Exception: what the first of them that fails raises.
        """
        return together(looks, self.at_once_max)

    @property
    def identity(self) -> dict[str, str]:
        """What decides whether :meth:`create` keeps its promise here: of which kind the storage
        is, what speaks to it in which version, and where it is."""
        return {"protocol": "file"}

    @property
    def has_twins(self) -> bool:
        """Whether Hadoop's clients keep checksums beside files here."""
        return True

    def sync(self, folder: str) -> None:  # noqa: B027
        """What is seen in a folder stays. A run that died after it had created a file, and before
        the file was durable, leaves one that is seen and may yet be lost: who acts upon what
        another run has left calls this first. Nothing to do where a file is durable as soon as it
        is seen, as in object stores.

        :raises CheckpointError: it cannot be made durable.
        """

    def take(self, owner: str, generation: int) -> None:  # noqa: B027
        """Shut out whoever has taken the folder as a lower generation of the owner, also in the
        middle of a write: it fails with :class:`~engine.errors.StaleRunError`. Only
        :mod:`engine.checkpoint.storage.fenced_storage` can; elsewhere nothing happens.

        :raises CheckpointError: it cannot be written.
        """

    @abstractmethod
    def delete_all(self) -> None:
        """Delete the folder with everything in it. A missing one is fine."""

    def move(self, name: str, to: str) -> None:
        """Give a file another name, never overwriting. Whoever is interrupted calls it again: the
        file is there under at least one of its names all the time.

        :raises CheckpointError: it cannot be written, or ``to`` holds something else.
        """
        try:
            data = self.read(name)
        except FileNotFoundError:
            return
        if not self.create(to, data) and self.read(to) != data:
            raise CheckpointError(
                f"{self.path(name)} cannot be moved: {self.path(to)} holds something else.",
                hint="Move one of the two away by hand.",
            )
        self.delete(name)

    def path(self, name: str) -> str:
        """A file's full path or URL, for messages."""
        return f"{self.url.rstrip('/')}/{name}"


def checksum_twin(name: str) -> str:
    """Where Hadoop keeps the checksums of a file: ``offsets/3`` → ``offsets/.3.crc``."""
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}.{base}.crc"
