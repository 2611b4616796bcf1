"""How far event time has come, over all tasks: Spark's rules.

Each ``withWatermark`` of a query is an operator with a number. Its watermark is the largest event
time that any task has seen, less its delay, and never goes back. A micro-batch reads all that is
there before it moves; here epochs end in the middle of that, and what a partition has still to
bring would be late because another is read faster. So the watermark does not pass what those
partitions have come to that have not caught up. That of the query is the least of
them, or with policy ``max`` the largest; an operator that has seen nothing stands at 0.

An epoch's event times count when all tasks have reported it, so its rows move the watermark of the
epoch that begins next.

Source: Spark's ``WatermarkTracker``, ``EventTimeStats``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from engine.checkpoint.epoch_state import NO_MARKS, Marks
from engine.progress.counters import EpochCounters

MIN: Final = "min"
MAX: Final = "max"


class Watermarks:
    """Pure.

    :param delays_ms: of each operator.
    :param policy: :data:`MIN` or :data:`MAX` (``spark.sql.streaming.multipleWatermarkPolicy``).
    :param idle_after_ms: an operator that has seen no event time for so long does not count, unless
        that is so of all; 0: every operator counts, as in Spark.
    :param marks: what an earlier run has come to: the epochs that it has committed last have not
        moved its watermark yet. They move that of the second epoch.
    :ivar current_ms: the query's watermark; 0 before the first.
    """

    def __init__(
        self,
        delays_ms: Sequence[int],
        policy: str = MIN,
        current_ms: int = 0,
        idle_after_ms: int = 0,
        marks: Marks = NO_MARKS,
    ) -> None:
        self._delays_ms = delays_ms
        self._choose = max if policy == MAX else min
        self._operators_ms = [0] * len(delays_ms)
        self._newest_ms = [0] * len(delays_ms)
        """What they would have come to if nothing held them back."""
        self._idle_after_ms = idle_after_ms
        self._seen_at_ms: list[int] = []
        """By the wall clock, when each operator has seen something, or was let go on, or the first
        epoch ended."""
        self.current_ms = current_ms
        if len(marks.come_to_ms) == len(delays_ms):  # else they are those of other operators
            self._operators_ms = list(marks.come_to_ms)
            self._newest_ms = list(marks.newest_ms)

    def go_on(self) -> None:
        """What an earlier run has come to counts from now on."""
        if self._operators_ms:
            self.current_ms = max(self.current_ms, self._choose(self._operators_ms))

    def hear(self, counters: Sequence[EpochCounters], now_ms: int) -> Marks:
        """As :meth:`take`, of what tasks have counted."""
        if not self._delays_ms:
            return NO_MARKS  # of a query without event time, however many its tasks
        seen = [each.event_times_us for each in counters]
        held = [each.held_us for each in counters]
        return self.take(seen, now_ms, held)

    def take(
        self,
        event_times_us: Iterable[Mapping[int, int]],
        now_ms: int = 0,
        held_us: Iterable[Mapping[int, int | None]] = (),
    ) -> Marks:
        """What the tasks have seen in an epoch.

        :param event_times_us: of each task: operator → its largest event time in microseconds;
            without those that have seen none.
        :param now_ms: of the wall clock.
        :param held_us: of each task, see :attr:`engine.progress.counters.EpochCounters.held_us`.
        :returns: for the next run.
        """
        self._seen_at_ms = self._seen_at_ms or [now_ms] * len(self._operators_ms)
        for seen in event_times_us:
            for number, micros in seen.items():
                found_ms = micros // 1000 - self._delays_ms[number]
                self._newest_ms[number] = max(self._newest_ms[number], found_ms)
                self._seen_at_ms[number] = now_ms
        come_to_ms = [*self._newest_ms]
        for held in held_us:
            for number, held_at_us in held.items():
                limit_ms = 0 if held_at_us is None else held_at_us // 1000 - self._delays_ms[number]
                come_to_ms[number] = min(come_to_ms[number], limit_ms)
        for number, mark_ms in enumerate(come_to_ms):
            if mark_ms > self._operators_ms[number]:  # seen earlier, and held back until now
                self._operators_ms[number], self._seen_at_ms[number] = mark_ms, now_ms
        passed_ms = [each for each in self._idle_at_ms() if each < now_ms]
        self.current_ms = max(map(self._at, [*passed_ms, now_ms]))  # by now all may be idle
        return Marks(tuple(self._operators_ms), tuple(self._newest_ms))

    def beyond_at_ms(self, known_ms: int) -> int | None:
        """When, by the wall clock, the watermark is beyond a known one, if no task sees anything:
        an operator does not count then. 0: it is already; None: never."""
        if self.current_ms > known_ms:
            return 0
        return next((each for each in self._idle_at_ms() if self._at(each) > known_ms), None)

    def _idle_at_ms(self) -> list[int]:
        """From when on one operator less counts, each time, if none sees anything."""
        if not self._idle_after_ms:
            return []
        return sorted(seen_ms + self._idle_after_ms for seen_ms in self._seen_at_ms)

    def _at(self, now_ms: int) -> int:
        """The query's watermark at a time, from what is known."""
        counting = [
            mark_ms
            for mark_ms, seen_ms in zip(self._operators_ms, self._seen_at_ms, strict=True)
            if not self._idle_after_ms or now_ms - seen_ms < self._idle_after_ms
        ]
        return max([self.current_ms, *([self._choose(counting)] if counting else [])])
