"""The partitions that a task reads: one, or several in turn.

A task holds a slot of the cluster for as long as the query lives, so partitions that have little to
do share one. All are asked in turn whether they have something, beginning behind the one that had
something last: a busy one cannot keep the others waiting for longer than its own batch. When none
has, one of them is waited for, the next one the next time, until it is time to ask all again. Each
may take a fetch to answer, so word from the driver ends a round between two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

import pyarrow as pa

from engine.errors import BadRecordError, SourceError
from engine.sources.contract import Offset, PartitionReader
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


class TaskInput:
    """The readers of one task.

    :raises SourceError: a partition cannot be opened.
    :ivar partition: the number of the partition that the last batch came from.
    :ivar wait_s: how long a read waits for records.
    """

    def __init__(self, reading: Reading, on_bad_record: Callable[[BadRecordError], None] | None):
        self._readers: list[PartitionReader] = []
        self._numbers = reading.numbers
        self._turn = 0
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
    def partition(self) -> int:
        return self._numbers[self._turn]

    @property
    def offsets(self) -> tuple[Offset, ...]:
        """The position of each partition behind everything that :meth:`read` has returned."""
        return tuple(reader.offset for reader in self._readers)

    @property
    def offset(self) -> Offset:
        """The position of :attr:`partition` alone."""
        return self._readers[self._turn].offset

    @property
    def exhausted(self) -> bool:
        """Whether everything before the end that was given is read."""
        return all(reader.exhausted for reader in self._readers)

    def read(self) -> pa.RecordBatch | None:
        """What whichever partition has that has something; None if nothing came for a while, or the
        driver has sent word."""
        if len(self._readers) == 1:
            return self._readers[0].read(self.wait_s)
        now_s = monotonic()
        if now_s >= self._next_round_s:
            began_s = now_s
            for _ in self._readers:
                if (batch := self._read_next(0.0)) is not None:
                    return batch
                if self._has_word:
                    self._has_word = False
                    return None
            now_s = monotonic()
            pause_s = min(max((now_s - began_s) / _ASKING_SHARE, MARKER_POLL_S), PAUSE_MAX_S)
            self._next_round_s = now_s + pause_s
        batch = self._read_next(min(self.wait_s, self._next_round_s - now_s))
        if batch is not None:
            self._next_round_s = 0.0  # where one has something, others may have
        return batch

    def interrupt(self) -> None:
        """Have a waiting :meth:`read` return. From any thread."""
        self._has_word = True
        for reader in self._readers:
            reader.interrupt()

    def _read_next(self, timeout_s: float) -> pa.RecordBatch | None:
        self._turn = (self._turn + 1) % len(self._readers)
        return self._readers[self._turn].read(timeout_s)

    def close(self) -> None:
        """Close all readers, each whatever the others do.

        :raises SourceError: the last one that could not be closed.
        """
        failure: Exception | None = None
        for number, reader in zip(self._numbers, self._readers, strict=False):
            try:
                with blaming(SourceError, "closing the source", (number,)):
                    reader.close()
            except Exception as exc:
                failure = exc
        if failure is not None:
            raise failure
