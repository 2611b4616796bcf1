"""Something is down for a while in simulated time, and one query has to come through it in place.

The restarts are granted by the engine's own policy; what moves the attempts here does what
engine.execution.execution does. Nothing else goes wrong meanwhile: so a query that gives up, or
does not commit another epoch when all is well again, has broken a promise.
"""

from __future__ import annotations

from engine.base.options import EngineOptions
from engine.coordinator.coordinator import Phase
from engine.errors import ContinuousError
from tests.faults.parts import LakeSink
from tests.faults.processes import EXECUTORS, SINK, SOURCE, STORAGE
from tests.faults.query import Driver
from tests.faults.world import World

PLACES = (SINK, SOURCE, STORAGE, EXECUTORS)
SECONDS = (30.0, 300.0, 3540.0)
REPLACED_AFTER_S = 60.0
HEALTHY_S = EngineOptions().restart_reset_after_s + 10.0  # else it goes on with the last outage
_PAUSE_S = 5.0  # shorter than a lease lasts
_TRIES_MAX = 100


def survive(world: World, driver: Driver, place: str, seconds: float) -> None:
    """The query is well for a while, then something is down for so long, then all is well."""
    if isinstance(world.sink, LakeSink):
        world.sink.changes = world.puts_off = False
    if not _is_well(world, driver) or not _commit_one(world, driver):
        return
    _pass(world, HEALTHY_S)
    if not _commit_one(world, driver) or driver.healthy_s < HEALTHY_S:
        return
    now_s = world.machine.clock.monotonic_s
    world.machine.faults[f"{place} is down"] += 1
    world.machine.weather.down = place
    until_s = now_s() + seconds
    try:
        if place == EXECUTORS:
            for task in list(driver.tasks):
                world.lose_task(task)
        while now_s() < until_s and driver.alive:
            world.source.feed.add(1)
            if not _advance(world, driver, until_s):
                _give_up(world, driver, f"after {seconds - until_s + now_s():.0f} s of {place}")
                return
            _pass(world, min(_PAUSE_S, max(until_s - now_s(), 0.0)))
    finally:
        world.machine.weather.down = None
    if not _commit_one(world, driver):
        _give_up(world, driver, f"after {place} was back")


def _is_well(world: World, driver: Driver) -> bool:
    """It is not if another has claimed the checkpoint, and sleeps before it does more: a restart in
    place is then refused."""
    return (
        driver.awake
        and driver.started
        and not driver.ended
        and driver.generation == world.newest_claim()
        and driver.coordinator.phase in (Phase.STARTING, Phase.RUNNING, Phase.REPLAYING)
    )


def _commit_one(world: World, driver: Driver) -> bool:
    """Whether another epoch is committed, within some tries."""
    before = driver.checkpoint.committed_epoch()
    for _ in range(_TRIES_MAX):
        world.source.feed.add(1)
        if not _advance(world, driver, None):
            return False
        if driver.checkpoint.committed_epoch() > before:
            return True
    return False


def _advance(world: World, driver: Driver, until_s: float | None) -> bool:
    """One epoch, or one more attempt; False if the query has given up."""
    if not driver.ended:
        _epoch(world, driver)
    while driver.ended and driver.alive:
        if not driver.run(driver.wind_up):
            return False
        if not driver.ended:
            return True  # the stream itself follows a replay
        error = driver.error
        if error is None:
            return False
        delay_s = driver.restart_delay_s(error)
        if delay_s is None:
            return False
        _pass(world, delay_s)
        _attempt(driver)
        if until_s is not None and world.machine.clock.monotonic_s() >= until_s:
            world.machine.weather.down = None  # it is over by the clock
            until_s = None
    return driver.alive


def _attempt(driver: Driver) -> None:
    try:
        driver.run(driver.start_again)
    except ContinuousError as exc:
        driver.error = exc


def _epoch(world: World, driver: Driver) -> None:
    for _ in range(2):
        world.epoch(driver, 10)
    if not driver.ended:
        world.carry_out(driver)


def _pass(world: World, seconds: float) -> None:
    """Time, with heartbeats now and then."""
    clock = world.machine.clock
    end_s = clock.monotonic_s() + seconds
    while (left_s := end_s - clock.monotonic_s()) > 0:
        clock.advance(min(left_s, _PAUSE_S))
        world.beat()


def _give_up(world: World, driver: Driver, when: str) -> None:
    world.broken.append(f"stuck: {driver.name} gave up {when}: {driver.error!r}")
    driver.die()
