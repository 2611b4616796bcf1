"""The driver's side, as far as it is the same for all such sources.

What a run finds is numbered. A partition gets those units whose key falls to it, in every run: so
when an epoch is run again each partition has just the rows that it had. A task tells the numbers
that it has read, and when an epoch is merged the source makes an offset of them.
"""

from __future__ import annotations

import threading
import zlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final, Generic, TypeVar

from engine.errors import ProtocolError
from engine.sources.contract import DataSourceContinuousReader, HandingOut, Offset
from engine.sources.handed.partition_reader import HandedPartitionReader, OpenUnit
from engine.sources.handed.work import HandedPartition, Unit, Work

PARTITIONS: Final = 4
"""So many, where the user does not say: not as many as there are cores, for a cluster may have
others when an epoch is run again."""
AT_ONCE: Final = 1_000
"""So many units are handed out at most with one message."""
T = TypeVar("T")


class HandedRun(HandingOut, Generic[T]):
    """What one run finds. ``T`` is what the driver knows a unit by.

    :param partitions: of the source.
    """

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._numbers = count()
        self.changed = threading.Condition()
        """Held while anything here is read or written."""
        self.out: dict[int, T] = {}
        """Handed out, and not merged yet."""
        self._is_all = False

    @abstractmethod
    def merge(self, done: Sequence[T]) -> Offset:
        """Where the stream is when these are read as well. Holds :attr:`changed`."""

    def merged(self, offsets: Sequence[Offset]) -> Offset:
        """See ``mergeOffsets``."""
        with self.changed:
            numbers = sorted(
                number for offset in offsets for number in offset["read"] if number in self.out
            )
            offset = self.merge([self.out[number] for number in numbers])
            for number in numbers:
                del self.out[number]
            self.changed.notify_all()
            return offset

    def works(
        self,
        found: Sequence[tuple[T, str, Any]],
        *,
        is_whole: bool = False,
        is_last: bool = False,
    ) -> Mapping[int, Work]:
        """Hand out some units. Holds :attr:`changed`.

        :param found: what each is, its key, and what the executor reads it by.
        :param is_last: told to every partition.
        """
        units: dict[int, list[Unit]] = {}
        for what, key, read_by in found:
            number = next(self._numbers)
            self.out[number] = what
            units.setdefault(partition_of(key, self._partitions), []).append(
                Unit(number, read_by, key)
            )
        told = range(self._partitions) if is_last else sorted(units)
        return {
            index: Work(tuple(units.get(index, ())), is_whole=is_whole, is_last=is_last)
            for index in told
        }

    def told(self, works: Mapping[int, Work] | None, *, is_all: bool) -> Mapping[int, Work] | None:
        """What is handed out, with the word whether that is all; every partition hears when that
        has changed. Holds :attr:`changed`."""
        works = works or {}
        if is_all != self._is_all:
            self._is_all = is_all
            works = {index: works.get(index, Work(())) for index in range(self._partitions)}
        return {index: replace(work, is_all=is_all) for index, work in works.items()} or None


def partition_of(key: str, partitions: int) -> int:
    """Which partition reads the unit of this key."""
    return zlib.crc32(key.encode("utf-8", "surrogateescape")) % partitions


class HandedReader(DataSourceContinuousReader):
    """The source. Its ``handingOut`` makes the run."""

    handsOut = True

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._run: HandedRun[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_run": None}  # the driver's

    @abstractmethod
    def unit_reader(self) -> OpenUnit:
        """On the executor: what reads a unit."""

    def partitions(self, start: Offset) -> Sequence[HandedPartition]:
        return [HandedPartition(index, self._partitions) for index in range(self._partitions)]

    def open(
        self, partition: HandedPartition, until: Offset | None = None
    ) -> HandedPartitionReader:
        return HandedPartitionReader(self.unit_reader())

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        if self._run is None:
            raise ProtocolError("Offsets are merged, and nothing was handed out.")
        return self._run.merged(offsets)
