"""L3: every file of a checkpoint and of the files sink's log, cut at each byte, flipped at each.

A query is killed between two steps of a commit, one byte of one file is damaged, and the query is
started again. The outcome must be one of these, and nothing else:

- refused: the start raises an error of the engine;
- mended: nothing is lost or repeated, and the file was put right or set aside;
- harmless: nothing is lost or repeated, and the file is as it was.

In random order, as many as the time allows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from engine.errors import ContinuousError
from tests.faults.processes import Killed, Process
from tests.faults.result import LevelResult
from tests.faults.world import SINKS, World

LEVEL = "L3 damaged files"
EPOCHS = 6
DAMAGE = ("cut", "last bit", "first bit")
KILLED_BEFORE = (None, "/commits/", "sink", "/offsets/")


class Case(NamedTuple):
    """Byte ``at`` of a file of a story is damaged."""

    story: int
    path: str
    at: int
    damage: str


def run(
    seed: int,
    *,
    seconds: float = math.inf,
    cases_max: int | None = None,
    until_broken: bool = False,
) -> LevelResult:
    """All cases, in an order of the seed, or as many as the limits allow."""
    result = LevelResult(LEVEL, seeds=[seed])
    began = time.monotonic()
    stories = [Story(sink, step) for sink in SINKS if sink != "plain" for step in KILLED_BEFORE]
    cases = [
        Case(number, path, at, damage)
        for number, story in enumerate(stories)
        for path in story.files
        for at in range(len(story.files[path]))
        for damage in DAMAGE
    ]
    Random(seed).shuffle(cases)
    for case in cases[:cases_max]:
        if time.monotonic() - began > seconds or (until_broken and result.broken):
            break
        stories[case.story].try_out(case, result)
    result.outcomes["of all possible damages"] = len(cases)
    return result


class Story:
    """A query that was killed, to be started again from the same disk as often as wanted.

    :param step: what it was about to do in its last epoch; None: it had committed.
    """

    def __init__(self, sink: str, step: str | None) -> None:
        self.name = f"{sink}, killed before {step or 'the next epoch'}"
        world = self.world = World(7, sink)
        world.begun_by_spark = False
        world.retain = 100
        world.hosts = ["a"]
        with world.installed():
            driver = world.start_driver()
            for epoch in range(EPOCHS):
                if epoch == EPOCHS - 1 and step is not None:
                    world.machine.watchers.append(_killer(step))
                world.source.feed.add(2)
                world.epoch(driver, 2)
                world.carry_out(driver)
            world.machine.watchers[:] = world.machine.watchers[:1]
            driver.die()
            world.source.feed.add(3)
            self.image = world.machine.disk.image()
            self.files = {
                path: world.machine.disk.content(path)
                for folder in ("/checkpoint", "/out/_spark_metadata")
                for path in _files(world, folder)
            }
        self.table = dict(getattr(world.sink, "table", {}))
        self.forgotten = list(world.source.forgotten)
        self.processes = len(world.machine.processes)

    def try_out(self, case: Case, result: LevelResult) -> None:
        """Damage, start, compare."""
        world, disk = self.world, self.world.machine.disk
        disk.restore(self.image)
        data = self.files[case.path]
        if hasattr(world.sink, "table"):
            world.sink.table = dict(self.table)
        world.source.forgotten = list(self.forgotten)
        del world.machine.processes[self.processes :]
        world.drivers, world.inbox, world.markers = [], [], []
        world.broken, world.glimpses = [], []
        with world.restarted():
            left = damaged(data, case.at, case.damage)
            disk.overwrite(case.path, left)
            outcome = self._start(case.path, left)
        result.faults[f"{case.damage} in {_kind(case.path)}"] += 1
        result.outcomes[outcome.partition(":")[0]] += 1
        result.records += sum(world.source.feed.available)
        if outcome.startswith("WRONG"):
            where = f"{case.damage} at byte {case.at} of {case.path} ({self.name})"
            result.blame(f"{where}: {outcome.removeprefix('WRONG: ')}")

    def _start(self, path: str, left: bytes) -> str:
        world = self.world
        try:
            driver = world.start_driver()
        except Exception as exc:
            return f"WRONG: the start crashed: {type(exc).__name__}: {exc}"
        if not driver.started:
            return "refused"
        if driver.query_id != "the query":
            return f"WRONG: it is query {driver.query_id!r} now"
        world.drain(driver)
        if driver.error is not None:
            assert isinstance(driver.error, ContinuousError)
            return "refused later"
        world.glimpse()
        if not world.broken:
            world.compare()
        if world.broken:
            return f"WRONG: {world.broken[0]}"
        try:
            same = world.machine.disk.content(path) == left
        except OSError:
            same = False
        return "harmless" if same else "mended"


def _killer(step: str) -> Any:
    def kill(process: Process, call: str, path: str) -> None:
        sink = step == "sink" and (call == "sink" or "/_spark_metadata/" in path)
        if sink or (call == "link" and step in path):
            process.alive = False
            raise Killed

    return kill


def damaged(data: bytes, at: int, damage: str) -> bytes:
    """A file's content, with one of :data:`DAMAGE` at this byte."""
    if damage == "cut":
        return data[:at]
    flipped = data[at] ^ (1 if damage == "last bit" else 0x40)
    return data[:at] + bytes([flipped]) + data[at + 1 :]


def _files(world: World, folder: str) -> Iterator[str]:
    try:
        found = world.machine.disk.files(folder)
    except OSError:
        return
    yield from (path for path in found if not path.endswith((".tmp", ".crc")))


def _kind(path: str) -> str:
    parts = path.split("/")
    return parts[-2] if parts[-1][:1].isdigit() else parts[-1]
