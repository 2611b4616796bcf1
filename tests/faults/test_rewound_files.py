"""Who sleeps in the log of a files sink while the query is rewound changes nothing later on."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from engine.checkpoint.storage.fenced_storage import FencedStorage
from engine.errors import StaleRunError
from engine.sinks.files.file_sink_log import FileSinkLog, epoch_of
from engine.sinks.files.file_sink_rewind import FileSinkRewind
from tests.faults.processes import SLEEP, Fuse
from tests.faults.query import Driver
from tests.faults.world import World

LAST = 6
ENTRY = rf"link /out/_spark_metadata/{LAST}$"
MOVES_AWAY = r"replace /out/_spark_metadata/\.g|unlink /out/_spark_metadata/\d"
CHECKSUMS = rf"replace /out/_spark_metadata/\.{LAST}\.crc"


@pytest.fixture
def world() -> Iterator[World]:
    world = World(0, sink="files")
    world.rewindable, world.source.forgets, world.retain = True, False, 100
    world.begun_by_spark = world.source.begins_at_the_end = False
    with world.installed():
        yield world


def epoch(world: World, driver: Driver, fuse: Fuse | None = None) -> None:
    world.source.feed.add(2)
    world.epoch(driver, 2)
    world.carry_out(driver, fuse)
    world.glimpse()


def sleeper(world: World, at: str) -> Driver:
    """A run that falls asleep in the commit of the last epoch."""
    driver = world.start_driver()
    for _ in range(LAST):
        epoch(world, driver)
    epoch(world, driver, Fuse(SLEEP, 1, at))
    assert not driver.awake
    world.pass_time(11)
    return driver


def wake(world: World, driver: Driver) -> None:
    world.wake(driver)
    world.glimpse()
    assert isinstance(driver.error, StaleRunError)


def assert_whole(world: World) -> None:
    world.finish()
    assert world.broken == []


@pytest.mark.parametrize("seed", range(5))
def test_what_was_taken_back_does_not_come_back_with_a_power_loss(world: World, seed: int) -> None:
    driver = world.start_driver()
    for _ in range(LAST):
        epoch(world, driver)
    driver.die()
    world.pass_time(11)
    world.rewind(to_epoch=3)
    world.machine.disk.lose_power(Random(seed))
    world.glimpse()
    assert world.start_driver().started
    assert_whole(world)


@pytest.mark.parametrize("seed", range(5))
def test_a_log_that_was_rebuilt_is_not_rebuilt_again_after_a_power_loss(
    world: World, seed: int
) -> None:
    """What had been prepared for it came back, and the next rewind took it for its own."""
    driver = world.start_driver()
    for _ in range(LAST):
        epoch(world, driver)
    log = FileSinkLog(FencedStorage("/out/_spark_metadata"))
    sink = FileSinkRewind(log)
    position = sink.rewindPosition(3)
    for name in ("0", "1", "2.compact"):
        log.storage.delete(name)
    sink.rewind(3, position)
    world.machine.disk.lose_power(Random(seed))
    assert log.listing() == {3: "3.compact"}
    names = log.storage.files_below("rewound")
    assert all(epoch_of(name.partition("-")[0]) is not None for name in names), names


@pytest.mark.parametrize("at", [ENTRY, CHECKSUMS])
def test_a_run_that_wakes_up_while_another_one_is_under_way(world: World, at: str) -> None:
    driver = sleeper(world, at)
    world.rewind(to_epoch=3)
    another = world.start_driver()
    epoch(world, another)
    wake(world, driver)
    for _ in range(4):
        epoch(world, another)
    assert another.error is None
    assert_whole(world)


@pytest.mark.parametrize("at", [ENTRY, CHECKSUMS])
def test_a_run_that_wakes_up_behind_another_one(world: World, at: str) -> None:
    driver = sleeper(world, at)
    world.rewind(to_epoch=3)
    another = world.start_driver()
    for _ in range(4):
        epoch(world, another)
    wake(world, driver)
    epoch(world, another)
    assert another.error is None
    assert_whole(world)


@pytest.mark.parametrize("to_epoch", [3, LAST - 1])
def test_a_run_that_wakes_up_before_the_next_one_starts(world: World, to_epoch: int) -> None:
    """The reader would miss epochs between; or the sink would be ahead of the checkpoint."""
    driver = sleeper(world, ENTRY)
    world.rewind(to_epoch=to_epoch)
    wake(world, driver)
    assert world.start_driver().started
    assert_whole(world)


def test_a_rewind_that_sleeps_takes_nothing_back_of_the_run_that_has_finished_it(
    world: World,
) -> None:
    driver = world.start_driver()
    for _ in range(LAST):
        epoch(world, driver)
    driver.die()
    world.pass_time(11)
    asleep = world.rewind(Fuse(SLEEP, 1, MOVES_AWAY), to_epoch=3)
    assert asleep.asleep is not None
    world.pass_time(31)
    another = world.start_driver()
    for _ in range(3):
        epoch(world, another)
    world.wake(asleep)
    world.glimpse()
    epoch(world, another)
    assert another.error is None
    assert_whole(world)
