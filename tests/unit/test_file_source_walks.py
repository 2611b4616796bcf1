"""Walks at random through files that come, epochs, crashes and starts: each file is read once."""

from __future__ import annotations

import os
import uuid
from collections import Counter, deque
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from random import Random

import pytest
from pyspark.sql.types import LongType, StructType

from engine.checkpoint.storage.opening import open_storage
from engine.sources.contract import Offset
from engine.sources.files.data_source import JsonSource
from engine.sources.files.reader import FilesReader
from engine.sources.handed.work import Work

AGE_S = 3_600
STEPS = 120
PARTITIONS = 2
SCHEMA = StructType().add("value", LongType())


class Task:
    """One that reads one partition, and takes what the driver says in its order."""

    def __init__(self, reader: FilesReader, start: Offset, until: Offset | None, at: int) -> None:
        self._reader = reader.open(reader.partitions(start)[at], until)
        self.said: deque[Work | None] = deque()
        """None: the end of an epoch."""
        self.rows: list[int] = []
        self.ended: deque[tuple[Offset, list[int]]] = deque()

    def step(self) -> None:
        """As the loop of a task: it looks what was said, and reads."""
        while self.said and (word := self.said[0]) is not None:
            self._reader.take(word)
            self.said.popleft()
        if self.said and not self._reader.midway:
            self.said.popleft()
            self.ended.append((deepcopy(self._reader.offset), self.rows))
            self.rows = []
        elif (batch := self._reader.read(0.0)) is not None:
            self.rows += batch["value"].to_pylist()

    def committed(self, end: Offset) -> None:
        self._reader.committed(end)

    @property
    def exhausted(self) -> bool:
        return self._reader.exhausted


class Attempt:
    """Driver and tasks.

    :param reader: of an attempt before, in the same process.
    """

    def __init__(
        self, world: World, until: Offset | None = None, reader: FilesReader | None = None
    ) -> None:
        options = {"path": str(world.folder), "numPartitions": str(PARTITIONS), **world.options}
        self.reader = reader or JsonSource(options).continuousReader(SCHEMA)
        self.reader.openLog(world.storage, "sources/0")
        self.run = self.reader.handingOut(world.offset, until)
        self.tasks = [Task(self.reader, world.offset, until, at) for at in range(PARTITIONS)]

    def hand_out(self) -> None:
        self.run._next_look_s = 0.0  # the pause between two looks is not what is tested
        for at, work in (self.run.next(0.0) or {}).items():
            self.tasks[at].said.append(work)

    def close_epoch(self) -> None:
        for task in self.tasks:
            task.said.append(None)

    @property
    def has_ended(self) -> bool:
        return all(task.ended for task in self.tasks)

    def run_tasks(self, times: int = 1) -> None:
        for _ in range(times):
            for task in self.tasks:
                task.step()

    def merge(self) -> tuple[Offset, list[int], Sequence[Offset]]:
        """The end of the epoch, its rows, and where each task stood."""
        ends, rows = zip(*(task.ended.popleft() for task in self.tasks), strict=True)
        return self.reader.mergeOffsets(list(ends)), [row for each in rows for row in each], ends


