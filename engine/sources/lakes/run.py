"""Follows a table from a position on, and hands out its files."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from engine.sources.contract import Offset
from engine.sources.handed.reader import AT_ONCE, HandedRun
from engine.sources.handed.work import Work
from engine.sources.lakes.position import At, TablePosition


class Pace(NamedTuple):
    """
    :param poll_s: the table is looked at so often.
    :param files_max: of an epoch; None: no limit.
    """

    partitions: int
    poll_s: float
    files_max: int | None


class Found(NamedTuple):
    """What is to be read of a version, or of the table as of it.

    :param units: one for each file, always in the same order.
    """

    version: int
    units: Sequence[Any]


class TableRun(HandedRun[At]):
    """See the module.

    :param until: read nothing behind it; None to go on.
    """

    def __init__(self, pace: Pace, start: TablePosition, until: TablePosition | None) -> None:
        super().__init__(pace.partitions)
        self._pace, self._start, self._until = pace, start, until
        self._ahead = set(start.ahead)
        """What is read, and not all before it."""
        self._waiting: deque[tuple[At, str, Any]] = deque()
        self._open: set[At] = set()
        """What is found and not merged."""
        self._after = {} if start.after is None else {start.at[0]: start.after}
        """Of versions that are found, those before them, where that is not the number before."""
        self._is_snapshot, self._found = start.is_snapshot, start.at
        """How far the table was followed: everything before it was found."""
        self._told_last = self._has_all = False
        self._next_look_s = 0.0

    @abstractmethod
    def find_snapshot(self, version: int) -> Found:
        """All files of the table as of a version."""

    @abstractmethod
    def find_version(self, number: int) -> Found | None:
        """The files of a version, or of the next one there is; None if there is none yet."""

    # -- handing out ----------------------------------------------------------------------------

    def next(self, timeout_s: float) -> Mapping[int, Work] | None:
        with self.changed:
            may_look = len(self._waiting) < AT_ONCE and monotonic() >= self._next_look_s
            at, is_snapshot = self._found, self._is_snapshot
            is_over = self._until is not None and at >= self._end
        found = None
        if may_look and not is_over:
            found = self.find_snapshot(at[0]) if is_snapshot else self.find_version(at[0])
        with self.changed:
            if found is not None:
                self._take(found, at[0])
                self._has_all = False
            elif may_look:
                self._has_all = True
                self._next_look_s = monotonic() + self._pace.poll_s
            works = self.told(self._works(is_over), is_all=self._has_all and not self._waiting)
            if works is None and found is None:
                self.changed.wait(timeout_s if is_over else min(timeout_s, self._pace.poll_s))
            return works

    @property
    def _end(self) -> At:
        """Behind all that is to be read again."""
        assert self._until is not None
        return max([self._until.at, *((v, i + 1) for v, i in self._until.ahead)])

    def _works(self, is_over: bool) -> Mapping[int, Work] | None:
        files_max = self._pace.files_max if self._until is None else None
        left = AT_ONCE if files_max is None else files_max - len(self.out)
        chosen: list[tuple[At, str, Any]] = []
        while self._waiting and len(chosen) < min(left, AT_ONCE):
            chosen.append(self._waiting.popleft())
        is_last = is_over and not self._waiting and not self._told_last
        if not chosen and not is_last:
            return None
        self._told_last = self._told_last or is_last
        return self.works(
            [(at, key, unit) for at, key, unit in chosen],
            is_whole=self._until is not None,
            is_last=is_last,
        )

    def _take(self, found: Found, number: int) -> None:
        """:param number: behind the last version that was found."""
        version = found.version
        if version > number:
            self._after[version] = self._after.get(number, number - 1)
        for index, unit in enumerate(found.units):
            at = version, index
            is_due = self._until is None or self._until.has(at)
            if self._start.has(at) or not is_due:
                continue
            self._open.add(at)
            self._waiting.append((at, f"{version}:{index}", unit))
        self._found, self._is_snapshot = (version + 1, 0), False

    # -- merging --------------------------------------------------------------------------------

    def merge(self, done: Sequence[At]) -> Offset:
        self._open.difference_update(done)
        self._ahead.update(done)
        if self._until is not None:
            return self._until.offset()
        at = min(self._open, default=self._found)
        is_snapshot = self._start.is_snapshot and at[0] == self._start.at[0]
        self._ahead = {each for each in self._ahead if each >= at}
        self._after = {version: each for version, each in self._after.items() if version >= at[0]}
        return TablePosition(
            self._start.table, at, is_snapshot, frozenset(self._ahead), self._after.get(at[0])
        ).offset()
