"""A folder of files that only grow, as the ``tail`` source sees it.

Needs neither Spark nor Arrow, so a sensor can ask where the source ends by now.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from engine.errors import OffsetOutOfRangeError, SourceError, SourceUnavailableError

CHUNK_BYTES: Final = 1 << 20
"""So much is read and parsed at once, unless a single line is longer."""


@dataclass(frozen=True)
class NameFilter:
    """Which files of the folder belong to the stream: not hidden, and matching the pattern."""

    pattern: str

    def __call__(self, name: str) -> bool:
        return not name.startswith((".", "_")) and fnmatchcase(name, self.pattern)


def checked(offset: Any) -> dict[str, int]:
    """:raises SourceError: it is not an offset of such a folder."""
    if isinstance(offset, dict) and all(
        type(position) is int and position >= 0 for position in offset.values()
    ):
        return offset
    raise SourceError(
        f"The offset {offset!r} is not one of a tail source.",
        hint='It looks like {"file.json":4096}: the next byte of each file.',
    )


@dataclass(frozen=True)
class Folder:
    """The files of the stream.

    :param accepts: whether a file of this name belongs to it.
    """

    path: Path
    accepts: Callable[[str], bool]

    def latest(self, start: Any) -> dict[str, int]:
        """The offset behind the last whole line of every file.

        :param start: an earlier offset: nothing before it is looked at.
        """
        offsets = checked(start)
        sizes = self.sizes()
        self.check(offsets, sizes)
        found = {}
        for name, size in sorted(sizes.items()):
            position = offsets.get(name, 0)
            try:
                end = self.end_of_lines(name, position, size)
            except FileNotFoundError:  # it went between the listing and the look at it
                if position:
                    self.refuse(name, position, None)
                continue
            if end:
                found[name] = end
        return found

    def sizes(self, wanted: Callable[[str], bool] | None = None) -> dict[str, int]:
        """Name and size of the stream's files, in no order.

        :param wanted: which of the stream's files to look at; default all.
        :raises SourceUnavailableError: the folder cannot be listed.
        """
        wanted = wanted or self.accepts
        with _mapped_errors(self.path), os.scandir(self.path) as entries:
            found = {}
            for entry in entries:
                if not wanted(entry.name):
                    continue
                try:
                    if entry.is_file():
                        found[entry.name] = entry.stat().st_size
                except FileNotFoundError:  # it went between the listing and the look at it
                    continue
            return found

    def check(self, offsets: Mapping[str, int], sizes: Mapping[str, int] | None = None) -> None:
        """:raises OffsetOutOfRangeError: a file is gone, or is shorter than what was read of it."""
        sizes = self.sizes() if sizes is None else sizes
        for name, position in offsets.items():
            size = sizes.get(name)
            if size is None or size < position:
                self.refuse(name, position, size)

    def refuse(self, name: str, position: int, size: int | None) -> None:
        """:raises OffsetOutOfRangeError: always."""
        now = "it is gone" if size is None else f"it has {size} bytes now"
        raise OffsetOutOfRangeError(
            f"{self.path / name} was read up to byte {position}, and {now}.",
            hint="The files of a tail source must only grow. Put it back, or start with a new "
            "checkpoint.",
        )

    def read(self, name: str, position: int, count: int) -> bytes:
        """So many bytes of a file, fewer at its end.

        :raises FileNotFoundError: it is gone.
        :raises SourceUnavailableError: it cannot be read.
        """
        path = self.path / name
        with _mapped_errors(path, but=FileNotFoundError), path.open("rb", buffering=0) as file:
            file.seek(position)
            block = file.read(count)
            # A raw read may return less than there is.
            while len(block) < count and (more := file.read(count - len(block))):
                block += more
            return block

    def end_of_lines(self, name: str, start: int, end: int) -> int:
        """The position behind the last line break between two positions; ``start`` if none."""
        while end > start:
            begin = max(start, end - CHUNK_BYTES)
            found = self.read(name, begin, end - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
        return start


@contextmanager
def _mapped_errors(path: Path, but: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    try:
        yield
    except but:
        raise
    except OSError as exc:
        raise SourceUnavailableError(f"Cannot read {path}: {exc.strerror or exc}.") from exc
