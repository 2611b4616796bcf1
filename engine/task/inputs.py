"""The partitions that a task reads: one, or several in turn.

A task holds a slot of the cluster for as long as the query lives, so partitions that have little to
do share one. A source may read them together, over one connection. Else all are asked in turn
whether they have something, beginning behind the one that had something last: a busy one cannot
keep the others waiting for longer than its own batch. When none has, one of them is waited for, the
next one the next time, until it is time to ask all again. Each may take a fetch to answer, so word
from the driver ends a round between two of them.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from time import monotonic
from typing import Any, Final, TypeAlias

import pyarrow as pa

from engine.errors import BadRecordError, ProtocolError, SourceError
from engine.sources.contract import Offset, PartitionReader, PartitionsReader
from engine.task.blame import blaming, undoing
from engine.task.spec import Reading

MARKER_POLL_S: Final = 0.005
"""An idle reader waits so long between two looks at what the driver has said."""
INTERRUPTED_POLL_S: Final = 1.0
"""The same for a reader that word from the driver interrupts."""
PAUSE_MAX_S: Final = 0.02
"""Of several idle partitions each is asked so often, whatever that costs."""
_ASKING_SHARE: Final = 0.05
"""Otherwise asking may take this share of a core."""


OnBadRecord: TypeAlias = Callable[[BadRecordError], None] | None


class Behind(enum.Enum):
    """What a partition that has not caught up is known by, see :class:`PartitionReader`."""

    TIME = enum.auto()
    """Its newest event time tells how far it has come."""
    TIME_IF_ANY = enum.auto()
    """So it does; as long as there is none, it may well have caught up."""
    NOTHING = enum.auto()
    """It is not in order."""
    NEWS = enum.auto()
    """It had caught up, and what it has was not there when the epoch began, or was told then: what
    the task had read by then tells how far it has come, too."""


class TaskInput(ABC):
    """What one task reads.

    :ivar wait_s: how long a read waits for records.
    :ivar has_released: whether one has caught up in the epoch that was :meth:`behind` at the end of
        the one before.
    """

    wait_s = MARKER_POLL_S

    def __init__(self, reading: Reading) -> None:
        self._numbers = reading.numbers
        self._turn = 0
        self._caught_up: set[int] = set()
        """The places of those that have, at some time of the epoch..."""
        self._behind = dict.fromkeys(range(len(reading.numbers)), Behind.TIME)
        """... and of those that had not when they were read last, or were not read yet."""
        self._held: set[int] | None = None
        """Those that were so at the end of the epoch before."""
        self._has_rested = False
        """Whether there has been nothing to read since the last batch of the epoch."""
        self.has_released = False

    def begin_epoch(self) -> None:
        """From now on, :meth:`behind` is of another epoch."""
        self._caught_up.clear()
        self._held = set() if self._held is None else set(self._behind)
        self._has_rested = self.has_released = False

    def behind(self) -> dict[int, Behind]:
        """At the end of an epoch: the numbers of the partitions that have not caught up at any time
        of it, or have something again that a task without a rest may be long in coming to."""
        found = {self._numbers[place]: known_by for place, known_by in self._behind.items()}
        if not self._has_rested:
            others = [at for at in range(len(self._numbers)) if at not in self._behind]
            for place in self._having_more(others):
                self._behind[place] = Behind.TIME
                found[self._numbers[place]] = Behind.NEWS
        return found

    @abstractmethod
    def _having_more(self, places: Sequence[int]) -> Collection[int]:
        """Those of these places that have something, as far as they know."""

    def _note(
        self, place: int, caught_up: bool, known_by: Behind, *, in_epoch: bool = True
    ) -> None:
        """What a read has shown of a partition.

        :param in_epoch: else it may have caught up in an earlier epoch.
        """
        if caught_up:
            if in_epoch:
                self._caught_up.add(place)
            self._behind.pop(place, None)
            if self._held and place in self._held:
                self.has_released = True
        elif place not in self._caught_up:
            self._behind[place] = known_by

    @property
    def partition(self) -> int:
        """The number of the partition that the last batch came from."""
        return self._numbers[self._turn]

    @property
    @abstractmethod
    def offsets(self) -> tuple[Offset, ...]:
        """The position of each partition behind everything that :meth:`read` has returned."""

    @property
    def offset(self) -> Offset:
        """The position of :attr:`partition` alone."""
        return self.offsets[self._turn]

    @property
    @abstractmethod
    def exhausted(self) -> bool:
        """Whether everything before the end that was given is read."""

    @property
    def midway(self) -> bool:
        """Whether an epoch cannot end here: an offset is ahead of what :meth:`read` returned."""
        return False

    @abstractmethod
    def read(self) -> pa.RecordBatch | None:
        """What whichever partition has that has something; None if nothing came for a while, or the
        driver has sent word."""

    def read_on(self) -> pa.RecordBatch | None:
        """As :meth:`read`, but only what makes the input :attr:`midway`."""
        return self.read()

    def committed(self, offsets: Sequence[Offset]) -> None:  # noqa: B027
        """Everything before these earlier :attr:`offsets` is in the commit log.

        :raises SourceError: a partition's source failed to take it.
        """

    @abstractmethod
    def take(self, work: Mapping[int, Any]) -> None:
        """Read what was handed out, by the number of a partition. From any thread."""

    @abstractmethod
    def interrupt(self) -> None:
        """Have a waiting :meth:`read` return. From any thread."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held.

        :raises SourceError: that failed.
        """


def open_input(reading: Reading, on_bad_record: OnBadRecord) -> TaskInput:
    """Open the partitions of a task.

    :raises SourceError: one cannot be opened.
    """
    with blaming(SourceError, "opening the source", reading.numbers):
        together = reading.reader.openTogether(reading.partitions, reading.until)
    if together is None:
        return _InTurn(reading, on_bad_record)
    together.on_bad_record = on_bad_record
    return _Together(reading, together)


class _Together(TaskInput):
    def __init__(self, reading: Reading, reader: PartitionsReader) -> None:
        super().__init__(reading)
        self._reader = reader
        self._is_read = False
        if reader.interruptible:
            self.wait_s = INTERRUPTED_POLL_S

    @property
    def offsets(self) -> tuple[Offset, ...]:
        return tuple(self._reader.offsets)

    @property
    def exhausted(self) -> bool:
        return self._reader.exhausted

    def read(self) -> pa.RecordBatch | None:
        found = self._reader.read(self.wait_s)
        caught_up = self._reader.caught_up
        if caught_up is None:
            caught_up = range(len(self._numbers)) if found is None else ()
            known_by = Behind.TIME_IF_ANY
            if not self._is_read:  # nor of those that have nothing
                self._behind = dict.fromkeys(self._behind, known_by)
            self._is_read = True
        else:
            known_by = Behind.TIME
        if len(self._caught_up) < len(self._numbers):
            for place in caught_up:
                self._note(place, True, known_by, in_epoch=found is None)
        self._has_rested = found is None
        if found is None:
            return None
        self._turn, batch = found
        self._note(self._turn, self._turn in caught_up, known_by)
        return batch

    def _having_more(self, places: Sequence[int]) -> Collection[int]:
        with blaming(SourceError, "reading the source", self._numbers):
            return self._reader.having_more(places)

    def take(self, work: Mapping[int, Any]) -> None:
        raise ProtocolError(f"{type(self._reader).__name__} was handed work.")

    def interrupt(self) -> None:
        self._reader.interrupt()

    def close(self) -> None:
        with blaming(SourceError, "closing the source", self._numbers):
            self._reader.close()


class _InTurn(TaskInput):
    def __init__(self, reading: Reading, on_bad_record: OnBadRecord) -> None:
        super().__init__(reading)
        self._readers: list[PartitionReader] = []
        self._next_round_s = 0.0
        self._has_word = False
        with undoing(self.close, "closing the source"):
            for number, partition in zip(self._numbers, reading.partitions, strict=True):
                with blaming(SourceError, "opening the source", (number,)):
                    reader = reading.reader.open(partition, reading.until)
                    reader.on_bad_record = on_bad_record
                self._readers.append(reader)
        # Of several, only one is waited for at a time: word from the driver may miss it.
        alone = len(self._readers) == 1 and self._readers[0].interruptible
        self.wait_s = INTERRUPTED_POLL_S if alone else MARKER_POLL_S

    @property
    def offsets(self) -> tuple[Offset, ...]:
        return tuple(reader.offset for reader in self._readers)

    @property
    def offset(self) -> Offset:
        return self._readers[self._turn].offset

    @property
    def exhausted(self) -> bool:
        return all(reader.exhausted for reader in self._readers)

    def read(self) -> pa.RecordBatch | None:
        if len(self._readers) == 1:
            batch = self._read(self.wait_s)
            self._has_rested = batch is None
            return batch
        now_s = monotonic()
        if now_s >= self._next_round_s:
            began_s = now_s
            for _ in self._readers:
                if (batch := self._read_next(0.0)) is not None:
                    return batch
                if self._has_word:
                    self._has_word = False
                    return None
            self._has_rested = True
            now_s = monotonic()
            pause_s = min(max((now_s - began_s) / _ASKING_SHARE, MARKER_POLL_S), PAUSE_MAX_S)
            self._next_round_s = now_s + pause_s
        batch = self._read_next(min(self.wait_s, self._next_round_s - now_s))
        if batch is not None:
            self._next_round_s = 0.0  # where one has something, others may have
        return batch

    @property
    def midway(self) -> bool:
        return any(reader.midway for reader in self._readers)

    def read_on(self) -> pa.RecordBatch | None:
        self._turn = next(at for at, reader in enumerate(self._readers) if reader.midway)
        return self._read(self.wait_s)

    def committed(self, offsets: Sequence[Offset]) -> None:
        for number, reader, offset in zip(self._numbers, self._readers, offsets, strict=True):
            with blaming(SourceError, "the source's commit", (number,)):
                reader.committed(offset)

    def take(self, work: Mapping[int, Any]) -> None:
        for number, part in work.items():
            self._readers[number - self._numbers[0]].take(part)

    def interrupt(self) -> None:
        self._has_word = True
        for reader in self._readers:
            reader.interrupt()

    def _read_next(self, timeout_s: float) -> pa.RecordBatch | None:
        self._turn = (self._turn + 1) % len(self._readers)
        return self._read(timeout_s)

    def _read(self, timeout_s: float) -> pa.RecordBatch | None:
        reader = self._readers[self._turn]
        batch = reader.read(timeout_s)
        if (caught_up := reader.caught_up) is None:
            self._note(self._turn, batch is None, Behind.TIME_IF_ANY)
        else:
            known_by = Behind.TIME if reader.in_order else Behind.NOTHING
            self._note(self._turn, caught_up, known_by)
        if batch is not None:
            self._has_rested = False
        return batch

    def _having_more(self, places: Sequence[int]) -> Collection[int]:
        with blaming(SourceError, "reading the source", self._numbers):
            return [place for place in places if self._readers[place].has_more]

    def close(self) -> None:
        failure: Exception | None = None
        for number, reader in zip(self._numbers, self._readers, strict=False):
            try:
                with blaming(SourceError, "closing the source", (number,)):
                    reader.close()
            except Exception as exc:
                failure = exc  # the others are closed all the same
        if failure is not None:
            raise failure
