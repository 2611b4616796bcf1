"""Walks at random through records, transactions, new partitions, epochs and starts: each record is
read once, whichever tasks share the partitions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable
from random import Random
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError

from engine.sources.contract import Offset, PartitionsReader
from engine.sources.kafka import topics
from engine.sources.kafka.offsets import Positions, TopicPartition, offset_of
from engine.sources.kafka.reader import KafkaReader
from tests.unit.test_kafka_quiet_partitions import Columns, Message, consume_by
from tests.unit.test_kafka_run_again import reader_of

STEPS = 80
PARTITIONS_MAX = 4
Record = tuple[int, int]
"""Its partition and its offset."""


class Log:
    """A partition.

    :ivar records: whether a record is at each offset: there are markers, and what was aborted.
    :ivar opened: where a transaction begins that is open.
    """

    def __init__(self) -> None:
        self.records: list[bool] = []
        self.opened: int | None = None

    @property
    def end(self) -> int:
        """Of what may be read."""
        return len(self.records) if self.opened is None else self.opened

    def write(self, chance: Random) -> None:
        if self.opened is not None and chance.random() < 0.5:
            self.close()
        elif chance.random() < 0.3 and self.opened is None:
            self.opened = len(self.records)
        self.records += [chance.random() < 0.7] * chance.randint(1, 3)

    def close(self) -> None:
        self.records.append(False)
        self.opened = None


class Brokers:
    """What they have, and tell the driver."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.logs = [Log()]

    def at(self, partition: TopicPartition) -> Log:
        return self.logs[partition.partition]

    def partitions(self, known: Any = ()) -> list[TopicPartition]:
        return [TopicPartition("orders", number) for number in range(len(self.logs))]

    def earliest(self, partitions: Collection[TopicPartition]) -> Positions:
        return dict.fromkeys(partitions, 0)

    def latest(self, partitions: Collection[TopicPartition]) -> Positions:
        return {each: self.at(each).end for each in partitions}

    def readable(self) -> set[Record]:
        return {
            (number, offset)
            for number, log in enumerate(self.logs)
            for offset in range(log.end)
            if log.records[offset]
        }


class Consumer:
    """librdkafka's: records, and where a partition ends whenever it has come there."""

    brokers: ClassVar[Brokers]

    def __init__(self, settings: Any) -> None:
        self._coming: deque[Message] = deque()

    def assign(self, partitions: Iterable[Any]) -> None:
        self._positions = {
            TopicPartition(each.topic, each.partition): each.offset for each in partitions
        }
        self._told = dict.fromkeys(self._positions, -1)
        self._ends = dict.fromkeys(self._positions, (0, -1))

    def _fetch(self) -> None:
        for at, position in self._positions.items():
            log, chance = self.brokers.at(at), self.brokers.chance
            if chance.random() < 0.4:
                continue
            until = min(log.end, position + chance.randint(1, 6))
            self._coming += [
                Message(at.partition, offset)
                for offset in range(position, until)
                if log.records[offset]
            ]
            self._positions[at], self._ends[at] = until, (0, log.end)
            if until == log.end != self._told[at]:
                self._told[at] = until
                end = KafkaError(KafkaError._PARTITION_EOF)
                self._coming.append(Message(at.partition, until, end))

    def poll(self, timeout_s: float) -> Message | None:
        if not self._coming:
            self._fetch()
        return self._coming.popleft() if self._coming else None

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        count = min(len(self._coming), self.brokers.chance.randint(0, 6))
        return [self._coming.popleft() for _ in range(count)]

    def get_watermark_offsets(self, at: Any, timeout: float = 0, cached: bool = False) -> Any:
        return self._ends[TopicPartition(at.topic, at.partition)]

    def close(self) -> None:
        pass


