"""Walks at random through writing, rotating, looking and starting again: each line comes once."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.sources.contract import Offset
from engine.sources.tail.data_source import TailReader
from engine.sources.tail.tail_files import TailPartitionReader
from tests.unit.test_tail import ids_of_all, reader, write_ids
from tests.unit.test_tail_generations import rotate

STEPS = 60
ACTS = ["write", "write", "write", "rotate", "rotate", "look", "look", "restart"]


def rename(log: Path) -> None:
    rotate(log, keep=STEPS)


def copy_and_truncate(log: Path) -> None:
    copied = log.with_name("copied")
    shutil.copy(log, copied)
    rotate(log, keep=STEPS)
    log.with_name("app.log.1").rename(log)
    copied.rename(f"{log}.1")
    os.truncate(log, 0)


class Walk:
    def __init__(self, folder: Path, partitions: int, pattern: str) -> None:
        self._driver = reader(folder, pathGlobFilter=pattern, numPartitions=partitions)
        self._parts = [self._driver.open(each) for each in self._driver.partitions({})]
        self.read: list[int] = []

    def look(self) -> None:
        for each in self._parts:
            assert isinstance(each, TailPartitionReader)
            each._next_look_s = 0.0  # the pause between two looks is not what is tested
            self.read += ids_of_all(each)

    def restart(self) -> None:
        offset = self._driver.mergeOffsets([each.offset for each in self._parts])
        self._parts = [self._driver.open(each) for each in self._driver.partitions(offset)]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(
    ("rotating", "pattern"), [(rename, "*"), (rename, "*.log"), (copy_and_truncate, "app.log")]
)
def test_each_line_comes_once(
    tmp_path: Path, rotating: Callable[[Path], None], pattern: str, partitions: int, seed: int
) -> None:
    chance = random.Random(seed)
    log = tmp_path / "app.log"
    walk = Walk(tmp_path, partitions, pattern)
    write_ids(log, 0)
    walk.look()
    written, done = 1, ["look"]
    for _ in range(STEPS):
        act = chance.choice(ACTS)
        if act == "write":
            count = chance.randint(1, 3)
            write_ids(log, *range(written, written + count))
            written += count
        elif act == "rotate" and log.exists() and log.stat().st_size:
            rotating(log)
        elif act == "look":
            walk.look()
        elif act == "restart":
            walk.restart()
        done.append(f"{act} ({written})")
    walk.look()
    walk.look()
    assert sorted(walk.read) == list(range(written)), ", ".join(done)


class Epochs:
    """As many tasks as chance wants, in each start."""

    def __init__(self, folder: Path, pattern: str, chance: random.Random) -> None:
        self._folder, self._pattern, self._chance = folder, pattern, chance
        self._offset: Offset = {}
        self.committed: list[int] = []
        self.start()

    def _reader(self) -> TailReader:
        count = self._chance.randint(1, 3)
        return reader(self._folder, pathGlobFilter=self._pattern, numPartitions=count)

    def start(self) -> None:
        self._driver, self._rows = self._reader(), list[int]()
        self._parts = [self._driver.open(each) for each in self._driver.partitions(self._offset)]

    def look(self) -> None:
        each = self._chance.choice(self._parts)
        each._next_look_s = 0.0
        self._rows += ids_of_all(each)

    def end(self) -> None:
        """An epoch, which is then run again."""
        end = self._driver.mergeOffsets([each.offset for each in self._parts])
        assert self._between(end) == sorted(self._rows)
        self._commit(end, self._rows)
        self._rows = []

    def run_a_batch(self) -> None:
        """As Spark's micro-batches do."""
        end = self._driver.latestOffset(self._offset)
        self._commit(end, self._between(end))
        self.start()

    def _between(self, end: Offset) -> list[int]:
        driver = self._reader()
        parts = [driver.open(each, end) for each in driver.partitions(self._offset)]
        rows = [row for each in parts for row in ids_of_all(each)]
        assert all(each.exhausted for each in parts)
        assert driver.hasComeTo(end, driver.mergeOffsets([each.offset for each in parts]))
        return sorted(rows)

    def _commit(self, end: Offset, rows: list[int]) -> None:
        self._offset = end
        self.committed += rows


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("pattern", ["*", "*.log"])
def test_an_epoch_is_run_again_by_any_number_of_tasks(
    tmp_path: Path, pattern: str, seed: int
) -> None:
    chance = random.Random(seed)
    logs = [tmp_path / name for name in ("app.log", "other.log")]
    for number, log in enumerate(logs):
        write_ids(log, number)
    written = len(logs)
    epochs = Epochs(tmp_path, pattern, chance)
    epochs.run_a_batch()  # what was never seen and is rotated out of sight is not known
    acts = [epochs.look, epochs.end, epochs.start, epochs.run_a_batch]
    for _ in range(STEPS):
        log = chance.choice(logs)
        if chance.random() < 0.3:
            write_ids(log, written)
            written += 1
        elif chance.random() < 0.2 and log.exists():
            rename(log)
        else:
            chance.choices(acts, (6, 3, 1, 1))[0]()
    epochs.run_a_batch()
    assert sorted(epochs.committed) == list(range(written))
