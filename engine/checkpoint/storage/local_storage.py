"""A checkpoint on a disk of this machine, or on a mount that looks like one.

A file is created in these steps, so that a crash at any point leaves the whole file or none:

1. write ``.<name>.<uuid>.tmp`` beside it, and fsync it;
2. link it to its name: fails if that exists, which a rename would not;
3. remove the temporary name, and fsync the folder.

A crash leaves at most a temporary file: no log lists it, and retention removes it.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from engine.base import durable as disk
from engine.base.failpoints import reach
from engine.checkpoint.storage.contract import PART_BYTES, FileInfo, Storage, checksum_twin
from engine.errors import CheckpointError, ContinuousError

# It may be the log of a sink, in the folder of that.
_HINTS = {
    errno.ENOSPC: "Free space there, then start the query again: it goes on where it was.",
    errno.EDQUOT: "Raise the quota, then start the query again: it goes on where it was.",
    errno.EACCES: "Give this user write access, or choose another folder.",
    errno.EPERM: "Give this user write access, and use a file system with hard links.",
    errno.EROFS: "Mount it writable, or choose another folder.",
    errno.EIO: "The device fails: check it before the query is started again.",
    errno.ENOTSUP: "Use a file system with hard links.",
}


class LocalStorage(Storage):
    """See the module.

    :param path: the folder; a relative one is resolved once, now.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.root = Path(path).absolute()
        self.url = str(self.root)

    def read(self, name: str) -> bytes:
        with self._reading(name) as path:
            return disk.read(path)

    def beginning(self, name: str, bytes_max: int = PART_BYTES) -> bytes:
        with self._reading(name) as path, path.open("rb") as file:
            return file.read(bytes_max)

    def mapped(self, name: str, scratch: IO[bytes]) -> mmap.mmap:
        with self._reading(name) as path:
            descriptor = disk.system.open(path, os.O_RDONLY)
            try:
                return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            finally:
                disk.system.close(descriptor)

    @contextmanager
    def _reading(self, name: str) -> Iterator[Path]:
        path = self.root / name
        try:
            yield path
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(str(path)) from None
        except OSError as exc:
            raise _error("read", path, exc) from exc

    def create(self, name: str, data: bytes) -> bool:
        path = self.root / name
        with self._temporary(path, data, durable=True) as temporary:
            try:
                disk.system.link(temporary, path)
            except FileExistsError:
                return False
            except OSError as exc:
                raise self._failed("create", path, exc) from exc
            reach("file.linked")
        self._settle(path)
        reach("file.settled")
        return True

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        path = self.root / name
        with self._temporary(path, data, durable=durable) as temporary:
            try:
                disk.system.replace(temporary, path)
            except OSError as exc:
                raise self._failed("replace", path, exc) from exc
            reach("file.replaced")
        self._settle(path, durable=durable)

    def delete(self, name: str) -> None:
        for each in (name, checksum_twin(name)):
            path = self.root / each
            try:
                self._unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as exc:
                raise self._failed("delete", path, exc) from exc

    def list(self, folder: str) -> list[FileInfo]:
        while True:
            files, vanished = [], False
            try:
                with disk.system.scandir(self.root / folder) as entries:
                    for entry in entries:
                        try:
                            if entry.is_file():
                                files.append(_info(entry.name, entry.stat()))
                        except FileNotFoundError:
                            vanished = True
            except (FileNotFoundError, NotADirectoryError):
                return []
            except OSError as exc:
                raise _error("list", self.root / folder, exc) from exc
            # Nothing found, and something vanished: retention was faster, and the entries that were
            # written meanwhile are not in this listing. An empty log would be a lie: look again. A
            # hidden file is no entry: it may be the one that is being written.
            if not vanished or any(not file.name.startswith(".") for file in files):
                return files

    def files_below(self, folder: str) -> Mapping[str, int]:
        sizes = {}
        try:
            with disk.system.scandir(self.root / folder) as entries:
                for entry in entries:
                    if entry.is_file():
                        with suppress(FileNotFoundError):  # removed since
                            sizes[entry.name] = entry.stat().st_size
                    elif entry.is_dir():
                        below = self.files_below(f"{folder}/{entry.name}" if folder else entry.name)
                        sizes.update((f"{entry.name}/{name}", below[name]) for name in below)
        except (FileNotFoundError, NotADirectoryError):
            return sizes
        except OSError as exc:
            raise _error("list", self.root / folder, exc) from exc
        return sizes

    def info(self, name: str) -> FileInfo:
        path = self.root / name
        try:
            found = disk.system.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(str(path)) from None
        except OSError as exc:
            raise _error("read", path, exc) from exc
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(f"{path} is not a file")
        return _info(path.name, found)

    def sync(self, folder: str) -> None:
        path = self.root / folder
        try:
            disk.sync_folder(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as exc:
            raise _error("write", path, exc) from exc

    def delete_all(self) -> None:
        try:
            shutil.rmtree(self.root)
        except FileNotFoundError:
            return
        except OSError as exc:
            raise _error("delete", self.root, exc) from exc

    def _settle(self, path: Path, *, durable: bool = True) -> None:
        try:
            # A twin left by Hadoop holds the checksums of another content.
            with suppress(FileNotFoundError):
                self._unlink(Path(checksum_twin(str(path))))
            if durable:
                disk.sync_folder(path.parent)
        except OSError as exc:
            raise self._failed("write", path, exc) from exc

    @contextmanager
    def _temporary(self, path: Path, data: bytes, *, durable: bool) -> Iterator[Path]:
        """A file with the content that ``path`` will have; removed at the end if it is still
        there."""
        temporary = self._temporary_name(path)
        try:
            disk.make_folder(path.parent)
            _write(temporary, data, durable)
            yield temporary
        except OSError as exc:
            raise self._failed("write", path, exc) from exc
        finally:
            with suppress(OSError):
                disk.system.unlink(temporary)

    # -- what a storage changes that is fenced --------------------------------------------------

    def _temporary_name(self, path: Path) -> Path:
        """Of a new file beside ``path``."""
        return path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")

    def _unlink(self, path: Path) -> None:
        disk.system.unlink(path)

    def _failed(self, verb: str, path: Path, exc: OSError) -> ContinuousError:
        return _error(verb, path, exc)


def _write(path: Path, data: bytes, durable: bool) -> None:
    with disk.create(path) as file:
        file.write(data)
        reach("file.written")
        if durable:
            disk.sync(file)
            reach("file.synced")


def _info(name: str, found: os.stat_result) -> FileInfo:
    return FileInfo(name, found.st_size, found.st_mtime)


def _error(verb: str, path: Path, exc: OSError) -> CheckpointError:
    return CheckpointError(
        f"Cannot {verb} {path}: {exc.strerror or exc}.",
        hint=_HINTS.get(
            exc.errno or 0, "See that it and the folders above it are as they should be."
        ),
    )
