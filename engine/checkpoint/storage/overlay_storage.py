"""A storage as another one has it; what is written stays in memory.

So what reads and writes a checkpoint can be tried on one that somebody else is using: nothing that
happens here is seen there.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from engine.base.clock import SystemClock
from engine.checkpoint.storage.contract import FileInfo, Storage


class OverlayStorage(Storage):
    """See the module. Safe to use from several threads.

    :param below: is only read.
    :param shows: which of its files are seen, by their names.
    """

    def __init__(self, below: Storage, shows: Callable[[str], bool] = lambda name: True) -> None:
        self.url = below.url
        self._below, self._shows = below, shows
        self._lock = threading.RLock()
        self._written: dict[str, tuple[bytes, float]] = {}
        self._deleted: set[str] = set()

    def read(self, name: str) -> bytes:
        with self._lock:
            if name in self._written:
                return self._written[name][0]
        if not self._is_shown(name):
            raise FileNotFoundError(name)
        return self._below.read(name)

    def mapped(self, name: str, scratch: IO[bytes]) -> mmap.mmap:
        with self._lock:
            if name in self._written:
                return super().mapped(name, scratch)
        if not self._is_shown(name):
            raise FileNotFoundError(name)
        return self._below.mapped(name, scratch)

    def create(self, name: str, data: bytes) -> bool:
        with self._lock:
            if self.exists(name):
                return False
            self.replace(name, data)
            return True

    def replace(self, name: str, data: bytes, *, durable: bool = True) -> None:
        with self._lock:
            self._written[name] = bytes(data), SystemClock().now_ms() / 1000

    def delete(self, name: str) -> None:
        with self._lock:
            self._written.pop(name, None)
            self._deleted.add(name)

    def list(self, folder: str) -> list[FileInfo]:
        above = f"{folder}/" if folder else ""
        below = self._below.list(folder)
        with self._lock:
            found = {info.name: info for info in below if self._is_shown(above + info.name)}
            for name in self._written:
                if name.startswith(above) and "/" not in (inner := name[len(above) :]):
                    found[inner] = self._info(name, inner)
        return [*found.values()]

    def files_below(self, folder: str) -> Mapping[str, int]:
        above = f"{folder}/" if folder else ""
        below = self._below.files_below(folder)
        with self._lock:
            sizes = {name: below[name] for name in below if self._is_shown(above + name)}
            for name, (data, _) in self._written.items():
                if name.startswith(above):
                    sizes[name[len(above) :]] = len(data)
        return sizes

    def info(self, name: str) -> FileInfo:
        with self._lock:
            if name in self._written:
                return self._info(name, name.rpartition("/")[2])
        if not self._is_shown(name):
            raise FileNotFoundError(name)
        return self._below.info(name)

    def together(self, *looks: Callable[[], Any]) -> Sequence[Any]:
        return self._below.together(*looks)

    @property
    def identity(self) -> dict[str, str]:
        return self._below.identity

    def delete_all(self) -> None:
        with self._lock:
            self._written.clear()
            self._shows = lambda name: False

    def _is_shown(self, name: str) -> bool:
        return name not in self._deleted and self._shows(name)

    def _info(self, name: str, shown: str) -> FileInfo:
        data, modified_s = self._written[name]
        return FileInfo(shown, len(data), modified_s)
