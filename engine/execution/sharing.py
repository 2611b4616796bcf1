"""Which task reads which partitions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from engine.execution.slots import Slots


class TaskSharing:
    """One task per partition where there are slots enough; else as few partitions to a task as it
    takes. Decided anew by each attempt, but not for the worse: an executor that is lost is waited
    for, not done without.

    :param per_task: that many partitions to a task, however many slots there are; 0 to decide by
        the slots.
    """

    def __init__(self, per_task: int) -> None:
        self._per_task = per_task
        self._slots: int | None = None
        self._is_short = False
        self._partitions: Sequence[int] = ()
        self._tasks = 0

    def split(self, partitions: Sequence[int], slots: int | None) -> list[tuple[int, range]]:
        """The tasks, each with its stream and the positions of its partitions in that stream.

        :param partitions: how many partitions each stream has, at least one.
        :param slots: how many tasks can run at once; None where nothing limits them.
        """
        self._partitions = partitions
        if slots is not None:
            self._slots = max(slots, self._slots or 0)
        limit = None if slots is None else self._slots
        self._is_short = not self._per_task and limit is not None and sum(partitions) > limit
        per_task = self._per_task or 1
        if self._is_short:
            assert limit is not None
            per_task = _fewest(partitions, max(limit, len(partitions)))
        tasks = [
            (stream, part)
            for stream, count in enumerate(partitions)
            for part in _even(count, _parts(count, per_task))
        ]
        self._tasks = len(tasks)
        return tasks

    def could_spread(self, slots: Slots | None) -> bool:
        """Whether more tasks than now would find a slot: other jobs may hold what was added."""
        if not self._is_short or slots is None:
            return self._is_short
        total = max(slots.total, len(self._partitions))
        tasks = _tasks(self._partitions, _fewest(self._partitions, total))
        return self._tasks < tasks <= self._tasks + slots.free


def _parts(count: int, per_task: int) -> int:
    return -(-count // per_task)


def _tasks(partitions: Sequence[int], per_task: int) -> int:
    return sum(_parts(count, per_task) for count in partitions)


def _fewest(partitions: Sequence[int], tasks_max: int) -> int:
    """How many partitions a task has to take, so that there are at most so many tasks."""
    low, high = 1, max(partitions)
    while low < high:
        middle = (low + high) // 2
        if _tasks(partitions, middle) <= tasks_max:
            high = middle
        else:
            low = middle + 1
    return low


def _even(count: int, parts: int) -> list[range]:
    """``range(count)`` in parts whose lengths differ by one at most."""
    ends = [count * part // parts for part in range(parts + 1)]
    return [range(start, end) for start, end in pairwise(ends)]