class Tasks:
    """Those of a run, which share the partitions somehow."""

    def __init__(self, world: World, start: Offset, until: Offset | None = None) -> None:
        self.reader = world.reader()
        self.rows: list[Record] = []
        self._tasks: list[tuple[int, PartitionsReader]] = []
        partitions, first = list(self.reader.partitions(start)), 0
        while first < len(partitions):
            count = world.chance.randint(1, len(partitions) - first)
            together = self.reader.openTogether(partitions[first : first + count], until)
            assert together is not None
            self._tasks.append((first, together))
            first += count

    def read(self, chance: Random) -> None:
        first, task = chance.choice(self._tasks)
        if (found := task.read(0.0)) is not None:
            place, batch = found
            self.rows += [(first + place, offset) for offset in batch["offset"].to_pylist()]

    def read_all(self, chance: Random) -> None:
        for _ in range(10_000):
            if all(task.exhausted for _, task in self._tasks):
                return
            self.read(chance)
        raise AssertionError("it does not come to its end")

    @property
    def end(self) -> Offset:
        return self.reader.mergeOffsets([each for _, task in self._tasks for each in task.offsets])


class World:
    """Brokers, and what is committed of what they have."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers, self.chance = brokers, brokers.chance
        self.offset: Offset = offset_of([(TopicPartition("orders", 0), 0)])
        self.committed: list[Record] = []
        self.promises: list[tuple[Offset, set[Record]]] = []
        self.tasks = Tasks(self, self.offset)

    def reader(self) -> KafkaReader:
        made = reader_of(1, fails="true")
        made._topics, made._columns = self.brokers, Columns()  # type: ignore[assignment]
        return made

    def run_again(self, end: Offset) -> list[Record]:
        """What lies between the offset and an end."""
        again = Tasks(self, self.offset, end)
        again.read_all(self.chance)
        assert again.reader.hasComeTo(end, again.end)
        return sorted(again.rows)

    def commit(self, end: Offset, rows: list[Record]) -> None:
        self.committed += rows
        self.offset = end
        for wanted, records in self.promises:
            if self.tasks.reader.hasReached(end, wanted):
                assert records <= set(self.committed)

    def end_epoch(self) -> None:
        end, rows = self.tasks.end, self.tasks.rows
        if self.chance.random() < 0.6:
            assert self.run_again(end) == sorted(rows)
        self.commit(end, rows)
        self.tasks.rows = []

    def run_a_batch(self) -> None:
        """As Spark's micro-batches do."""
        end = self.tasks.reader.latestOffset(self.offset)
        self.add()
        self.commit(end, self.run_again(end))
        self.restart()

    def restart(self) -> None:
        self.tasks = Tasks(self, self.offset)

    def add(self) -> None:
        logs = self.brokers.logs
        if len(logs) < PARTITIONS_MAX and self.chance.random() < 0.3:
            logs.append(Log())
        self.chance.choice(logs).write(self.chance)

    def promise(self) -> None:
        there = self.brokers.readable()
        self.promises.append((self.tasks.reader.latestOffset(self.offset), there))

    def step(self) -> None:
        acts = (self.end_epoch, self.promise, self.restart, self.run_a_batch)
        act = self.chance.random()
        if act < 0.25:
            self.add()
        elif act < 0.75:
            self.tasks.read(self.chance)
        else:
            self.chance.choices(acts, (6, 1, 1, 1))[0]()


@pytest.mark.parametrize("seed", range(30))
def test_every_record_is_read_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Consumer.brokers = Brokers(Random(seed))
    consume_by(Consumer, monkeypatch)
    monkeypatch.setattr(
        topics, "ends", lambda client, asked: {at: len(brokers.at(at).records) for at in asked}
    )
    world = World(brokers)
    for _ in range(STEPS):
        world.step()
    for log in brokers.logs:
        log.close()
    world.restart()
    wanted = world.tasks.reader.latestOffset(world.offset)
    for _ in range(2_000):
        if world.tasks.end == wanted:
            break
        world.tasks.read(world.chance)
    world.end_epoch()
    assert world.tasks.reader.hasReached(world.offset, wanted)
    assert Counter(world.committed) == Counter(brokers.readable())
