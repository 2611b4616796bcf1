"""Where the data files of a sink are: in a folder of a disk, or in an object store.

Paths are relative to the folder, with slashes. Logs name files by their URLs, percent-encoded.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, ClassVar, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit

from engine.base import durable as disk
from engine.base.locations import local_path
from engine.base.nested_settings import pop_settings
from engine.checkpoint.storage.contract import FileInfo, Storage
from engine.checkpoint.storage.fenced_storage import FencedStorage
from engine.checkpoint.storage.fsspec_storage import (
    OBJECT_STORES,
    FsspecStorage,
    modified_s,
    open_file_system,
)
from engine.errors import ConfigError

_SAFE: Final = "/=+,:;@&$!*'()~-._"
STORAGE: Final = "storage."
"""Before each option that opens a storage which is no disk."""
T = TypeVar("T")


class Place(ABC):
    """A folder for data files. Picklable.

    :ivar url: for people.
    :cvar is_shared: whether its address means the same on every machine.
    """

    url: str
    is_shared: ClassVar[bool] = False

    @abstractmethod
    def make(self) -> None:
        """Make the folder if it is not there.

        :raises OSError: that failed.
        """

    @abstractmethod
    def create(self, path: str) -> IO[bytes]:
        """A new file, and the folders above it.

        :raises OSError: it cannot be created.
        """

    @abstractmethod
    def close(self, file: IO[bytes]) -> int:
        """What was written to a new file stays so.

        :returns: when it was modified last, in ms since 1970.
        :raises OSError: it does not.
        """

    @abstractmethod
    def settle(self, folders: Iterable[str]) -> None:
        """The files that were created in these folders stay under their names.

        :raises OSError: they do not.
        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file; it may be gone.

        :raises OSError: that failed.
        """

    @abstractmethod
    def files(self) -> Iterator[FileInfo]:
        """All files below but those whose name, or whose folder's, begins with ``_`` or ``.``: none
        if there is no such folder.

        :raises OSError: they cannot be listed.
        """

    @abstractmethod
    def log(self, name: str) -> Storage:
        """A folder in it, for a log."""

    @abstractmethod
    def url_of(self, path: str) -> str:
        """How a log names a file."""

    @abstractmethod
    def path_of(self, url: str) -> str:
        """The inverse of :meth:`url_of`; of a file that is elsewhere, as the folder may have been
        another one once, its own path."""


def place_of(location: str, settings: Mapping[str, Any], owner: str) -> Place:
    """:param location: a path, or a URL.
    :param settings: of fsspec, for a URL.
    :raises ConfigError: it is neither a path of this machine nor in an object store.
    """
    scheme = urlsplit(location).scheme
    if scheme in OBJECT_STORES:
        return StorePlace(location.rstrip("/"), settings)
    place = DiskPlace(_local(location, owner))
    if settings:
        raise ConfigError(
            f"{owner}: {place.url} is on a disk, to which storage.{next(iter(settings))} means "
            "nothing.",
            hint="Leave it out, or give the URL of a folder in an object store.",
        )
    return place


def recorded_place(options: Mapping[str, str]) -> Place | None:
    """Where the sink of these options writes; None if they name no folder. Secrets are not among
    what a checkpoint tells: the environment has them.

    :raises ConfigError: as :func:`place_of`.
    """
    given = dict(options)
    settings = pop_settings(given, STORAGE)
    location = {key.lower(): value for key, value in given.items()}.get("path")
    return None if location is None else place_of(location, settings, "sink of files")


def _local(location: str, owner: str) -> Path:
    try:
        return local_path(location, owner)
    except ConfigError as exc:
        stores = ", ".join(f"{scheme}://" for scheme in sorted(OBJECT_STORES))
        raise ConfigError(
            f"{owner} cannot use {location}: it works on local or mounted folders, and in object "
            f"stores ({stores}).",
            hint="Give a path, or such a URL.",
        ) from exc


class DiskPlace(Place):
    """A folder of a local or mounted disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = str(root)

    def make(self) -> None:
        disk.make_folder(self.root)

    def create(self, path: str) -> IO[bytes]:
        target = self.root / path
        disk.make_folder(target.parent)
        return disk.create(target)

    def close(self, file: IO[bytes]) -> int:
        disk.sync(file)
        modified_ns: int = disk.system.fstat(file.fileno()).st_mtime_ns
        file.close()
        return modified_ns // 1_000_000

    def settle(self, folders: Iterable[str]) -> None:
        for folder in folders:
            disk.sync_folder(self.root / folder)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            disk.system.unlink(self.root / path)

    def files(self) -> Iterator[FileInfo]:
        return self._below(self.root)

    def _below(self, folder: Path) -> Iterator[FileInfo]:
        try:
            with disk.system.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(("_", ".")):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        yield from self._below(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        with suppress(FileNotFoundError):  # a running task has dropped it
                            found = entry.stat()
                            path = Path(entry.path).relative_to(self.root).as_posix()
                            yield FileInfo(path, found.st_size, found.st_mtime)
        except FileNotFoundError:
            return

    def log(self, name: str) -> Storage:
        return FencedStorage(self.root / name)

    def url_of(self, path: str) -> str:
        return "file://" + quote(str(self.root / path), safe=_SAFE)

    def path_of(self, url: str) -> str:
        path = local_path(url, "sink")
        return (
            path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)
        )


