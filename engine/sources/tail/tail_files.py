"""The files behind a ``tail`` stream: finding what is new, and reading it line by line."""

from __future__ import annotations

import time
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event
from typing import Final

import pyarrow as pa

from engine.errors import BadRecordError
from engine.redaction.logs import shown
from engine.sources.contract import Offset, PartitionReader
from engine.sources.line_formats import BadLineError, LineFormat
from engine.sources.tail.watched_folder import CHUNK_BYTES, Folder

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

    def partition_of(self, name: str) -> int:
        """Which partition reads a file: stable, whatever else is in the folder."""
        return zlib.crc32(name.encode()) % self.partitions

    def part(self, offsets: Mapping[str, int], index: int) -> dict[str, int]:
        """The part of an offset that belongs to one partition."""
        return {
            name: position for name, position in offsets.items() if self.partition_of(name) == index
        }


class TailPartitionReader(PartitionReader):
    """The executor's side.

    Files that are there at the start are read in the order of their names, later ones as they
    come. What a look at the folder has found is read before the next look, so a file that grows
    fast does not keep the others waiting.
    """

    def __init__(
        self,
        folder: TailFolder,
        index: int,
        offsets: Mapping[str, int],
        until: Mapping[str, int] | None,
    ) -> None:
        self._folder = folder
        self._index = index
        self._position = dict(offsets)  # next byte of each file
        self._sizes: Mapping[str, int] = {}  # at the last look
        self._pending: deque[str] = deque()  # files with bytes that were not looked at
        self._bounded = until is not None
        self._is_mine: dict[str, bool] = {}
        self._next_look_s = 0.0
        self._throttle = _Throttle(folder.rows_per_second_max, folder.partitions)
        self._closed = Event()
        if until is not None:
            folder.check(until)
            self._sizes = until
            self._pending.extend(
                name for name in sorted(until) if until[name] > self._position.get(name, 0)
            )

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        deadline = time.monotonic() + timeout_s
        while True:
            wait_s = self._throttle.wait_s()
            if wait_s == 0:
                if (batch := self._read_pending()) is not None:
                    self._throttle.spend(batch.num_rows)
                    return batch
                if self._bounded:
                    return None
                wait_s = self._next_look_s - time.monotonic()
                if wait_s <= 0:
                    self._look()
                    continue
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            self._closed.wait(min(wait_s, left_s))

    def _look(self) -> None:
        """Find the files of this partition that are new or have grown."""
        began = time.monotonic()
        before, self._sizes = self._sizes, self._folder.sizes(self._mine)
        self._folder.check(self._position, self._sizes)
        self._pending.extend(
            sorted(
                name
                for name, size in self._sizes.items()
                if size > max(before.get(name, 0), self._position.get(name, 0))
            )
        )
        now = time.monotonic()
        pause_s = max(self._folder.poll_interval_s, (now - began) / _POLL_SHARE)
        self._next_look_s = now + pause_s

    def _mine(self, name: str) -> bool:
        known = self._is_mine.get(name)
        if known is None:
            folder = self._folder
            known = folder.accepts(name) and folder.partition_of(name) == self._index
            self._is_mine[name] = known
        return known

    def _read_pending(self) -> pa.RecordBatch | None:
        while self._pending:
            name = self._pending[0]
            block = self._whole_lines(name)
            if not block:
                self._pending.popleft()
                continue
            block = self._throttle.cut(block)
            start = self._position.get(name, 0)
            batch, bad_lines = self._folder.lines.parse(block, at_start=start == 0)
            for error in bad_lines:
                self._refuse_line(name, start, error)
            self._position[name] = start + len(block)
            if self._position[name] >= self._sizes[name]:
                self._pending.popleft()
            if batch.num_rows:
                return batch
        return None

    def _whole_lines(self, name: str) -> bytes:
        """The next lines of a file, as of the last look at it; empty if no line is complete."""
        start = self._position.get(name, 0)
        count = CHUNK_BYTES
        while True:
            there = self._sizes[name] - start
            try:
                block = self._folder.read(name, start, min(count, there))
            except FileNotFoundError:
                if start:
                    self._folder.refuse(name, start, None)
                return b""  # it came and went
            end = block.rfind(b"\n") + 1
            if end or count >= there:
                return block[:end]
            if count >= LINE_BYTES_MAX:
                too_long = BadLineError(0, block, f"it is longer than {count} bytes")
                raise self._bad_record(name, start, too_long)
            count *= 2

    def _refuse_line(self, name: str, start: int, error: BadLineError) -> None:
        bad = self._bad_record(name, start, error)
        if self.on_bad_record is None:
            raise bad
        self.on_bad_record(bad)

    def _bad_record(self, name: str, start: int, error: BadLineError) -> BadRecordError:
        record = error.line.decode("utf-8", "backslashreplace")
        begin = start + error.position
        return BadRecordError(
            f"{self._folder.path / name}, byte {begin}: the line cannot be read: "
            f"{shown(error.reason.rstrip('.'))}. The line is: {shown(record)}",
            hint='Correct the line, or the schema, or set option onBadRecord to "skip" or '
            '"dead-letter".',
            partition=self._index,
            record=record,
            offset={name: begin + len(error.line) + 1},
        )

    @property
    def offset(self) -> Offset:
        return dict(self._position)

    @property
    def exhausted(self) -> bool:
        return self._bounded and not self._pending

    def close(self) -> None:
        self._closed.set()


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
