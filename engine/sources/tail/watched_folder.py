"""A folder of files that grow, as the ``tail`` source sees it.

Needs neither Spark nor Arrow, so a sensor can ask where the source ends by now.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.errors import SourceUnavailableError
from engine.sources.tail.tail_offset import shown_name

CHUNK_BYTES: Final = 1 << 20
"""So much is read and parsed at once, unless a single line is longer."""


@dataclass(frozen=True)
class SeenFile:
    """A file as a look at the folder has found it."""

    name: str
    inode: int
    size: int
    modified_ns: int


class OtherFileError(Exception):
    """A name stands for another file than it did, or for none."""


@dataclass(frozen=True)
class Folder:
    """The files of the stream.

    :param accepts: whether a file of this name belongs to it.
    """

    path: Path
    accepts: Callable[[str], bool]

    def shown(self, name: str) -> str:
        """A file's path for messages."""
        return f"{shown_name(str(self.path))}/{shown_name(name)}"

    def files(self, wanted: Callable[[str], bool] | None = None) -> list[SeenFile]:
        """The files of the folder whose names are wanted, in no order; default: the stream's.

        :raises SourceUnavailableError: the folder cannot be listed.
        """
        wanted = wanted or self.accepts
        found = []
        with self._mapped_errors(self.path), os.scandir(self.path) as entries:
            for entry in entries:
                if wanted(entry.name):
                    try:
                        info = entry.stat()
                    except FileNotFoundError:  # it went between the listing and the look at it
                        continue
                    if stat.S_ISREG(info.st_mode):
                        found.append(_seen(entry.name, info))
        return found

    def file(self, name: str) -> SeenFile | None:
        """One file of any name; None if there is none.

        :raises SourceUnavailableError: it cannot be looked at.
        """
        path = self.path / name
        with self._mapped_errors(path, but=FileNotFoundError):
            try:
                info = path.stat()
            except FileNotFoundError:
                return None
        return _seen(name, info) if stat.S_ISREG(info.st_mode) else None

    @contextmanager
    def open(self, name: str, inode: int | None) -> Iterator[Callable[[int, int], bytes]]:
        """Read a file: so many bytes (second) from a position (first) on, fewer at its end.

        :param inode: of the file that is meant; None: of any.
        :raises OtherFileError: the name is another file's by now, or nobody's.
        :raises SourceUnavailableError: it cannot be read.
        """
        path = self.path / name
        with self._mapped_errors(path, but=FileNotFoundError):
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                raise OtherFileError from None

        def read(position: int, count: int) -> bytes:
            with self._mapped_errors(path):
                block = os.pread(descriptor, count, position)
                # A read may return less than there is.
                while len(block) < count and (
                    more := os.pread(descriptor, count - len(block), position + len(block))
                ):
                    block += more
                return block

        try:
            if inode is not None and os.fstat(descriptor).st_ino != inode:
                raise OtherFileError
            yield read
        finally:
            os.close(descriptor)

    @contextmanager
    def _mapped_errors(self, path: Path, but: type[OSError] | tuple[()] = ()) -> Iterator[None]:
        try:
            yield
        except but:
            raise
        except OSError as exc:
            shown = shown_name(str(path))
            raise SourceUnavailableError(f"Cannot read {shown}: {exc.strerror or exc}.") from exc


def end_of_lines(read: Callable[[int, int], bytes], start: int, end: int) -> int:
    """The position behind the last line break between two positions; ``start`` if none."""
    while end > start:
        begin = max(start, end - CHUNK_BYTES)
        found = read(begin, end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return start


def _seen(name: str, info: os.stat_result) -> SeenFile:
    return SeenFile(name, info.st_ino, info.st_size, info.st_mtime_ns)
