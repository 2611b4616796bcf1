"""The files behind a ``tail`` stream: finding what is new, and reading it line by line."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Final

import pyarrow as pa

from engine.errors import BadRecordError
from engine.redaction.logs import shown
from engine.sources.contract import Offset, PartitionReader
from engine.sources.line_formats import BadLineError, LineFormat
from engine.sources.tail.known_files import KnownFiles
from engine.sources.tail.tail_offset import (
    FilePosition,
    digest_at,
    matching,
    offset_of,
    partition_of,
    shown_name,
)
from engine.sources.tail.watched_folder import CHUNK_BYTES, Folder, OtherFileError, SeenFile

LINE_BYTES_MAX: Final = 256 << 20
_POLL_SHARE: Final = 0.05
"""Looking for news may take this share of a core: large folders are looked at less often."""
_BURST_S: Final = 0.1
"""A throttled partition that was late may catch up for so long."""


@dataclass(frozen=True)
class TailFolder(Folder):
    """What is read, and how. Picklable.

    :param rows_per_second_max: of all partitions together.
    """

    lines: LineFormat
    partitions: int
    poll_interval_s: float
    rows_per_second_max: int | None = None

    def part(self, files: Iterable[FilePosition], index: int) -> list[FilePosition]:
        """Those of the files that belong to one partition."""
        return [each for each in files if self._partition_of(each) == index]

    def _partition_of(self, file: FilePosition) -> int:
        if file.inode is None and (seen := self.file(file.name)) is not None:
            return partition_of(seen.inode, self.partitions)
        return partition_of(file.inode or 0, self.partitions)


class TailPartitionReader(PartitionReader):
    """The executor's side.

    Files that are there at the start are read in the order of their names, later ones as they
    come, and rotated ones before the file that has their name now. What a look at the folder has
    found is read before the next look, so a file that grows fast does not keep the others waiting.

    :param until: the end of each file; None: there is none.
    :param holders: what the driver has seen under the stream's names.
    """

    interruptible = True

    def __init__(
        self,
        folder: TailFolder,
        index: int,
        start: Sequence[FilePosition],
        until: Sequence[FilePosition] | None,
        holders: Sequence[SeenFile] = (),
    ) -> None:
        self._folder = folder
        self._index = index
        self._until = until
        is_mine = self._is_mine if folder.partitions > 1 else None
        self._known = KnownFiles(folder, [replace(each) for each in start], is_mine, holders)
        self._pending: deque[FilePosition] = deque()  # files with bytes that were not looked at
        self._ends: dict[int, int] = {}  # inode → as far as is read before the next look
        self._next_look_s = 0.0
        self._has_several = False  # files to read, by the last look
        self._throttle = _Throttle(folder.rows_per_second_max, folder.partitions)
        self._woken = Event()
        if until is not None:
            self._known.look()
            self._plan(start, until)

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        deadline = time.monotonic() + timeout_s
        while True:
            wait_s = self._throttle.wait_s()
            if wait_s == 0:
                if (batch := self._read_pending()) is not None:
                    self._throttle.spend(batch.num_rows)
                    return batch
                if self._until is not None:
                    return None
                wait_s = self._next_look_s - time.monotonic()
                if wait_s <= 0:
                    self._look()
                    continue
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            if self._woken.wait(min(wait_s, left_s)):
                self._woken.clear()
                return None

    def _look(self) -> None:
        """Find the files of this partition that are new or have grown."""
        began = time.monotonic()
        news = self._known.look()
        self._pending.extend(news)
        self._has_several = len(self._pending) > 1
        self._ends = {each.inode or 0: self._known.size(each) for each in news}
        now = time.monotonic()
        pause_s = max(self._folder.poll_interval_s, (now - began) / _POLL_SHARE)
        self._next_look_s = now + pause_s

    def _plan(self, start: Sequence[FilePosition], until: Sequence[FilePosition]) -> None:
        """What is between two offsets.

        :raises OffsetOutOfRangeError: some of it is gone.
        """
        for end in sorted(until, key=lambda each: each.name):
            begin = matching(end, start)
            if begin is not None and begin.position == end.position:
                continue
            file = self._known.find(end)
            if file is None or file.position > end.position:
                raise self._known.lost(file or begin or FilePosition(end.name))
            if file.position < end.position:
                self._ends[file.inode or 0] = end.position
                self._pending.append(file)

    def _is_mine(self, inode: int) -> bool:
        return partition_of(inode, self._folder.partitions) == self._index

    def _read_pending(self) -> pa.RecordBatch | None:
        while self._pending:
            file = self._pending[0]
            block = self._whole_lines(file)
            if not block:
                self._pending.popleft()
                continue
            block = self._throttle.cut(block)
            start = file.position
            batch, bad_lines = self._folder.lines.parse(block, at_start=start == 0)
            for error in bad_lines:
                self._refuse_line(file, error)
            self._known.advance(file, block)
            if file.position >= self._ends[file.inode or 0]:
                self._pending.popleft()
            if batch.num_rows:
                return batch
        return None

    def _whole_lines(self, file: FilePosition) -> bytes:
        """The next lines of a file, as of the last look at it; empty if no line is complete."""
        try:
            with self._folder.open(file.name, file.inode) as read:
                if file.position and digest_at(read, file.position) != file.digest:
                    return self._without(file, self._known.changed)
                return self._lines(file, read)
        except OtherFileError:
            return self._without(file, self._find_again)

    def _lines(self, file: FilePosition, read: Callable[[int, int], bytes]) -> bytes:
        count = CHUNK_BYTES
        while True:
            there = self._ends[file.inode or 0] - file.position
            block = read(file.position, min(count, there))
            end = block.rfind(b"\n") + 1
            if end or count >= there:
                return block[:end]
            if count >= LINE_BYTES_MAX:
                too_long = BadLineError(0, block, f"it is longer than {count} bytes")
                raise self._bad_record(file, too_long)
            count *= 2

    def _without(self, file: FilePosition, act: Callable[[FilePosition], None]) -> bytes:
        if self._until is not None:
            raise self._known.lost(file)
        act(file)
        return b""

    def _find_again(self, file: FilePosition) -> None:
        """Its name is another file's by now, or nobody's.

        :raises OffsetOutOfRangeError: it was removed before it was read.
        """
        self._known.look()
        if self._known.find(file) is not file:
            raise self._known.lost(file)
        self._known.forget_sizes()
        self._next_look_s = 0.0

    def _refuse_line(self, file: FilePosition, error: BadLineError) -> None:
        bad = self._bad_record(file, error)
        if self.on_bad_record is None:
            raise bad
        self.on_bad_record(bad)

    def _bad_record(self, file: FilePosition, error: BadLineError) -> BadRecordError:
        record = error.line.decode("utf-8", "backslashreplace")
        begin = file.position + error.position
        return BadRecordError(
            f"{self._folder.shown(file.name)}, byte {begin}: the line cannot be read: "
            f"{shown(error.reason.rstrip('.'))}. The line is: {shown(record)}",
            hint='Correct the line, or the schema, or set option onBadRecord to "skip" or '
            '"dead-letter".',
            partition=self._index,
            record=record,
            offset={shown_name(file.name): begin + len(error.line) + 1},
        )

    @property
    def offset(self) -> Offset:
        if self._until is not None and not self._pending:
            return offset_of(self._until)
        return self._known.offset

    @property
    def caught_up(self) -> bool:
        return not self._pending

    @property
    def has_more(self) -> bool:
        if not self._pending and self._until is None and time.monotonic() >= self._next_look_s:
            self._look()
        return bool(self._pending)

    @property
    def in_order(self) -> bool:
        return not self._has_several

    @property
    def exhausted(self) -> bool:
        return self._until is not None and not self._pending

    def interrupt(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._woken.set()


class _Throttle:
    """Spreads rows evenly over time: a row may be read when its turn has come."""

    def __init__(self, rows_per_second_max: int | None, partitions: int) -> None:
        self._period_s = partitions / rows_per_second_max if rows_per_second_max else 0.0
        self._next_s = time.monotonic()

    def wait_s(self) -> float:
        """Seconds until a row may be read; 0 if now."""
        return max(0.0, self._next_s - time.monotonic()) if self._period_s else 0.0

    def cut(self, block: bytes) -> bytes:
        """As many lines of the block as may be read now."""
        if not self._period_s:
            return block
        # Unused turns are lost: the rate is a maximum, and holds after a pause too.
        self._next_s = max(self._next_s, time.monotonic() - _BURST_S)
        turns = int((time.monotonic() - self._next_s) / self._period_s) + 1
        lines = block.split(b"\n", turns)
        return block[: len(block) - len(lines[-1])] if len(lines) > turns else block

    def spend(self, rows: int) -> None:
        """So many rows were read."""
        self._next_s += rows * self._period_s
