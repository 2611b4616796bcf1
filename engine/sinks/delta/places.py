"""Where a table's data files are: on a disk, or in an object store.

Paths are relative to the table's folder, with slashes.
"""

from __future__ import annotations

import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pa_fs

from engine.base import durable as disk
from engine.base.locations import local_path
from engine.errors import ConfigError
from engine.sinks.delta.schemas import OWNER
from engine.sinks.files import places
from engine.sinks.files.epoch_files import check_root

LOG_FOLDER: Final = "_delta_log"
_MISREAD: Final = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f\ud800-\udfff]")
"""What Delta's client writes under its name and looks for under another one, or does not write."""


class Place(ABC):
    """A table's folder. Picklable.

    :ivar url: for errors, and for Delta's own client.
    :cvar syncs_log: whether :meth:`settle_log` has something to do.
    """

    url: str
    syncs_log: ClassVar[bool] = False

    @abstractmethod
    def check(self, epoch: int) -> None:
        """See, where a task runs, that the folder is the driver's.

        :param epoch: the one that is written.
        """

    @abstractmethod
    def create(self, path: str) -> IO[bytes]:
        """A new file, and the folders above it."""

    @abstractmethod
    def open(self, path: str) -> Any:
        """A file that is read at any place of it: of Arrow.

        :raises FileNotFoundError: there is none.
        :raises OSError: the storage does not answer.
        """

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Of a file, in bytes; None if it is gone."""

    @abstractmethod
    def close(self, file: IO[bytes]) -> int:
        """What was written to a new file stays so.

        :returns: when it was modified last, in ms since 1970.
        """

    @abstractmethod
    def settle(self, folders: Iterable[str]) -> None:
        """The files that were created in these folders stay under their names."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file; it may be gone."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nothing is in it."""

    @abstractmethod
    def log_names(self) -> set[str]:
        """The files of the table's log."""

    def settle_log(self, versions: range) -> None:  # noqa: B027
        """What the table's log has got with these versions stays so."""


def place_of(location: str, storage_options: Mapping[str, str], owner: str = OWNER) -> Place:
    """:param location: a path, or a URL.
    :param owner: who wants to know, for errors.
    :raises ConfigError: it is a path of another machine, or one that Delta's client misreads.
    """
    scheme = urlsplit(location).scheme
    if len(scheme) <= 1 or scheme == "file":
        place = DiskPlace(local_path(location, owner))
        _check_name(place.root, owner)
        return place
    return StorePlace(location.rstrip("/"), storage_options)


def _check_name(folder: Path, owner: str) -> None:
    """A URL does not help: Delta's client makes the same of both. It follows links."""
    with suppress(ValueError):  # there is no such name, but it may be in an error
        folder = Path(os.path.realpath(folder))
    found = _MISREAD.search(folder.as_posix())
    if found is not None:
        raise ConfigError(
            f"{owner} cannot use {str(folder)!r}: Delta's client misreads {found.group()!r} in a "
            "path, and would not find the table that it has made there.",
            hint="Choose another folder. A link to this one is read as this one.",
        )


class DiskPlace(places.DiskPlace, Place):
    """A folder of a local or mounted disk. What Delta's own client writes, the log, it does not
    synchronise; this does."""

    syncs_log = True

    def check(self, epoch: int) -> None:
        check_root(self.root / LOG_FOLDER, epoch)

    def open(self, path: str) -> Any:
        return pa.OSFile(str(self.root / path))

    def size(self, path: str) -> int | None:
        with suppress(FileNotFoundError):
            return (self.root / path).stat().st_size
        return None

    def is_empty(self) -> bool:
        try:
            with disk.system.scandir(self.root) as entries:
                return next(iter(entries), None) is None
        except FileNotFoundError:
            return True

    def log_names(self) -> set[str]:
        with disk.system.scandir(self.root / LOG_FOLDER) as entries:
            return {entry.name for entry in entries}

    def settle_log(self, versions: range) -> None:
        folder = self.root / LOG_FOLDER
        names = [f"{v:020}.{end}" for v in versions for end in ("json", "checkpoint.parquet")]
        for name in (*names, "_last_checkpoint"):
            with suppress(FileNotFoundError), (folder / name).open("rb") as file:
                disk.system.fsync(file.fileno())
        disk.sync_folder(folder)
        disk.sync_folder(self.root)


class StorePlace(Place):
    """Whatever Delta's own client reaches by a URL. A file is there, durably and for all, when it
    is closed."""

    def __init__(self, url: str, storage_options: Mapping[str, str]) -> None:
        self.url = url
        self._options = dict(storage_options)
        self._opened: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def _store(self) -> Any:
        if self._opened is None:
            from deltalake.fs import DeltaStorageHandler

            self._opened = pa_fs.PyFileSystem(DeltaStorageHandler(self.url, self._options))
        return self._opened

    def check(self, epoch: int) -> None:
        pass  # a URL means the same everywhere

    def create(self, path: str) -> IO[bytes]:
        # To open a file holds Python's interpreter lock until the store answers, and with it the
        # task's heartbeat. If it does not answer, this question finds out, which does not hold it.
        self._store.get_file_info(path)
        file: IO[bytes] = self._store.open_output_stream(path)
        return file

    def open(self, path: str) -> Any:
        if self._store.get_file_info(path).type == pa_fs.FileType.NotFound:
            raise FileNotFoundError(f"{self.url}/{path}")
        return self._store.open_input_file(path)

    def size(self, path: str) -> int | None:
        found = self._store.get_file_info(path)
        return None if found.type == pa_fs.FileType.NotFound else int(found.size)

    def close(self, file: IO[bytes]) -> int:
        file.close()
        return time.time_ns() // 1_000_000

    def settle(self, folders: Iterable[str]) -> None:
        pass

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._store.delete_file(path)

    def is_empty(self) -> bool:
        return bool(self._store.get_file_info("").type == pa_fs.FileType.NotFound)

    def log_names(self) -> set[str]:
        found = self._store.get_file_info(pa_fs.FileSelector(LOG_FOLDER))
        return {each.base_name for each in found}
