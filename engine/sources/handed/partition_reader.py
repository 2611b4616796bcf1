"""The executor's side: reads the units that it was handed, one after the other.

Its offset is what it has read and does not know to be committed: ``{"read":[3,5],"file":"..."}``.
The numbers are the driver's, of this run, which knows what they stand for. An epoch has whole
units: a large one makes it longer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, TypeAlias

import pyarrow as pa

from engine.errors import BadRecordError
from engine.sources.contract import Offset, PartitionReader
from engine.sources.handed.work import Unit, Work

Content: TypeAlias = pa.RecordBatch | BadRecordError
OpenUnit: TypeAlias = Callable[[Any], Iterator[Content]]
"""Reads one unit: its batches, perhaps without rows, and its bad records."""


class HandedPartitionReader(PartitionReader):
    """Reads one partition.

    :param open_unit: see :data:`OpenUnit`; gets :attr:`Unit.what`.
    """

    interruptible = True

    def __init__(self, open_unit: OpenUnit) -> None:
        self._open_unit = open_unit
        self._read: list[int] = []
        self._name = ""
        self._unit: Unit | None = None
        self._content: Iterator[Content] = iter(())
        self._next: pa.RecordBatch | None = None
        # The rest is shared with the thread that hears the driver.
        self._changed = threading.Condition()
        self._units: deque[Unit] = deque()
        self._whole: set[int] = set()
        self._has_all = self._has_last = self._interrupted = False

    def take(self, work: Work) -> None:
        with self._changed:
            self._units.extend(work.units)
            if work.is_whole:
                self._whole.update(unit.number for unit in work.units)
            self._has_last = self._has_last or work.is_last
            self._has_all = work.is_all
            self._changed.notify_all()

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def read(self, timeout_s: float) -> pa.RecordBatch | None:
        if self._unit is None and not self._begin(timeout_s):
            return None
        found = self._next
        # One ahead: with its last batch a unit is read, and an epoch may end.
        self._next = self._batch()
        if found is None:
            found, self._next = self._next, self._batch()
        return found

    def _begin(self, timeout_s: float) -> bool:
        """Begin the next unit, if one comes in time."""
        deadline_s = monotonic() + timeout_s
        with self._changed:
            self._changed.wait_for(
                lambda: bool(self._units) or self._interrupted or self._has_last,
                max(0.0, deadline_s - monotonic()),
            )
            self._interrupted = False
            if not self._units:
                return False
            self._unit = self._units.popleft()
        self._name = self._unit.name
        self._content = iter(self._open_unit(self._unit.what))
        return True

    def _batch(self) -> pa.RecordBatch | None:
        """The next one that has rows; with None the unit is read."""
        if self._unit is None:
            return None
        for content in self._content:
            if isinstance(content, BadRecordError):
                if self.on_bad_record is None:
                    raise content
                self.on_bad_record(content)
            elif content.num_rows:
                return content
        self._read.append(self._unit.number)
        with self._changed:
            self._whole.discard(self._unit.number)
        self._unit = None
        return None

    @property
    def offset(self) -> Offset:
        return {"read": list(self._read), "file": self._name}

    @property
    def midway(self) -> bool:
        return self._unit is not None or self._next is not None or bool(self._whole)

    @property
    def caught_up(self) -> bool:
        return self._has_all and not self._units and not self.midway

    @property
    def exhausted(self) -> bool:
        return self._has_last and not self._units and not self.midway

    def committed(self, end: Offset) -> None:
        done = set(end["read"])
        self._read = [number for number in self._read if number not in done]

    def close(self) -> None:
        close = getattr(self._content, "close", None)
        if close is not None:
            close()
