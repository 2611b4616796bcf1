"""Where a checkpoint lives: named files with an atomic create-if-absent.

All that the logs and the lease need of a file system or an object store:

- :meth:`Storage.create` makes a file with its whole content, or tells that it is there already.
  The first write wins; a reader never sees a part of it; it is durable when the call returns.
- :meth:`Storage.replace` swaps the whole content.

Names are relative POSIX paths, ``offsets/3``. Nothing here writes Hadoop's checksum twins
(``.3.crc``); deleting or replacing a file deletes its twin as well, or Hadoop would refuse it.
"""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from engine.errors import CheckpointError, ConfigError

_RACERS = 4


@dataclass(frozen=True)
class FileInfo:
    """One file of a folder.

    :param name: without the folder.
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

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The content of a file.

        :raises FileNotFoundError: there is none.
        :raises CheckpointError: it cannot be read.
        """

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
    def files_below(self, folder: str) -> Sequence[str]:
        """The names of all files in a folder and the folders in it, relative to it, hidden ones
        too; empty if there is no such folder. No order.

        :raises CheckpointError: it cannot be listed.
        """

    @abstractmethod
    def info(self, name: str) -> FileInfo:
        """Size and time of one file.

        :raises FileNotFoundError: there is none.
        """

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def sync(self, folder: str) -> None:  # noqa: B027
        """What is seen in a folder stays. A run that died after it had created a file, and before
        the file was durable, leaves one that is seen and may yet be lost: who acts upon what
        another run has left calls this first. Nothing to do where a file is durable as soon as it
        is seen, as in object stores.

        :raises CheckpointError: it cannot be made durable.
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

    def size(self, name: str) -> int:
        """Bytes of a file.

        :raises FileNotFoundError: there is none.
        """
        return self.info(name).size

    def path(self, name: str) -> str:
        """A file's full path or URL, for messages."""
        return f"{self.url.rstrip('/')}/{name}"


def checksum_twin(name: str) -> str:
    """Where Hadoop keeps the checksums of a file: ``offsets/3`` → ``offsets/.3.crc``."""
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}.{base}.crc"


def open_storage(url: str, storage_options: Mapping[str, Any] | None = None) -> Storage:
    """Open a folder by path or URL; it need not exist.

    :param url: a local path, ``file:///...``, or any URL that fsspec knows: ``s3://bucket/path``.
    :param storage_options: handed to fsspec: credentials, endpoint.
    :raises ConfigError: the URL cannot be used.
    """
    text = str(url).strip()
    if not text:
        raise ConfigError("The checkpoint location is empty.", hint="Give a folder or a URL.")
    parts = urlsplit(text)
    if parts.scheme in ("", "file", "local"):
        if parts.netloc not in ("", "localhost"):
            raise ConfigError(
                f"{text} names the host {parts.netloc!r}.",
                hint=f"A local folder has three slashes: file:///{parts.netloc}{parts.path}",
            )
        from engine.checkpoint.local_storage import LocalStorage

        path = text if not parts.scheme else text.partition(":")[2]
        if path.startswith("//"):
            path = path[2:].removeprefix("localhost")
        return LocalStorage(path)
    from engine.checkpoint.fsspec_storage import FsspecStorage

    return FsspecStorage.open(text, storage_options)


def prove_create_if_absent(storage: Storage) -> None:
    """Try whether :meth:`Storage.create` keeps its promise here, and clean up: one after another,
    and several at once.

    Some stores ignore the condition of a conditional write: two runs could then own one checkpoint.

    :raises ConfigError: it does not hold.
    :raises CheckpointError: the storage cannot be written.
    """
    probe = f"control/probe-{uuid.uuid4()}"
    raced = f"control/probe-{uuid.uuid4()}"
    try:
        first = storage.create(probe, b"first")
        second = storage.create(probe, b"second")
        content = storage.read(probe)
        start = threading.Barrier(_RACERS)

        def race(number: int) -> bool:
            start.wait()
            return storage.create(raced, b"%d" % number)

        with ThreadPoolExecutor(_RACERS) as pool:
            created = list(pool.map(race, range(_RACERS)))
        winner = storage.read(raced)
    finally:
        storage.delete(probe)
        storage.delete(raced)
    fault = None
    if not first or second or content != b"first":
        fault = (
            f"a second create of the same file {'succeeded' if second else 'failed'}, and the "
            f"file then held {content!r}"
        )
    elif created.count(True) != 1 or winner != b"%d" % created.index(True):
        fault = f"of {_RACERS} creates of the same file at once, {created.count(True)} succeeded"
    if fault is not None:
        raise ConfigError(
            f"{storage.url} does not keep create-if-absent: {fault}.",
            hint="Two runs could corrupt this checkpoint. Use storage with conditional writes "
            "(a local disk, S3, GCS, ABFS).",
        )
