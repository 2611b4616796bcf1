"""Which task reads which partitions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from engine.execution.slots import Demand, Slots


class TaskSharing:
    """One task per partition where there are slots enough; else as few partitions to a task as it
    takes. How many slots that are is decided by those of the first split, and only

    - :meth:`squeeze` makes it fewer, once they were waited for: an executor that is lost mostly
      comes back, and until then a query that took what is there would read with half its tasks;
    - :meth:`spread` makes it more.

    :param per_task: that many partitions to a task, however many slots there are; 0 to decide by
        the slots.
    :param keep_free: so many slots are left to other jobs; None: those that the sink needs, if the
        streams leave any.
    :param sink_slots: how many the sink needs for jobs of its own.
    """

    def __init__(
        self, per_task: int = 0, keep_free: int | None = None, sink_slots: int = 0
    ) -> None:
        self._per_task = per_task
        self._keep_free = keep_free
        self._sink_slots = sink_slots
        self._spare = sink_slots if keep_free is None else keep_free
        self._limit: int | None = None
        """The query has so many tasks at most; None: nothing limits them."""
        self._partitions: Sequence[int] = ()
        """Of each stream, and behind them the tasks wanted of each stage."""
        self._streams = 0
        self._fixed: Mapping[int, int] = {}
        self._split: Counter[int] = Counter()
        """How many tasks each of them has."""

    def split(
        self,
        partitions: Sequence[int],
        slots: int | None,
        stages: Sequence[int] = (),
        fixed: Mapping[int, int] | None = None,
    ) -> list[tuple[int, range]]:
        """The tasks, each with its stream and the positions of its partitions in that stream; then
        those of the stages behind exchanges, whose numbers follow. What a task of a stage gets is
        its share of the key groups, so of each range only that it is there has a meaning.

        :param partitions: how many partitions each stream has, at least one.
        :param slots: how many tasks can run at once; None where nothing limits them.
        :param stages: how many tasks each stage is to have where there are slots enough.
        :param fixed: how many some of the stages have, by their numbers, whatever slots there are.
        """
        self._partitions = [*partitions, *stages]
        self._streams, self._fixed = len(partitions), fixed or {}
        if self._limit is None and slots is not None:
            self._take(slots)
        per_task = self._per_task_within(self._limit)
        tasks = [
            (stream, part)
            for stream, count in enumerate(self._partitions)
            for part in _even(self._fixed.get(stream, count), self._parts(stream, per_task))
        ]
        self._split = Counter(pipeline for pipeline, _ in tasks)
        return tasks

    @property
    def demand(self) -> Demand:
        """The slots that the last split needs."""
        stages = len(self._split) > self._streams
        parts = [
            f"{'stream' if number < self._streams else 'stage'} {number}: {count}"
            for number, count in sorted(self._split.items())
        ]
        return Demand(self._split.total(), self._spare, tuple(parts) if stages else ())

    def squeeze(self, slots: int) -> bool:
        """Let the next split do with so many slots, those to be kept free among them; False if
        that cannot be: each stream has a task of its own, and what the user asked for holds."""
        limit = slots - self._spare
        if limit < self._count(self._per_task or max(self._partitions)):
            return False
        self._limit = limit
        return True

    def spread(self, slots: Slots | None) -> bool:
        """Let the next split use what is free by now; False if that makes no more tasks. What
        other jobs hold is left to them. Where nobody counts slots, nobody knows of new ones."""
        if slots is None or self._limit is None or self._per_task:
            return False
        usable = min(slots.total, self._split.total() + slots.free)
        limit = usable - self._spare_of(usable)
        if self._count(self._per_task_within(limit)) <= self._split.total():
            return False
        self._take(usable)
        return True

    def _take(self, slots: int) -> None:
        self._spare = self._spare_of(slots)
        self._limit = slots - self._spare

    def _spare_of(self, slots: int) -> int:
        if self._keep_free is not None:
            return self._keep_free
        return min(self._sink_slots, max(slots - len(self._partitions), 0))

    def _per_task_within(self, limit: int | None) -> int:
        if self._per_task or limit is None:
            return self._per_task or 1
        return self._fewest(max(limit, len(self._partitions)))

    def _parts(self, stream: int, per_task: int) -> int:
        """How many tasks a stream, or a stage, has. What the user asked for is of partitions."""
        count = self._partitions[stream]
        if stream in self._fixed:
            return self._fixed[stream]
        if self._per_task and stream >= self._streams:
            return count
        return -(-count // per_task)

    def _count(self, per_task: int) -> int:
        return sum(self._parts(stream, per_task) for stream in range(len(self._partitions)))

    def _fewest(self, tasks_max: int) -> int:
        """How many partitions a task has to take, so that there are at most so many tasks."""
        low, high = 1, max(self._partitions)
        while low < high:
            middle = (low + high) // 2
            if self._count(middle) <= tasks_max:
                high = middle
            else:
                low = middle + 1
        return low


def _even(count: int, parts: int) -> list[range]:
    """``range(count)`` in parts whose lengths differ by one at most."""
    ends = [count * part // parts for part in range(parts + 1)]
    return [range(start, end) for start, end in pairwise(ends)]
