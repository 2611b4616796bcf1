r"""Which files belong to which offset: Spark's log of a file source, byte for byte.

::

    sources/0/3            v1
                           {"path":"file:///data/in/a.json","timestamp":1795174791828,"batchId":3}
    sources/0/9.compact    v1, and the lines of all entries up to 9

The offset ``{"logOffset":3}`` stands for all files of the entries up to 3. An entry is there before
the offset that names it is: who finds one behind the last offset of the checkpoint reads just its
files next. Spark writes it before they are read, and this engine when they were, but for those of a
backlog that others would make too old.

Two runs never log one file twice: each has read all entries before the one that it adds, and no
entry is added twice.

Source: Spark's FileStreamSourceLog, CompactibleFileStreamLog.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from engine.base.failpoints import reach
from engine.base.json_text import dump, load_object
from engine.checkpoint.logs.compaction import (
    COMPACT,
    DEFAULT_INTERVAL,
    compaction_before,
    entries_before_compaction,
    entries_until,
    entry_name,
    interval_of,
    is_compaction,
)
from engine.checkpoint.storage.contract import Storage
from engine.errors import CheckpointCorruptError, SourceUnavailableError

HEADER: Final = "v1"
RETAINED: Final = 100
CLEANUP_DELAY_S: Final = 600.0
"""Spark's: younger entries are not removed."""


@dataclass(frozen=True)
class LoggedFile:
    """:param path: as the disk has it.
    :param timestamp_ms: when it was modified, since 1970.
    :param entry: which it is of.
    """

    path: str
    timestamp_ms: int
    entry: int

    def line(self) -> str:
        """Byte for byte as Spark writes it."""
        return dump(
            {"path": url_of(self.path), "timestamp": self.timestamp_ms, "batchId": self.entry}
        )

    @classmethod
    def of_line(cls, line: str) -> LoggedFile:
        """:raises ValueError, KeyError: it is no such line."""
        found = load_object(line)
        return cls(path_of(found["path"]), found["timestamp"], found["batchId"])


def url_of(path: str) -> str:
    """As Java's ``URI`` has it, which leaves letters of all alphabets as they are: Spark compares
    these texts."""
    return "file://" + "".join(
        char if ord(char) > 0x9F and not char.isspace() else quote(char, safe="/=+,:;@&$!*'()~-._")
        for char in path
    )


def path_of(url: str) -> str:
    """The inverse of :func:`url_of`."""
    return unquote(urlsplit(url).path)


class FileSourceLog:
    """The log of one source.

    :param folder: of the storage.
    :ivar latest: the newest entry, -1 if there is none.
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage, self._folder = storage, folder
        self._names: dict[int, str] = {}
        self._interval = DEFAULT_INTERVAL
        self._may_expire = False
        self.latest = -1

    def load(self) -> list[LoggedFile]:
        """All that was ever logged, in order.

        :raises CheckpointCorruptError: an entry is missing or cannot be read.
        """
        self._storage.sync(self._folder)
        found: dict[int, str] = {}
        for info in self._storage.list(self._folder):
            number = info.name.removesuffix(COMPACT)
            if number.isascii() and number.isdigit() and not _is_compact(found, int(number)):
                found[int(number)] = info.name
        self._names, self.latest = found, max(found, default=-1)
        self._interval = interval_of(
            sorted(each for each in found if _is_compact(found, each)), DEFAULT_INTERVAL
        )
        files = {
            (file.path, file.entry): file
            for entry in entries_until(self.latest, self._interval)
            for file in map(self._file, self._lines(entry))
        }
        return list(files.values())

    def add(self, files: Sequence[tuple[str, int]]) -> int:
        """Log files, path and time of each, as the next entry; its number.

        :raises SourceUnavailableError: another run has logged others there: they come first.
        :raises CheckpointError: it cannot be written.
        """
        entry = self.latest + 1
        lines = [LoggedFile(path, timestamp_ms, entry).line() for path, timestamp_ms in files]
        if is_compaction(entry, self._interval) and entry:
            before = entries_before_compaction(entry, self._interval)
            lines = [line for each in before for line in self._lines(each)] + lines
        name, data = entry_name(entry, self._interval), "\n".join([HEADER, *lines]).encode()
        path = self._name(name)
        reach("sourceLog.before")
        # It may be there by this very call, whose answer was lost.
        if not self._storage.create(path, data) and self._storage.read(path) != data:
            raise SourceUnavailableError(
                f"{self._storage.path(path)} is there already: an earlier run of the query has "
                "ended its write only now.",
                hint="The next attempt reads its files first.",
            )
        reach("sourceLog.after")
        self._names[entry], self.latest = name, entry
        self._may_expire = self._may_expire or name.endswith(COMPACT)
        return entry

    def expire(self) -> None:
        """Delete entries that a compaction holds too, as Spark does.

        :raises CheckpointError: one cannot be deleted.
        """
        if not self._may_expire:
            return
        self._may_expire = False
        needed = compaction_before(max(0, self.latest + 1 - RETAINED), self._interval)
        before_s = time.time() - CLEANUP_DELAY_S
        for entry in sorted(each for each in list(self._names) if each < needed):
            name = self._name(self._names[entry])
            try:
                if self._storage.info(name).modified_s > before_s:
                    return
                self._storage.delete(name)
            except FileNotFoundError:
                pass
            del self._names[entry]

    def _lines(self, entry: int) -> list[str]:
        name = self._name(self._names.get(entry, str(entry)))
        try:
            header, *lines = self._storage.read(name).decode("utf-8").split("\n")
        except FileNotFoundError:
            raise CheckpointCorruptError(
                f"{self._storage.path(name)} is missing: without it, it is not known which files "
                "were read.",
                hint="Restore it, or start the query with a checkpoint of its own.",
            ) from None
        if header != HEADER:
            raise self._unreadable(name, f"its version is {header[:20]!r}")
        return [line for line in lines if line]

    def _file(self, line: str) -> LoggedFile:
        try:
            return LoggedFile.of_line(line)
        except (ValueError, KeyError) as exc:
            raise self._unreadable(self._folder, f"{line[:80]!r}: {exc}") from exc

    def _unreadable(self, name: str, why: str) -> CheckpointCorruptError:
        return CheckpointCorruptError(
            f"The log of the files that were read, {self._storage.path(name)}, cannot be read: "
            f"{why}.",
            hint="Restore it, or start the query with a checkpoint of its own.",
        )

    def _name(self, name: str) -> str:
        return f"{self._folder}/{name}"


def _is_compact(names: dict[int, str], entry: int) -> bool:
    return names.get(entry, "").endswith(COMPACT)