class World:
    """A folder, a checkpoint, and what is committed."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder, self.chance = folder, chance
        folder.mkdir()
        self.storage = open_storage(f"memory://{uuid.uuid4()}")
        self.offset: Offset = {"logOffset": -1}
        self.committed: Counter[int] = Counter()
        self.due: set[int] = set()
        """Files that no other file makes too old, whoever finds them when."""
        self.count, self.now_s, self.newest_s = 0, 1_000_000.0, 0.0
        self.options: dict[str, str] = {}
        self.cleans = chance.random() < 0.4
        self.before: list[tuple[Offset, Counter[int]]] = []
        """Epochs that a rewind can go back to."""
        self.choose()
        self.promises: list[tuple[Offset, set[int]]] = []

    def choose(self) -> None:
        """What may change between two starts."""
        self.options = self.chance.choice(
            [
                {},
                {"maxFilesPerTrigger": "1"},
                {"maxFilesPerTrigger": "3"},
                {"maxBytesPerTrigger": "30"},
            ]
        ) | {"maxFileAge": f"{AGE_S}s"}
        if self.chance.random() < 0.3 and len(self.options) == 1:
            self.options["latestFirst"] = "true"
        if self.cleans and self.chance.random() < 0.7:
            self.options["cleanSource"] = "delete"

    def put(self) -> None:
        self.now_s += self.chance.choice((0, 1, 60, AGE_S / 2, 3 * AGE_S))
        modified_s = self.now_s - self.chance.choice((0, 0, 10, AGE_S - 1))
        path = self.folder / f"{self.chance.randrange(10**6):06}-{self.count}"
        path.write_text(f'{{"value":{self.count}}}')
        os.utime(path, (modified_s, modified_s))
        if modified_s >= self.newest_s - AGE_S:
            self.due.add(self.count)
        self.newest_s = max(self.newest_s, modified_s)
        self.count += 1

    def there(self) -> set[int]:
        return {int(each.name.partition("-")[2]) for each in self.folder.iterdir()}

    def run_again(self, end: Offset, rows: list[int]) -> None:
        """An epoch that is logged, and whose rows are lost, to its end."""
        attempt = Attempt(self, end)
        for _ in range(3):
            attempt.hand_out()
        while not all(task.exhausted for task in attempt.tasks):
            attempt.run_tasks()
        attempt.close_epoch()
        attempt.run_tasks()
        again, found, _ = attempt.merge()
        assert attempt.reader.hasComeTo(end, again)
        assert sorted(found) == sorted(rows)

    def promise(self, reader: FilesReader) -> None:
        """Somebody begins to wait until all that is there is committed."""
        there = self.there()
        self.promises.append((reader.latestOffset(self.offset), there))
        self.check_promises(reader)

    def check_promises(self, reader: FilesReader) -> None:
        for end, files in self.promises:
            if reader.hasReached(self.offset, end):
                assert not (files & self.due) - self.committed.keys()

    def step(self, attempt: Attempt) -> Attempt:
        act = self.chance.random()
        if act < 0.15:
            self.put()
        elif act < 0.3:
            attempt.hand_out()
        elif act < 0.55:
            self.chance.choice(attempt.tasks).step()
        elif act < 0.7:
            attempt.close_epoch()
        elif act < 0.72:
            self.promise(attempt.reader)
        elif act < 0.97:
            attempt.run_tasks()
            if attempt.has_ended:
                attempt = self.end_epoch(attempt)
        else:
            attempt = self.restart(attempt.reader)
        return attempt

    def restart(self, reader: FilesReader) -> Attempt:
        if self.chance.random() < 0.5:
            return Attempt(self, reader=reader)
        if self.before and not self.cleans and self.chance.random() < 0.7:
            self.offset, self.committed = self.chance.choice(self.before)
            self.before = []
        self.choose()
        self.promises = []
        return Attempt(self)

    def end_epoch(self, attempt: Attempt) -> Attempt:
        end, rows, ends = attempt.merge()
        self.promise(attempt.reader)
        fate = self.chance.random()
        if fate < 0.1:  # it crashes before the offset is logged
            return self.restart(attempt.reader)
        if fate < 0.25:
            self.run_again(end, rows)
        self.commit(attempt, end, rows, ends)
        return self.restart(attempt.reader) if fate < 0.35 else attempt

    def commit(
        self, attempt: Attempt, end: Offset, rows: list[int], ends: Sequence[Offset]
    ) -> None:
        self.before.append((self.offset, self.committed.copy()))
        self.offset = end
        self.committed.update(rows)
        self.check_promises(attempt.reader)
        if self.chance.random() < 0.2:  # nobody hears of it
            return
        for task, each in zip(attempt.tasks, ends, strict=True):
            task.committed(each)
        attempt.reader.commit(end)
        assert (self.due - self.committed.keys()) <= self.there(), "nothing goes unread"


@pytest.mark.parametrize("seed", range(20))
def test_every_file_is_read_once(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path / "in", Random(seed))
    attempt = Attempt(world)
    for _ in range(STEPS):
        attempt = world.step(attempt)
    attempt = world.restart(attempt.reader)
    wanted = attempt.reader.latestOffset(world.offset)
    for _ in range(world.count + 2):
        attempt.hand_out()
        attempt.run_tasks(times=4)
        attempt.close_epoch()
        while not attempt.has_ended:
            attempt.run_tasks()
        world.commit(attempt, *attempt.merge())
    assert attempt.reader.hasReached(world.offset, wanted)
    assert set(world.committed.values()) <= {1}
    assert world.due <= world.committed.keys()
