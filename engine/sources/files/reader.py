"""Both sides of the file source: the driver looks for files and logs what was read, tasks read."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.errors import (
    OffsetOutOfRangeError,
    ProtocolError,
    SourceError,
    SourceUnavailableError,
)
from engine.sources.contract import Offset
from engine.sources.files.cleaning import Cleaning
from engine.sources.files.file_formats import Content, FileFormat
from engine.sources.files.looking import FolderLook, FoundFile
from engine.sources.files.losses import is_lost
from engine.sources.files.partition_values import constants, partition_values, with_constants
from engine.sources.files.source_log import FileSourceLog, LoggedFile
from engine.sources.handed.partition_reader import OpenUnit
from engine.sources.handed.reader import AT_ONCE, HandedReader, HandedRun
from engine.sources.handed.work import Work
from engine.sources.tail.name_filter import NameFilter
from engine.sources.tail.tail_offset import shown_name

if TYPE_CHECKING:
    from engine.checkpoint.storage.contract import Storage

logger: Final = logging.getLogger(__name__)
TUNING: Final = (
    "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "maxFileAge", "cleanSource",
    "sourceArchiveDir", "ignoreMissingFiles", "pollIntervalMs", "maxCachedFiles",
    "discardCachedInputRatio",
)  # fmt: skip
BEFORE_ALL: Final = -1
PROMISES_MAX: Final = 1_000
"""Of so many ends of the stream it is known which files were there."""
ENTRIES_MIN: Final = 10_000
"""With fewer files that were read none is forgotten."""


@dataclass(frozen=True)
class FilesOptions:
    """What the user has said.

    :param root: the folder.
    :param files_max: of an epoch; so ``bytes_max``. None: no limit.
    :param age_max_ms: a file that is so much older than the newest that is known is none.
    :param by_name: files of the same name are the same, whatever folder they are in.
    """

    root: Path
    partitions: int
    poll_s: float
    accepts: NameFilter
    recursive: bool
    files_max: int | None
    bytes_max: int | None
    latest_first: bool
    age_max_ms: int
    by_name: bool
    ignores_missing: bool
    cleaning: Cleaning | None

    def key(self, path: str) -> str:
        """What a file is known by."""
        return path.rpartition("/")[2] if self.by_name else path

    def look(self) -> FolderLook:
        """For one run."""
        return FolderLook(self.root, self._accepts, recursive=self.recursive)

    def _accepts(self, name: str) -> bool:
        return self.accepts(name) and not name.endswith("._COPYING_")


# -- on the executor ------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileUnits:
    """Reads files. Picklable.

    :param schema: of the batches.
    """

    file_format: FileFormat
    schema: pa.Schema
    root: str
    timezone: str
    ignores_missing: bool

    def __call__(self, path: str) -> Iterator[Content]:
        told = constants(partition_values(path, self.root), self.schema, path, self.timezone)
        inside = pa.schema([field for field in self.schema if field.name not in told])
        try:
            for content in self.file_format.batches(path, inside, told):
                if isinstance(content, pa.RecordBatch):
                    content = with_constants(content, told, self.schema)
                yield content
        except FileNotFoundError:
            if not is_lost(self.root, path):
                raise SourceUnavailableError(
                    f"Source files: {shown_name(path)} was away, and is there again."
                ) from None
            if not self.ignores_missing:
                raise SourceError(
                    f"Source files: {shown_name(path)} was there when it was found, and is gone, "
                    "or is not seen where this task runs.",
                    hint="Put it back. To go on without it, set option ignoreMissingFiles to true. "
                    "Files must stay until their rows are committed, on storage that the driver "
                    "and all executors see under the same path.",
                ) from None
            logger.warning("%s is gone, and left out: ignoreMissingFiles is true", shown_name(path))


# -- on the driver --------------------------------------------------------------------------------


class FilesReader(HandedReader):
    """The driver's side."""

    keepsLog = True
    runsInBatches = True

    def __init__(
        self, options: FilesOptions, file_format: FileFormat, schema: pa.Schema, timezone: str
    ) -> None:
        super().__init__(options.partitions)
        self.tuningOptions = TUNING
        self._options, self._format, self._schema = options, file_format, schema
        self._timezone = timezone
        self._log: FileSourceLog | None = None
        self._logged: list[LoggedFile] = []
        self._promised: dict[int, tuple[int, frozenset[str]]] = {}
        """Of ends of the stream: the last entry that was read, and the files that were not."""
        self._cleaned: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {
            **super().__getstate__(), "_log": None, "_logged": [], "_promised": {},
            "_cleaned": None,
        }  # fmt: skip

    def openLog(self, storage: Storage, folder: str) -> None:
        self._log = FileSourceLog(storage, folder)
        self._logged = self._log.load()

    def initialOffset(self) -> Offset:
        return {"logOffset": BEFORE_ALL}

    def handingOut(self, start: Offset, until: Offset | None = None) -> FilesRun:
        """:raises OffsetOutOfRangeError: the log does not reach as far as the offset."""
        assert self._log is not None, "openLog() comes first"
        at = position_of(start)
        end = self._log.latest if until is None else position_of(until)
        if max(at, end) > self._log.latest:
            raise OffsetOutOfRangeError(
                f"Source files: the checkpoint is at logOffset {max(at, end)}, and its log of "
                f"files that were read ends at {self._log.latest}.",
                hint="Restore the folder sources/ of the checkpoint: without it, it is not known "
                "which files were read.",
            )
        self._run = FilesRun(
            self._options, self._log, self._logged, at, None if until is None else end
        )
        self._cleaned = at if self._cleaned is None else self._cleaned
        return self._run

    def unit_reader(self) -> OpenUnit:
        return FileUnits(
            self._format,
            self._schema,
            str(self._options.root),
            self._timezone,
            self._options.ignores_missing,
        )

    def prune(self, columns: Sequence[str]) -> FilesReader:
        schema = pa.schema([self._schema.field(name) for name in columns])
        return FilesReader(self._options, self._format, schema, self._timezone)

    # -- where it ends --------------------------------------------------------------------------

    def latestOffset(self, start: Offset) -> Offset:
        """As if each file that is there were logged by itself."""
        found, run = self._options.look().look(), self._run
        if isinstance(run, FilesRun):
            files, latest = run.take_now(found)
        else:  # its tasks have not started yet
            latest = position_of(start)
            oldest_ms = newest_of(self._logged) - self._options.age_max_ms
            logged = {
                self._options.key(file.path): file.entry
                for file in self._logged
                if file.timestamp_ms >= oldest_ms or file.entry > latest
            }
            new = ((self._options.key(file.path), file.modified_ms) for file in found)
            files = frozenset(
                key
                for key, modified_ms in new
                if (logged[key] > latest if key in logged else modified_ms >= oldest_ms)
            )
        end = latest + len(files)
        self._promised[end] = latest, files
        if len(self._promised) > PROMISES_MAX:
            del self._promised[next(iter(self._promised))]
        return {"logOffset": end}

    def knownEnd(self) -> Offset | None:
        run = self._run
        return {"logOffset": run.known_end} if isinstance(run, FilesRun) else None

    def hasReached(self, committed: Offset, wanted: Offset) -> bool:
        """A file that is gone before it was read never will be."""
        at, end = position_of(committed), position_of(wanted)
        promised, run = self._promised.get(end), self._run
        if promised is None:
            return at >= end
        merged, files = promised  # which may not be committed yet
        return at >= merged and isinstance(run, FilesRun) and run.has_logged(files, merged, at)

    def commit(self, end: Offset) -> None:
        """Files that are committed are cleaned up, and old entries of the log."""
        run, at, log = self._run, position_of(end), self._log
        if not isinstance(run, FilesRun) or log is None or self._cleaned is None:
            return
        files = run.logged_between(self._cleaned, at)
        if self._options.cleaning is not None:
            self._options.cleaning.clean(files)
        self._cleaned = max(self._cleaned, at)
        log.expire()