class StorePlace(Place):
    """A folder of an object store, by fsspec. A file is there, whole and for all, when it is
    closed."""

    is_shared = True

    def __init__(self, url: str, settings: Mapping[str, Any]) -> None:
        self.url = url
        self._settings = dict(settings)
        self._opened: tuple[Any, str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def _store(self) -> tuple[Any, str]:
        """The file system, and the folder in it."""
        if self._opened is None:
            self._opened = open_file_system(self.url, self._settings)
        return self._opened

    def make(self) -> None:
        pass  # there are no folders in object stores

    def create(self, path: str) -> IO[bytes]:
        fs, root = self._store
        file: Any = _Upload(_speaking(lambda: fs.open(f"{root}/{path}", "wb")))
        return file  # type: ignore[no-any-return]

    def close(self, file: IO[bytes]) -> int:
        file.close()
        return time.time_ns() // 1_000_000

    def settle(self, folders: Iterable[str]) -> None:
        pass

    def remove(self, path: str) -> None:
        fs, root = self._store
        with suppress(FileNotFoundError):
            _speaking(lambda: fs.rm_file(f"{root}/{path}"))

    def files(self) -> Iterator[FileInfo]:
        fs, root = self._store
        fs.invalidate_cache()
        top = str(fs._strip_protocol(root)).rstrip("/")
        for name, found in _speaking(lambda: fs.find(root, detail=True)).items():
            path = str(name)[len(top) + 1 :]
            if not any(part.startswith(("_", ".")) for part in path.split("/")):
                yield FileInfo(path, int(found.get("size") or 0), modified_s(found))

    def log(self, name: str) -> Storage:
        return FsspecStorage.open(f"{self.url}/{name}", self._settings)

    def url_of(self, path: str) -> str:
        return f"{self.url}/{quote(path, safe=_SAFE)}"

    def path_of(self, url: str) -> str:
        return unquote(url.removeprefix(f"{self.url}/"))


class _Upload:
    """A file of fsspec whose errors are those of a file: each store's client has its own."""

    def __init__(self, file: Any) -> None:
        self._file = file

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def write(self, data: Any) -> int:
        # Arrow hands out memory that is another's when the call has returned.
        return int(_speaking(lambda: self._file.write(bytes(data))))

    def tell(self) -> int:
        return int(self._file.tell())

    def flush(self) -> None:
        """A part is sent when it is long enough."""

    def close(self) -> None:
        _speaking(self._file.close)


def _speaking(ask: Callable[[], T]) -> T:
    with _as_os_error():
        return ask()


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    except Exception as exc:
        raise OSError(f"{type(exc).__name__}: {exc}") from exc
