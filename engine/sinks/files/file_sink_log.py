"""Spark's log of a files sink: which files of a folder belong to committed epochs.

::

    <folder>/_spark_metadata/0           v1
                                         {"path":"file:///data/out/part-...","size":714,...}
    <folder>/_spark_metadata/9.compact   v1, and the files of all epochs up to 9

Spark reads a folder with such a log by the log alone: other files in it do not exist for a reader.
Lines are separated, not ended, by line breaks; an epoch without files is the header alone.

Every ``interval`` epochs the entry holds everything so far: epoch b is such a *compaction epoch* if
(b + 1) is a multiple of the interval. Older entries are deleted when no reader that has just listed
the log can still need them.

**The interval grows with the log**, so that an epoch costs the same however many files there are:
it doubles when a compaction writes more than :data:`LINES_PER_EPOCH` lines per epoch of it. Readers
take the distance of the two newest compactions for the interval. So every second one is turned into
the plain entry that it would be by the new interval: first that is written, and then the compacted
one removed, which a reader that has just listed it looks for in vain, and takes the next one. The
last two compactions always stay, with all between them: by one alone a reader would guess the
interval, and without the rest it could not be doubled again.

**A log may leave epochs out** (:meth:`FileSinkLog.fill`): compactions alone, each as far behind the
one before as readers can follow, and the last ones at the log's interval again.

On a disk each entry has Hadoop's checksums beside it, ``.3.crc``, as Spark's own entries have: a
line that is lost would be records that are lost. An entry without them, of a writer that died in
between, is taken as it is.

Source: Spark's CompactibleFileStreamLog, FileStreamSinkLog and FileStreamSink.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from engine.base import json_text
from engine.base.failpoints import reach
from engine.checkpoint.logs.compaction import (
    COMPACT,
    DEFAULT_INTERVAL,
    entries_before_compaction,
    entries_until,
    entry_name,
    interval_of,
    is_compaction,
    needed_from,
    stepping_stones,
)
from engine.checkpoint.storage.contract import FileInfo, Storage, checksum_twin
from engine.checkpoint.storage.hadoop_checksum import checksums, fits
from engine.errors import (
    CheckpointError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkError,
    SinkUnavailableError,
)

FOLDER: Final = "_spark_metadata"
DEFAULT_RETAINED: Final = 100
CLEANUP_DELAY_S: Final = 600.0
LINES_PER_EPOCH: Final = 100
"""So many lines of a compaction are a small part of what an epoch costs anyway."""
HEADER: Final = "v1"
_MODIFIED: Final = re.compile(r'"modificationTime":(\d+)')
# In the names of files that this engine has written, see engine.sinks.files.epoch_files. Spark's
# micro-batches write an epoch again with other names, and the same rows.
_GENERATION: Final = re.compile(r"/part-\d+-g\d+-[^/]*$")


@dataclass(frozen=True)
class SinkFile:
    """One data file.

    :param path: a URL, ``file:///...``, percent-encoded.
    :param size: bytes.
    :param modified_ms: since 1970.
    :param block_size: bytes; Spark splits a file for reading by it. 32 MiB on a local disk.
    """

    path: str
    size: int
    modified_ms: int
    block_replication: int = 1
    block_size: int = 33_554_432

    def line(self) -> str:
        """The file's line in the log, byte for byte as Spark writes it."""
        return json_text.dump(
            {
                "path": self.path,
                "size": self.size,
                "isDir": False,
                "modificationTime": self.modified_ms,
                "blockReplication": self.block_replication,
                "blockSize": self.block_size,
                "action": "add",
            }
        )

    @classmethod
    def of_line(cls, line: str) -> SinkFile:
        """The inverse of :meth:`line`.

        :raises ValueError, KeyError: it is no such line.
        """
        found = json_text.load_object(line)
        return cls(
            path=found["path"],
            size=found["size"],
            modified_ms=found["modificationTime"],
            block_replication=found["blockReplication"],
            block_size=found["blockSize"],
        )


# -- the log --------------------------------------------------------------------------------------


