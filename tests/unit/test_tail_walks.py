"""Walks at random through writing, rotating, looking and starting again: each line comes once."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

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
