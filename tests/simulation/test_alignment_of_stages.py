"""Stages of any numbers of tasks, with arbitrary delays, repeated markers, and tasks that die: what
the last stage has counted at the end of an epoch are the records that were read until then.

Every channel between two tasks keeps its order, and nothing else does. A task that dies ends the
run; the next one has other numbers of tasks, and begins behind the epoch that was committed last.
"""

from __future__ import annotations

from collections import Counter, deque
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ProtocolError
from engine.exchange.alignment import Alignment, EpochEnd

Record = tuple[int, int]
"""Partition, number."""
PARTITIONS = 3


class Source:
    """Reads partitions, and ends an epoch when a marker tells to, whatever else it is told."""

    def __init__(self, offsets: dict[int, int], epoch: int, to: list[deque[Any]]) -> None:
        self.offsets, self.epoch, self.to = offsets, epoch, to
        self.markers: deque[int] = deque()
        self.ended: dict[int, dict[int, int]] = {}

    def step(self, chance: Random) -> None:
        if self.markers and chance.random() < 0.3:
            if self.markers.popleft() != self.epoch:
                return  # told again
            for channel in self.to:
                channel.append(EpochEnd(self.epoch, False, 0, self.epoch))
            self.ended[self.epoch] = dict(self.offsets)
            self.epoch += 1
        elif self.offsets:
            partition = chance.choice(sorted(self.offsets))
            record = partition, self.offsets[partition]
            self.offsets[partition] += 1
            self.to[_owner(0, record, len(self.to))].append(record)


class Task:
    """Counts what it gets, and passes it on."""

    def __init__(
        self, alignment: Any, begun: Counter[Record], epoch: int, inbox: int, to: list[deque[Any]]
    ) -> None:
        self.inbox: list[deque[Any]] = [deque() for _ in range(inbox)]
        self.alignment = alignment(range(inbox))
        self.state, self.to, self.epoch = begun, to, epoch
        self.snapshots: dict[int, Counter[Record]] = {}

    def step(self, chance: Random) -> None:
        for sender in chance.sample(range(len(self.inbox)), len(self.inbox)):
            channel = self.inbox[sender]
            # Some of what it need not read has arrived all the same.
            if channel and (self.alignment.is_wanted(sender) or chance.random() < 0.2):
                self.alignment.arrived(sender, channel.popleft())
        for _, record in self.alignment.take():
            self.state[record] += 1
            if self.to:
                self.to[_owner(1, record, len(self.to))].append(record)
        if (end := self.alignment.end) is not None:
            assert end.epoch == self.epoch
            self.snapshots[end.epoch] = Counter(self.state)
            self.epoch += 1
            self.alignment.go_on()
            for channel in self.to:
                channel.append(end)


def simulate(chance: Random, alignment: Any = Alignment, steps: int = 120) -> int:
    """Some runs, one behind the other; how many epochs were committed."""
    committed, offsets = -1, dict.fromkeys(range(PARTITIONS), 0)
    states = [Counter[Record](), Counter[Record]()]
    for _ in range(chance.randint(1, 3)):
        tasks: list[list[Task]] = []
        for stage, count in enumerate((chance.randint(1, 3), chance.randint(1, 3))):
            tasks.append([])
            senders = len(tasks[0]) if stage else chance.randint(1, PARTITIONS)
            for index in range(count):
                begun = Counter(
                    {r: n for r, n in states[stage].items() if _owner(stage, r, count) == index}
                )
                tasks[stage].append(Task(alignment, begun, committed + 1, senders, []))
        for number, task in enumerate(tasks[0]):
            task.to = [other.inbox[number] for other in tasks[1]]
        readers = len(tasks[0][0].inbox)
        sources = [
            Source(
                {p: at for p, at in offsets.items() if p % readers == number},
                committed + 1,
                [task.inbox[number] for task in tasks[0]],
            )
            for number in range(readers)
        ]
        everybody: list[Any] = [*sources, *tasks[0], *tasks[1]]
        told = committed
        for _ in range(chance.randint(0, steps)):
            if chance.random() < 0.1:
                told += chance.random() < 0.7  # else the last one again
                for source in sources:
                    source.markers.extend([told] * chance.choice((1, 1, 2)) if told >= 0 else ())
            chance.choice(everybody).step(chance)
            while all(committed + 1 in task.snapshots for task in (*tasks[0], *tasks[1])):
                committed += 1
                offsets = {p: at for each in sources for p, at in each.ended[committed].items()}
                read = Counter((p, k) for p, end in offsets.items() for k in range(end))
                for stage in range(2):
                    parts = (task.snapshots[committed] for task in tasks[stage])
                    states[stage] = sum(parts, Counter())
                    assert states[stage] == read
    return committed + 1


def _owner(stage: int, record: Record, count: int) -> int:
    return hash((stage, *record)) % count


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_snapshot_has_what_was_read_until_the_end_of_its_epoch(chance: Random) -> None:
    simulate(chance)


# -- mutants --------------------------------------------------------------------------------------


class Overtaking(Alignment[Any, Any]):
    """Takes what has arrived behind an end, too."""

    def take(self) -> list[tuple[Any, Any]]:
        taken = super().take()
        for sender, waiting in self._waiting.items():
            later = [item for item in waiting if not isinstance(item, EpochEnd)]
            for item in later:
                waiting.remove(item)
                taken.append((sender, item))
        return taken


class FirstEnds(Alignment[Any, Any]):
    """The first end is that of all."""

    @property
    def end(self) -> EpochEnd | None:
        ended = [self._waiting[sender][0] for sender in self._ended]
        return ended[0] if ended else None  # type: ignore[return-value]

    def go_on(self) -> None:
        for sender in self._ended:
            self._waiting[sender].popleft()
        self._ended.clear()


class StaysEnded(Alignment[Any, Any]):
    """Who has ended an epoch has ended the next one."""

    def go_on(self) -> None:
        for waiting in self._waiting.values():
            waiting.popleft()
        self._ended = {sender for sender, waiting in self._waiting.items() if not waiting}


class Forgetful(Alignment[Any, Any]):
    """What has come too early is gone."""

    def go_on(self) -> None:
        for waiting in self._waiting.values():
            while waiting and not isinstance(waiting.popleft(), EpochEnd):
                pass
            while waiting and not isinstance(waiting[0], EpochEnd):
                waiting.popleft()
        self._ended.clear()


class LastFirst(Alignment[Any, Any]):
    """What was sent last is looked at first."""

    def arrived(self, sender: Any, item: Any) -> None:
        self._waiting[sender].appendleft(item)


class DropsAtEnd(Alignment[Any, Any]):
    """What arrives together with an end is not taken before it."""

    def arrived(self, sender: Any, item: Any) -> None:
        if isinstance(item, EpochEnd) and self._waiting[sender]:
            self._waiting[sender].pop()
        super().arrived(sender, item)


@pytest.mark.parametrize(
    "mutant", [Overtaking, FirstEnds, StaysEnded, Forgetful, LastFirst, DropsAtEnd]
)
def test_a_wrong_alignment_is_caught(mutant: Any) -> None:
    def is_caught(seed: int) -> bool:
        try:
            simulate(Random(seed), mutant)
        except (AssertionError, ProtocolError, LookupError):
            return True
        return False

    assert any(map(is_caught, range(100)))


def test_the_right_one_passes_and_commits() -> None:
    assert sum(simulate(Random(seed)) for seed in range(50)) > 50