class FileSinkLog:
    """The log in one folder.

    :param storage: of the folder ``_spark_metadata`` itself.
    :param interval: for a new log; an existing one keeps its own.
    :param retained: so many newest epochs are readable by a reader that lists the log now.
    :param cleanup_delay_s: younger entries are never deleted.
    :param retention_ms: files that were written longer ago are left out of compactions, as Spark's
        option ``retention`` has it; None: all are kept.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        interval: int = DEFAULT_INTERVAL,
        retained: int = DEFAULT_RETAINED,
        cleanup_delay_s: float = CLEANUP_DELAY_S,
        retention_ms: int | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.storage = storage
        self._default_interval = interval
        self._retained = retained
        self._cleanup_delay_s = cleanup_delay_s
        self._retention_ms = retention_ms
        self._now_s = now_s
        self._grown = 0  # the new interval, where it has just been doubled
        self._known: tuple[dict[int, str], int] | None = None  # what add has left, its interval

    def take(self, query_id: str, generation: int) -> None:
        """From now on no run of the query with a lower generation changes the log, not even one
        that sleeps in the middle of it.

        :raises SinkUnavailableError: the log cannot be written.
        """
        self._known = None
        try:
            self.storage.take(query_id, generation)
        except CheckpointError as exc:
            raise SinkUnavailableError(
                f"The log of the sink's files cannot be taken over: {exc.message}", hint=exc.hint
            ) from exc

    def latest(self) -> int | None:
        """The newest committed epoch, which stays so. Opens no file. Whoever wants to add epochs
        that others may have added too asks this first."""
        self._known = None
        self.storage.sync("")
        return max(self.listing(), default=None)

    def verify(self) -> None:
        """See that the entries which a reader needs now are undamaged.

        :raises SinkError: one is missing or damaged.
        """
        listing = self.listing()
        for epoch in entries_until(max(listing, default=-1), self.interval(listing)):
            self.lines(listing, epoch)

    def add(self, epoch: int, files: Sequence[SinkFile]) -> bool:
        """Commit an epoch; False, and nothing changes, if it is committed already.

        :raises SinkCommitRejectedError: earlier epochs are missing in a log that holds files,
            another query writes to this folder, or a run of another generation has committed the
            epoch with other files.
        :raises SinkCommitUnknownError: the log cannot be written.
        """
        with self._changing(epoch) as (listing, interval):
            return self._add(epoch, files, listing, interval)

    def has(self, epoch: int) -> bool:
        """Whether the epoch is committed, as far as this log has seen."""
        with self._changing(epoch) as (listing, _):
            return bool(listing) and epoch <= last_of(listing)

    def fill(self, until: int) -> None:
        """Leave out the epochs behind the last one, up to ``until`` inclusive: they have no files.
        Does nothing to an empty log, which may begin with any epoch.

        Writes few entries, however many epochs there are.

        :raises SinkCommitRejectedError: another query writes to this folder.
        :raises SinkCommitUnknownError: the log cannot be written.
        """
        with self._changing(until) as (listing, interval):
            if listing:
                self._fill(until, listing, interval)

    @contextmanager
    def _changing(self, epoch: int) -> Iterator[tuple[dict[int, str], int]]:
        """The listing, and the interval. It is read once: nobody else adds to the log, and if one
        does, the next entry is there already."""
        listing, interval = self._known or (None, 0)
        self._known = None
        with _unknown(epoch):
            if listing is None:
                listing = self.listing()
                interval = self.interval(listing)
            yield listing, interval
            self._known = listing, self._grown or interval
            self._grown = 0

    def files(self, up_to: int | None = None) -> list[SinkFile]:
        """The files of all committed epochs: what a reader sees.

        :param up_to: what a reader saw when this epoch, inclusive, was the last one.
        :raises SinkError: an entry is missing; of an older epoch, perhaps long ago.
        """
        listing = self.listing()
        if not listing:
            return []
        last = max(listing) if up_to is None else up_to
        return [
            SinkFile.of_line(line)
            for each in self.entries_up_to(listing, last)
            for line in self.lines(listing, each)
        ]

    @staticmethod
    def entries_up_to(listing: dict[int, str], epoch: int) -> range:
        """The entries that hold all files up to an epoch, inclusive, whatever the interval was
        then: the last compaction, and what follows."""
        compactions = (
            each for each, name in listing.items() if each <= epoch and name.endswith(COMPACT)
        )
        return range(max(compactions, default=0), epoch + 1)

    def _add(
        self, epoch: int, files: Sequence[SinkFile], listing: dict[int, str], interval: int
    ) -> bool:
        if listing and epoch <= last_of(listing):
            self.storage.sync("")  # its writer may have died before it was durable
            self._assert_same(listing, epoch, files)
            return False
        # The checkpoint had another folder before. A reader wants every entry since the last
        # compaction, so the earlier epochs are there, without files; some, if this was cut short.
        first = last_of(listing) + 1 if listing else entries_until(epoch, interval)[0]
        if listing and first < epoch and self.files():
            raise SinkCommitRejectedError(
                f"The last epoch in {self.storage.url} is {first - 1}: epoch {epoch} cannot "
                "follow it, the epochs between are missing.",
                hint="The folder belongs to another checkpoint. Write to a new one.",
                epoch=epoch,
            )
        for each in range(first, epoch):
            self._append(each, interval, listing, [])
        self._append(epoch, interval, listing, [file.line() for file in files])
        self._expire(epoch, self._grown or interval, listing)
        return True

    def _fill(self, until: int, listing: dict[int, str], interval: int) -> None:
        first = last_of(listing) + 1
        to_compaction = range(first, first + (-first - 1) % interval + 1)
        stones = stepping_stones(to_compaction[-1], until, interval)
        if not stones:
            to_compaction = range(first, until + 1)
        for each in to_compaction:
            self._append(each, interval, listing, [], grows=False)
        if stones:
            lines = self.lines(listing, to_compaction[-1])
            for each in stones:
                self._create(each, interval, lines)
                listing[each] = entry_name(each, interval)
            for each in range(stones[-1] + 1, until + 1):
                self._append(each, interval, listing, [], grows=False)

    def _append(
        self,
        epoch: int,
        interval: int,
        listing: dict[int, str],
        lines: Sequence[str],
        *,
        grows: bool = True,
    ) -> None:
        """:param listing: gets the new entry."""
        compacts = is_compaction(epoch, interval)
        if listing and compacts:
            earlier = entries_before_compaction(epoch, interval)
            lines = [line for each in earlier for line in self.lines(listing, each)] + [*lines]
            lines = self._retained_lines(lines)
        self._create(epoch, interval, lines)
        listing[epoch] = entry_name(epoch, interval)
        if compacts and grows and len(lines) > LINES_PER_EPOCH * interval:
            self._grow(epoch, interval, listing)

    def _grow(self, epoch: int, interval: int, listing: dict[int, str]) -> None:
        """Double the interval, if the entries of before can be made to look so."""
        old, older = epoch - interval, epoch - 2 * interval
        if (
            (epoch + 1) % (2 * interval) == 0
            and all(each in listing for each in range(older, epoch))
            and listing[older].endswith(COMPACT)
            and listing[old].endswith(COMPACT)
        ):
            try:
                earlier = {line for each in range(older, old) for line in self.lines(listing, each)}
            except SinkError as exc:
                if isinstance(exc.__cause__, FileNotFoundError):  # pruned by another process
                    return
                raise
            own = [line for line in self.lines(listing, old) if line not in earlier]
            name, data = str(old), "\n".join([HEADER, *own]).encode("utf-8")
            self.storage.create(name, data)  # or it was cut short, and is there
            self._check_in(name, data)
            self.storage.delete(listing[old])
            listing[old] = name
            self._grown = 2 * interval

    def _retained_lines(self, lines: list[str]) -> list[str]:
        if self._retention_ms is None:
            return lines
        before_ms = self._now_s() * 1000 - self._retention_ms
        return [
            line
            for line in lines
            if (found := _MODIFIED.search(line)) is None or int(found.group(1)) >= before_ms
        ]

    def _assert_same(self, listing: dict[int, str], epoch: int, files: Sequence[SinkFile]) -> None:
        """An epoch is committed twice by a restart, with the same files; or, after a rewind, by a
        run that has lost its lease in the very moment of its commit."""
        if epoch not in listing:
            return  # removed since it was compacted
        ours = {file.path for file in files}
        there = {SinkFile.of_line(line).path for line in self.lines(listing, epoch)}
        same = ours <= there if listing[epoch].endswith(COMPACT) else ours == there
        if not same and any(map(_GENERATION.search, ours | there)):
            raise SinkCommitRejectedError(
                f"{self.storage.path(listing[epoch])} holds other files for epoch {epoch} than "
                "this run has written: a run of another generation has committed it.",
                hint="Rewind the query to an epoch before it: python -m engine rewind CHECKPOINT "
                f"--to-epoch {epoch - 1}.",
                epoch=epoch,
            )

    def _create(self, epoch: int, interval: int, lines: Sequence[str]) -> None:
        name, data = entry_name(epoch, interval), "\n".join([HEADER, *lines]).encode("utf-8")
        reach("sinkLog.before")
        # The same may be there: a request that a store has answered too late, or that of a run
        # which was killed, arrives when it likes.
        if not self.storage.create(name, data) and self.storage.read(name) != data:
            raise SinkCommitRejectedError(
                f"{self.storage.path(name)} was written by another query.",
                hint="Two queries must not write to one folder: stop one of them.",
                epoch=epoch,
            )
        reach("sinkLog.after")
        self._check_in(name, data)
        reach("sinkLog.checked")

    def _check_in(self, name: str, data: bytes) -> None:
        if self.storage.has_twins:
            self.storage.replace(checksum_twin(name), checksums(data))

    def _expire(self, epoch: int, interval: int, listing: dict[int, str]) -> None:
        """Delete what the compactions among the retained epochs hold too."""
        needed = needed_from(epoch + 1 - self._retained, epoch, interval)
        before_s = self._now_s() - self._cleanup_delay_s
        unneeded = takewhile(lambda each: each < needed, listing)
        for each in list(takewhile(lambda each: self._is_older(listing[each], before_s), unneeded)):
            self.storage.delete(listing.pop(each))

    def _is_older(self, name: str, before_s: float) -> bool:
        try:
            return self.storage.info(name).modified_s <= before_s
        except FileNotFoundError:  # pruned by another process
            return True

    def expired(self, oldest: int, interval: int) -> list[FileInfo]:
        """The entries that nobody needs who reads the folder as it was at the epoch ``oldest`` or
        later. Those that are too young are not among them.

        The oldest first: removed in this order, what is left is a log at every moment.
        """
        before_s = self._now_s() - self._cleanup_delay_s
        infos = self.storage.list("")
        found = [(each, info) for info in infos if (each := epoch_of(info.name)) is not None]
        found.sort(key=lambda each: each[0])
        needed = needed_from(oldest, found[-1][0], interval) if found else 0
        unneeded = (info for each, info in found if each < needed)
        return list(takewhile(lambda info: info.modified_s <= before_s, unneeded))

    def listing(self) -> dict[int, str]:
        """Epoch → file name, ascending; the compact one if an epoch has both."""
        listing: dict[int, str] = {}
        for info in self.storage.list(""):
            epoch = epoch_of(info.name)
            if epoch is not None and not listing.get(epoch, "").endswith(COMPACT):
                listing[epoch] = info.name
        return dict(sorted(listing.items()))

    def interval(self, listing: dict[int, str]) -> int:
        """Every so many epochs of these there is a compaction."""
        compactions = sorted(each for each, name in listing.items() if name.endswith(COMPACT))
        return interval_of(compactions, self._default_interval)

    def lines(self, listing: dict[int, str], epoch: int) -> list[str]:
        """The files in one entry, a line each.

        :raises SinkError: it is missing.
        """
        name = listing.get(epoch, str(epoch))
        try:
            data = self.storage.read(name)
        except FileNotFoundError as exc:
            raise SinkError(
                f"{self.storage.path(name)} is missing: without it, it is not known which files "
                "of the folder are committed.",
                hint="Restore it, or write to a new folder.",
            ) from exc
        if not fits(data, self._checksums(name, data)):
            raise SinkError(
                f"{self.storage.path(name)} is damaged: its checksums do not fit.",
                hint="Restore it, or write to a new folder.",
            )
        header, *lines = data.decode("utf-8").split("\n")
        if header != HEADER:
            raise SinkError(
                f"{self.storage.path(name)}: the maximum supported log version is v1, but "
                f"encountered {header[:20]}.",
                hint="It was written by a newer version, or is damaged.",
            )
        return [line for line in lines if line]

    def _checksums(self, name: str, data: bytes) -> bytes:
        if not self.storage.has_twins:
            return checksums(data)
        try:
            return self.storage.read(checksum_twin(name))
        except FileNotFoundError:
            return checksums(data)


def last_of(listing: dict[int, str]) -> int:
    """The last epoch of a listing that has any."""
    return next(reversed(listing))


def epoch_of(name: str) -> int | None:
    """``3`` of ``3`` or ``3.compact``; None if it is no entry."""
    number = name.removesuffix(COMPACT)
    return int(number) if number.isascii() and number.isdigit() else None


@contextmanager
def _unknown(epoch: int) -> Iterator[None]:
    try:
        yield
    except CheckpointError as exc:
        raise SinkCommitUnknownError(
            f"The log of the sink's files is not written: {exc.message}",
            hint=exc.hint,
            epoch=epoch,
        ) from exc
