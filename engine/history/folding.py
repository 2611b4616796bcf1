"""A history: measures at falling resolution, and marks. Pure: no clock, no input, no output.

::

    now      5 min      1 h      12 h                                       7 days
    | 1 s    | 10 s     | 1 min  | 10 min                                   | gone

Every epoch is in exactly one point. A point that has grown too old goes into the next coarser one,
once all that belong there have: so points do not overlap, and what is added up is the same at every
resolution. Ages are counted from the newest epoch, forward as well as back: a clock that was set
back leaves points in its future, which are folded alike.

What is older than all is forgotten once there is half as much that is not: of epochs whose clock
was wrong for a while, by years even, those go, and not the week before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from engine.history.measures import Measures


class Resolution(NamedTuple):
    """Points of one length, up to an age; both in milliseconds."""

    length_ms: int
    age_ms: int


_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
RESOLUTIONS: Final = (
    Resolution(1_000, 5 * _MINUTE),
    Resolution(10_000, _HOUR),
    Resolution(_MINUTE, 12 * _HOUR),
    Resolution(10 * _MINUTE, 7 * _DAY),
)
_FINER_FIRST: Final = 8
"""So often the finer points alone are narrowed: they are down to a tenth by then."""
MARKS_MAX: Final = 100
"""The newest are kept; how often a query was restarted is counted by the points, too."""


@dataclass
class Point:
    """What was measured from ``start_ms`` until ``length_ms`` later, exclusive."""

    start_ms: int
    length_ms: int
    measures: Measures
    line: str | None = None
    """How it is stored; None: it has changed since."""

    @property
    def end_ms(self) -> int:
        """Exclusive."""
        return self.start_ms + self.length_ms


@dataclass(frozen=True)
class Mark:
    """Something that happened to the query.

    :param at_ms: when; milliseconds since 1970.
    :param kind: ``started``, ``restarted``, ``reconfigured``, ``rewound``, ``stopped`` or
        ``failed``.
    :param reason: why, in words; without secrets.
    """

    at_ms: int
    kind: str
    reason: str


class History:
    """See the module. Not safe to use from several threads."""

    def __init__(self) -> None:
        self.marks: deque[Mark] = deque(maxlen=MARKS_MAX)
        self._ages_ms = [each.age_ms for each in RESOLUTIONS]
        self._points: list[dict[int, Point]] = [{} for _ in RESOLUTIONS]
        self._folded: list[int | None] = [None] * len(RESOLUTIONS)
        self._narrowed = 0

    def add(self, measures: Measures) -> None:
        """Take up what was measured, at its time."""
        self._put(0, measures.at_ms, measures)
        self.fold(measures.at_ms)

    def points(self) -> Iterator[Point]:
        """The points, oldest first. They stay this object's own."""
        points = [point for points in self._points for point in points.values()]
        return iter(sorted(points, key=_start_ms))

    def by_resolution(self) -> list[list[Point]]:
        """The same, the finest first."""
        return [sorted(points.values(), key=_start_ms) for points in self._points]

    def take_up(self, older: History) -> None:
        """Put in front what another history has, which is of no use afterwards."""
        for index, points in enumerate(older._points):
            for point in points.values():
                self._put(index, point.start_ms, point.measures, point.line)
        self.marks = deque([*older.marks, *self.marks], MARKS_MAX)
        self._folded = [None] * len(RESOLUTIONS)

    def restore(self, point: Point) -> None:
        """Put in a point that was stored.

        :raises ValueError: there are no such points.
        """
        for index, each in enumerate(RESOLUTIONS):
            if each.length_ms == point.length_ms and point.start_ms % point.length_ms == 0:
                self._put(index, point.start_ms, point.measures, point.line)
                return
        raise ValueError(f"no point is {point.length_ms} ms long, or starts at {point.start_ms}")

    def fold(self, now_ms: int, at_once: bool = False) -> None:
        """Make coarser what has grown too old, and forget what is older than all.

        :param at_once: forget it even if there is little else.
        """
        for index, age_ms in enumerate(self._ages_ms):
            following = RESOLUTIONS[min(index + 1, len(RESOLUTIONS) - 1)].length_ms
            turn = now_ms // following
            if self._folded[index] == turn:
                continue  # nothing has grown too old since
            self._folded[index] = turn
            first, end = turn * following - age_ms, (turn + 1) * following + age_ms
            points = self._points[index]
            old = [each for each in points if not first <= each < end]
            is_most = len(old) > 2 * (len(points) - len(old))
            if index + 1 == len(RESOLUTIONS) and is_most and not at_once:
                continue
            for start_ms in old:
                point = points.pop(start_ms)
                if index + 1 < len(RESOLUTIONS):
                    self._put(index + 1, start_ms, point.measures)

    def narrow(self, now_ms: int) -> bool:
        """Make points coarser earlier; if that is not enough forget them earlier, and marks at
        last. Whether anything was left to leave out."""
        before = self._ages_ms
        self._set_narrowed(self._narrowed + 1, now_ms)
        if self._ages_ms != before:
            return True
        kept = len(self.marks) // 2
        has_marks = bool(self.marks)
        self.marks = deque(list(self.marks)[len(self.marks) - kept :], MARKS_MAX)
        return has_marks

    def widen(self, now_ms: int) -> None:
        """Take back one :meth:`narrow`, for what comes."""
        if self._narrowed:
            self._set_narrowed(self._narrowed - 1, now_ms)

    def _set_narrowed(self, times: int, now_ms: int) -> None:
        coarsest, finer = RESOLUTIONS[-1], list(pairwise(RESOLUTIONS))
        self._ages_ms = [
            _narrowed(each.age_ms, coarser.length_ms, times) for each, coarser in finer
        ]
        forgotten = max(0, times - _FINER_FIRST)
        self._ages_ms.append(_narrowed(coarsest.age_ms, coarsest.length_ms, forgotten))
        self._narrowed = times
        self._folded = [None] * len(RESOLUTIONS)
        self.fold(now_ms, at_once=forgotten > 0)

    def _put(self, index: int, at_ms: int, measures: Measures, line: str | None = None) -> None:
        length_ms = RESOLUTIONS[index].length_ms
        start_ms = at_ms - at_ms % length_ms
        points = self._points[index]
        point = points.get(start_ms)
        if point is None:
            points[start_ms] = Point(start_ms, length_ms, measures, line)
        else:
            point.measures.merge(measures)
            point.line = None


def _start_ms(point: Point) -> int:
    return point.start_ms


def _narrowed(age_ms: int, step_ms: int, times: int) -> int:
    """Three quarters of it so many times, in whole steps, one at least."""
    narrowed = int(age_ms * 0.75**times)
    return max(step_ms, narrowed - narrowed % step_ms)
