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

Each entry has Hadoop's checksums beside it, ``.3.crc``, as Spark's own entries have: a line that is
lost would be records that are lost. An entry without them, of a writer that died in between, is
taken as it is.

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
from engine.checkpoint.storage.contract import FileInfo, Storage, checksum_twin
from engine.checkpoint.storage.hadoop_checksum import checksums, fits
from engine.errors import (
    CheckpointError,
    SinkCommitRejectedError,
    SinkCommitUnknownError,
    SinkError,
)

FOLDER: Final = "_spark_metadata"
DEFAULT_INTERVAL: Final = 10
DEFAULT_RETAINED: Final = 100
CLEANUP_DELAY_S: Final = 600.0
HEADER: Final = "v1"
COMPACT: Final = ".compact"
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


# -- which entries there are ----------------------------------------------------------------------


def is_compaction(epoch: int, interval: int) -> bool:
    """Whether the epoch's entry holds everything so far."""
    return (epoch + 1) % interval == 0


def entry_name(epoch: int, interval: int) -> str:
    """``3`` or ``9.compact``."""
    return f"{epoch}{COMPACT}" if is_compaction(epoch, interval) else str(epoch)


def entries_until(epoch: int, interval: int) -> range:
    """The epochs whose entries together hold all files up to ``epoch``, inclusive."""
    return range(max(0, (epoch + 1) // interval * interval - 1), epoch + 1)


def entries_before_compaction(epoch: int, interval: int) -> range:
    """The epochs whose entries together hold all files before a compaction epoch."""
    assert is_compaction(epoch, interval), f"{epoch} is no compaction epoch"
    return range(max(0, epoch - interval), epoch)


def compaction_before(epoch: int, interval: int) -> int:
    """The last compaction epoch before this one; -1 if there is none."""
    return epoch - epoch % interval - 1


def interval_of(compactions: Sequence[int], default: int) -> int:
    """The interval by which an existing log was written, whatever is configured now.

    :param compactions: the compaction epochs that are there, ascending.
    """
    if len(compactions) >= 2:
        return compactions[-1] - compactions[-2]
    return derived_interval(default, compactions[0]) if compactions else default


def derived_interval(default: int, compaction: int) -> int:
    """An interval for which ``compaction`` is a compaction epoch: the default if it can be."""
    epochs = compaction + 1
    if epochs <= default:
        return epochs
    if default < epochs / 2:
        return next(each for each in range(default, epochs + 1) if epochs % each == 0)
    return epochs


# -- the log --------------------------------------------------------------------------------------


class FileSinkLog:
    """The log in one folder.

    :param storage: of the folder ``_spark_metadata`` itself.
    :param interval: for a new log; an existing one keeps its own.
    :param retained: so many newest epochs are readable by a reader that lists the log now.
    :param cleanup_delay_s: younger entries are never deleted.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        interval: int = DEFAULT_INTERVAL,
        retained: int = DEFAULT_RETAINED,
        cleanup_delay_s: float = CLEANUP_DELAY_S,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.storage = storage
        self._default_interval = interval
        self._retained = retained
        self._cleanup_delay_s = cleanup_delay_s
        self._now_s = now_s

    def latest(self) -> int | None:
        """The newest committed epoch, which stays so. Opens no file."""
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
        with _unknown(epoch):
            return self._add(epoch, files)

    def fill(self, until: int) -> None:
        """Give the epochs behind the last one, up to ``until`` inclusive, entries without files.
        Does nothing to an empty log, which may begin with any epoch.

        :raises SinkCommitRejectedError: another query writes to this folder.
        :raises SinkCommitUnknownError: the log cannot be written.
        """
        with _unknown(until):
            self._fill(until)

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
            for each in entries_until(last, self.interval(listing))
            for line in self.lines(listing, each)
        ]

    def _add(self, epoch: int, files: Sequence[SinkFile]) -> bool:
        listing = self.listing()
        interval = self.interval(listing)
        if listing and epoch <= max(listing):
            self.storage.sync("")  # its writer may have died before it was durable
            self._assert_same(listing, epoch, files)
            return False
        # The checkpoint had another folder before. A reader wants every entry since the last
        # compaction, so the earlier epochs are there, without files; some, if this was cut short.
        first = max(listing) + 1 if listing else entries_until(epoch, interval)[0]
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
        self._expire(epoch, interval)
        return True

    def _fill(self, until: int) -> None:
        listing = self.listing()
        interval = self.interval(listing)
        for each in range(max(listing, default=until) + 1, until + 1):
            self._append(each, interval, listing, [])

    def _append(
        self, epoch: int, interval: int, listing: dict[int, str], lines: Sequence[str]
    ) -> None:
        """:param listing: gets the new entry."""
        if listing and is_compaction(epoch, interval):
            earlier = entries_before_compaction(epoch, interval)
            lines = [line for each in earlier for line in self.lines(listing, each)] + [*lines]
        self._create(epoch, interval, lines)
        listing[epoch] = entry_name(epoch, interval)

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
        if not self.storage.create(name, data):
            raise SinkCommitRejectedError(
                f"{self.storage.path(name)} was written by another query.",
                hint="Two queries must not write to one folder: stop one of them.",
                epoch=epoch,
            )
        reach("sinkLog.after")
        self.storage.replace(checksum_twin(name), checksums(data))
        reach("sinkLog.checked")

    def _expire(self, epoch: int, interval: int) -> None:
        """Delete what the compactions among the retained epochs hold too."""
        oldest = epoch + 1 - self._retained
        if oldest >= interval:
            for info in self.expired(oldest, interval):
                self.storage.delete(info.name)

    def expired(self, oldest: int, interval: int) -> list[FileInfo]:
        """The entries that nobody needs who reads the folder as it was at the epoch ``oldest`` or
        later. Those that are too young are not among them.

        The oldest first: removed in this order, what is left is a log at every moment.
        """
        needed = compaction_before(oldest, interval)
        before_s = self._now_s() - self._cleanup_delay_s
        found = [
            (number, info)
            for info in self.storage.list("")
            if (number := epoch_of(info.name)) is not None and number < needed
        ]
        ordered = (info for _, info in sorted(found, key=lambda each: each[0]))
        return list(takewhile(lambda info: info.modified_s <= before_s, ordered))

    def listing(self) -> dict[int, str]:
        """Epoch → file name; the compact one if an epoch has both."""
        listing: dict[int, str] = {}
        for info in self.storage.list(""):
            epoch = epoch_of(info.name)
            if epoch is not None and not listing.get(epoch, "").endswith(COMPACT):
                listing[epoch] = info.name
        return listing

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
        try:
            return self.storage.read(checksum_twin(name))
        except FileNotFoundError:
            return checksums(data)


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
