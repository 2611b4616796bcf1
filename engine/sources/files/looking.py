"""Which files are in a folder by now, as Spark sees it.

Of a folder that a files sink of Spark's or of this engine writes, the sink's log tells; else the
folder itself. There, hidden files and those whose name begins with ``_`` are none. Folders inside
are looked into if they are partitions, ``day=3``, or with ``recursiveFileLookup``.

A folder that has not changed is not listed again: a look at a hundred thousand files that are known
costs what a look at their folders does.

Source: Spark's InMemoryFileIndex, PartitioningAwareFileIndex, FileStreamSource.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.checkpoint.storage.opening import open_storage
from engine.errors import SourceUnavailableError
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog, SinkFile
from engine.sources.files.source_log import path_of

SETTLED_NS: Final = 2_000_000_000
"""A folder that changed so short a time ago may have changed again by the same clock."""
LISTED_S: Final = 60.0
"""And it is listed again so often in any case: other machines have other clocks."""


@dataclass(frozen=True)
class FoundFile:
    """:param modified_ms: since 1970; ``size`` in bytes."""

    path: str
    modified_ms: int
    size: int


@dataclass
class _Listed:
    modified_ns: int
    settled: bool
    again_s: float
    folders: list[str] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    """The names of those that were found, as long as they are there."""


class FolderLook:
    """Looks again and again at one folder.

    :param accepts: whether a file of this name is one.
    """

    def __init__(self, root: Path, accepts: Callable[[str], bool], *, recursive: bool) -> None:
        self._root, self._accepts, self._recursive = root, accepts, recursive
        self._listed: dict[str, _Listed] = {}
        self._sink: _SinkLook | None = None
        self._is_plain = False
        """It had files, and no sink's log."""

    def look(self) -> list[FoundFile]:
        """Those that no earlier look has found, the oldest first. One that was away since, or whose
        folder was, is found again.

        :raises SourceUnavailableError: the folder cannot be listed.
        """
        if self._sink is None and not self._is_plain and (self._root / FOLDER).is_dir():
            self._sink = _SinkLook(self._root)
        found = self._sink.look() if self._sink is not None else self._walk()
        self._is_plain = self._sink is None and (self._is_plain or bool(found))
        return sorted(found, key=lambda file: (file.modified_ms, file.path))

    def lists(self, key: str) -> bool:
        """Whether the last look at its folder has found a file of this path, or name."""
        folder, _, name = key.rpartition("/")
        listed = [self._listed.get(folder)] if folder else list(self._listed.values())
        return any(each is not None and name in each.files for each in listed)

    def _walk(self) -> list[FoundFile]:
        found: list[FoundFile] = []
        folders, seen = [str(self._root)], set()
        while folders:
            folder = folders.pop()
            seen.add(folder)
            try:
                self._list(folder, found)
                folders += self._listed[folder].folders
            except OSError as exc:
                self._listed.pop(folder, None)
                if folder == str(self._root) or not isinstance(exc, FileNotFoundError):
                    raise SourceUnavailableError(
                        f"Source files: cannot list {folder}: {exc.strerror or exc}."
                    ) from exc
        for gone in self._listed.keys() - seen:
            del self._listed[gone]
        return found

    def _list(self, folder: str, found: list[FoundFile]) -> None:
        looked_ns = time.time_ns()
        modified_ns = Path(folder).stat().st_mtime_ns
        before = self._listed.get(folder)
        now_s = time.monotonic()
        if (
            before is not None
            and before.settled
            and before.modified_ns == modified_ns
            and now_s < before.again_s
        ):
            return
        is_settled = looked_ns - modified_ns > SETTLED_NS
        listed = _Listed(modified_ns, is_settled, now_s + LISTED_S)
        known = set() if before is None else before.files
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name in known:
                    listed.files.add(entry.name)
                    continue
                if entry.is_dir():
                    if self._enters(entry.name):
                        listed.folders.append(entry.path)
                elif self._accepts(entry.name):
                    try:
                        info = entry.stat()
                    except FileNotFoundError:  # it went between the listing and the look at it
                        continue
                    if stat.S_ISREG(info.st_mode):
                        modified_ms = info.st_mtime_ns // 1_000_000
                        listed.files.add(entry.name)
                        found.append(FoundFile(entry.path, modified_ms, info.st_size))
        self._listed[folder] = listed

    def _enters(self, name: str) -> bool:
        if name.startswith(".") or (name.startswith("_") and "=" not in name):
            return False
        return self._recursive or "=" in name


class _SinkLook:
    """Looks at the log of a files sink."""

    def __init__(self, root: Path) -> None:
        self._log = FileSinkLog(open_storage(str(root / FOLDER)))
        self._last = -1

    def look(self) -> list[FoundFile]:
        listing = self._log.listing()
        last = max(listing, default=-1)
        if last == self._last:
            return []
        news = range(self._last + 1, last + 1)
        if self._last >= 0 and all(epoch in listing for epoch in news):
            lines = [line for epoch in news for line in self._log.lines(listing, epoch)]
            files = [SinkFile.of_line(line) for line in lines]
        else:
            files = self._log.files()
        self._last = last
        return [FoundFile(path_of(file.path), file.modified_ms, file.size) for file in files]