def position_of(offset: Offset) -> int:
    """:raises SourceError: it is no offset of this source."""
    if isinstance(offset, int) and not isinstance(offset, bool):
        return offset  # as Spark takes it, too
    found = offset.get("logOffset") if isinstance(offset, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        raise SourceError(
            f"The offset {offset!r} is not one of source files.",
            hint='It looks like {"logOffset":3}.',
        )
    return found


class FilesRun(HandedRun[FoundFile]):
    """Finds files for one run, and logs those that were read.

    Entries of the log behind the start come first, one after the other and each as a whole: an
    earlier run has bound their files to an offset.

    A file that is in the log tells the next run how old others may be. So none is logged while one
    is found, and not logged, that would be too old then: where files are that far apart, they are
    bound to an entry, as by Spark, before they are read.

    :param logged: all that is in the log.
    :param start: entries up to it are read; ``until`` is the last one to read, None to go on.
    """

    def __init__(
        self,
        options: FilesOptions,
        log: FileSourceLog,
        logged: Sequence[LoggedFile],
        start: int,
        until: int | None,
    ) -> None:
        super().__init__(options.partitions)
        self._options, self._log, self._until = options, log, until
        self._look = options.look()
        self._next_look_s = 0.0
        self._newest_ms = newest_of(logged)
        self._entries: dict[str, tuple[int, int]] = {}
        """Of files that are young enough: which entry they are of, and when they were modified."""
        self._old: dict[str, int] = {}
        """Of those that are not, and are in the folder still: which entry they are of."""
        for file in logged:
            if file.timestamp_ms >= self._oldest_ms:
                self._entries[options.key(file.path)] = file.entry, file.timestamp_ms
            else:
                self._old[options.key(file.path)] = file.entry
        self._has_looked = False
        self._entries_max = ENTRIES_MIN
        bound: dict[int, list[FoundFile]] = {}
        for file in logged:
            if start < file.entry <= (log.latest if until is None else until):
                found = FoundFile(file.path, file.timestamp_ms, 0)
                bound.setdefault(file.entry, []).append(found)
        self._paths = {entry: [file.path for file in files] for entry, files in bound.items()}
        """Of the entries that this run reads, until they are cleaned up."""
        self._bound = deque(sorted(bound.items()))
        self._at = start
        self._reading: int | None = None
        """The entry whose files are handed out, and not merged."""
        self._new: deque[FoundFile] = deque()
        """In the order in which they are to be read."""
        self._oldest_out_ms: int | None = None
        """Of those that are handed out; None: it is not known."""
        self._keys = {options.key(file.path) for files in bound.values() for file in files}
        """Of the files that are found and not merged."""

    @property
    def _oldest_ms(self) -> int:
        return self._newest_ms - self._options.age_max_ms

    # -- handing out ----------------------------------------------------------------------------

    def next(self, timeout_s: float) -> Mapping[int, Work] | None:
        with self.changed:
            if self._until is not None or self._reading is not None or self._bound:
                return self._next_bound(timeout_s)
            may_look = monotonic() >= self._next_look_s and len(self._new) < AT_ONCE
        # Not while it is held: a folder may take its time.
        found = self._look.look() if may_look else []
        with self.changed:
            if may_look:
                self._next_look_s = monotonic() + self._options.poll_s
                self._take(found)
            works = self.told(self._next_new(), is_all=not self._new)
            if works is None:
                self.changed.wait(max(0.0, min(timeout_s, self._next_look_s - monotonic())))
            return works

    def _next_bound(self, timeout_s: float) -> Mapping[int, Work] | None:
        """The files of the next entry when those of the one before are merged; or all of them, if
        nothing is to follow."""
        if self._reading is not None:
            self.changed.wait(timeout_s)
            return None
        is_last = self._until is not None
        entries = list(self._bound) if is_last else [self._bound[0]]
        for _ in entries:
            self._bound.popleft()
        self._reading = self._until if is_last else entries[0][0]
        units = [_unit(file) for _, files in entries for file in files]
        return self.works(units, is_whole=True, is_last=is_last)

    def _next_new(self) -> Mapping[int, Work] | None:
        files_max, bytes_max = self._options.files_max, self._options.bytes_max
        left = AT_ONCE if files_max is None else files_max - len(self.out)
        size = sum(file.size for file in self.out.values()) if bytes_max is not None else 0
        chosen: list[FoundFile] = []
        for file in islice(self._new, max(0, min(left, AT_ONCE))):
            size += file.size
            if bytes_max is not None and size > bytes_max and (chosen or self.out):
                break
            chosen.append(file)
        if not chosen:
            return None
        if self._ages_others(chosen):
            return None if self.out else self._bind(chosen)
        for _ in chosen:
            self._new.popleft()
        self._oldest_out_ms = min(self._oldest(), *(file.modified_ms for file in chosen))
        return self.works([_unit(file) for file in chosen])

    def _ages_others(self, chosen: Sequence[FoundFile]) -> bool:
        """Whether others would be too old when these are logged."""
        oldest_ms = min(self._new[0].modified_ms, self._new[-1].modified_ms, self._oldest())
        newest_ms = max(chosen[0].modified_ms, chosen[-1].modified_ms)
        return oldest_ms < newest_ms - self._options.age_max_ms

    def _oldest(self) -> int:
        """Of the files that are handed out."""
        if self._oldest_out_ms is None:
            times = (file.modified_ms for file in self.out.values())
            self._oldest_out_ms = min(times, default=self._newest_ms)
        return self._oldest_out_ms

    def _bind(self, chosen: Sequence[FoundFile]) -> Mapping[int, Work] | None:
        """Log them, and hand them out as a whole. The oldest come before others; where the newest
        do, it must be all of them."""
        files = list(self._new if self._options.latest_first else chosen)
        self._bound.append((self._logs(files), files))
        for _ in files:
            self._new.popleft()
        return self._next_bound(0.0)

    def _take(self, found: Iterable[FoundFile]) -> None:
        oldest_ms, old = self._oldest_ms, 0
        were_read: dict[str, int] = {}
        for file in found:
            key = self._options.key(file.path)
            if key in self._old:
                were_read[key] = self._old[key]
            if key in self._entries or key in self._keys:
                continue
            if file.modified_ms < oldest_ms:
                old += key not in self._old
                continue
            self._newest_ms = max(self._newest_ms, file.modified_ms)
            self._keys.add(key)
            self._new.append(file)
        if old:
            logger.warning(
                "files in %s that are older than option maxFileAge allows are not read: %d",
                self._options.root,
                old,
            )
        if not self._has_looked:  # the first look finds all that is there
            self._old, self._has_looked = were_read, True
        sign = -1 if self._options.latest_first else 1
        self._new = deque(sorted(self._new, key=lambda file: sign * file.modified_ms))

    # -- merging --------------------------------------------------------------------------------

    def merge(self, done: Sequence[FoundFile]) -> Offset:
        if self._reading is not None:
            if len(done) == len(self.out):
                self._at, self._reading = self._reading, None
            elif done or self._until is not None:
                raise ProtocolError(
                    f"An epoch has {len(done)} of the {len(self.out)} files of entry "
                    f"{self._reading} of the log: it must have all or none."
                )
        elif done:
            self._at = self._logs(done)
        self._oldest_out_ms = None
        self._keys.difference_update(self._options.key(file.path) for file in done)
        return {"logOffset": self._at}

    def _logs(self, files: Sequence[FoundFile]) -> int:
        """Log files as the next entry; its number."""
        entry = self._log.add([(file.path, file.modified_ms) for file in files])
        self._paths[entry] = [file.path for file in files]
        self._entries.update(
            (self._options.key(file.path), (entry, file.modified_ms)) for file in files
        )
        self._forget_old()
        return entry

    def _forget_old(self) -> None:
        """Those that are too old to be read, whether they were or not."""
        if len(self._entries) < self._entries_max:
            return
        oldest_ms, young = self._oldest_ms, {}
        for key, (entry, modified_ms) in self._entries.items():
            if modified_ms >= oldest_ms:
                young[key] = entry, modified_ms
            else:
                self._old[key] = entry
        self._entries = young
        self._old = {key: entry for key, entry in self._old.items() if self._look.lists(key)}
        self._entries_max = max(ENTRIES_MIN, 2 * len(self._entries))

    # -- where it is ----------------------------------------------------------------------------

    def take_now(self, found: Iterable[FoundFile]) -> tuple[frozenset[str], int]:
        """Read these as well. Returns what is there and not read, and the last entry that is."""
        with self.changed:
            self._take(found)
            self.changed.notify_all()
            return frozenset(self._keys), self._at

    @property
    def known_end(self) -> int:
        """As if each file that is found were logged by itself."""
        with self.changed:
            return self._at + len(self._keys)

    def has_logged(self, keys: Iterable[str], start: int, at: int) -> bool:
        """Whether these are in entries behind ``start``, up to ``at``, or gone."""
        with self.changed:
            return all(self._has_logged(key, start, at) for key in keys)

    def _has_logged(self, key: str, start: int, at: int) -> bool:
        entry = self._entries[key][0] if key in self._entries else self._old.get(key, start)
        return entry <= at if entry > start else self._is_gone(key)

    def _is_gone(self, key: str) -> bool:
        try:
            return not self._options.by_name and is_lost(str(self._options.root), key)
        except SourceUnavailableError:
            return False

    def logged_between(self, start: int, end: int) -> list[str]:
        """The files of the entries from ``start``, exclusive, to ``end``. Told once."""
        with self.changed:
            due = sorted(entry for entry in self._paths if start < entry <= end)
            return [path for entry in due for path in self._paths.pop(entry)]


def newest_of(logged: Iterable[LoggedFile]) -> int:
    """When the newest file was modified."""
    return max((file.timestamp_ms for file in logged), default=0)


def _unit(file: FoundFile) -> tuple[FoundFile, str, str]:
    return file, file.path, file.path
