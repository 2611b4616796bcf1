"""L0: random walks through a simulated query on a disk that loses what was not synchronised.

Each seed is one world: a query with up to three partitions and one of five sinks, some hundred
moves, and faults at any step of any of them. At its end the faults cease, a last run reads the
source to its end, and the sink is compared with the source.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence

from engine.coordinator.events import DrainAsked, StopAsked
from tests.faults import outages
from tests.faults.processes import EXECUTORS, IO_ERROR, KILL, POWER, SLEEP, Fuse
from tests.faults.query import Driver
from tests.faults.result import LevelResult
from tests.faults.world import TOGETHER, TRANSACTIONS, World

LEVEL = "L0 model, power loss"
MOVES_MAX = 60
FAULTS = (KILL, POWER, SLEEP, SLEEP, IO_ERROR)
STEPS_MAX = 40  # about as many as a commit, or a start, has


def run(seed: int, seconds: float) -> LevelResult:
    """Worlds with ascending seeds until the time is over.

    :param seconds: how long; a world that has begun is finished.
    """
    result = LevelResult(LEVEL)
    began = time.monotonic()
    number = seed
    while time.monotonic() - began < seconds:
        walk(number, result, sink={3: TRANSACTIONS, 5: TOGETHER, 7: TRANSACTIONS}.get(number % 8))
        number += 1
    result.seeds = [seed, number - 1]
    result.seconds = time.monotonic() - began
    return result


def walk(
    seed: int, result: LevelResult, faults: Sequence[str] = FAULTS, sink: str | None = None
) -> World:
    """One world from its beginning to its end; what it found begins with its seed, which is enough
    to walk it again.

    :param faults: the kinds of faults at single steps; more often if there are fewer kinds.
    :param sink: the kind of sink; None: any.
    """
    world = World(seed, sink)
    world.fuses = faults
    try:
        with world.installed():
            for _ in range(MOVES_MAX):
                move(world)
                if world.broken:
                    break
            else:
                world.finish()
    except Exception as exc:  # an invariant that the engine itself checks, for example
        said = str(exc) or traceback.extract_tb(exc.__traceback__)[-1].line
        world.broken.append(f"{type(exc).__name__}: {said}")
    result.faults.update(world.machine.faults)
    result.records += sum(world.source.feed.available)
    result.torn += world.torn
    result.zombie_writes += world.zombie_writes
    for found in world.broken:
        result.blame(f"seed {seed}: {found}")
    return world


def move(world: World) -> None:
    """One move, chosen at random."""
    driver = world.current()
    chance = world.chance
    if world.rewindable and chance.random() < (0.3 if driver is None or not driver.awake else 0.01):
        if driver is not None and not driver.awake:
            world.pass_time(11)
        world.rewind(fuse(world, 0.2))
    if driver is None or chance.random() < (0.02 if driver.awake else 0.3):
        if driver is not None and not driver.awake:
            world.pass_time(11)  # its lease expires
        if not world.start_driver(fuse(world, 0.25)).started:
            world.pass_time(chance.choice([1, 11]))
        return
    chance.choices(MOVES, WEIGHTS)[0](world, driver)


def _epoch(world: World, driver: Driver) -> None:
    """All that makes an epoch, with a fault perhaps at any step."""
    chance = world.chance
    world.source.feed.add(chance.randint(0, 4))
    _messages(world, driver)
    for task in driver.tasks:
        world.read(task, chance.randint(0, 5))
    world.elapse(driver)
    while world.markers:
        world.mark(0)
    for task in driver.tasks:
        world.report(task, fuse(world, 0.04))
    _messages(world, driver)
    world.carry_out(driver, fuse(world, 0.3))


def _messages(world: World, driver: Driver) -> None:
    chance = world.chance
    for _ in range(len(world.inbox)):
        index = chance.randrange(len(world.inbox)) if chance.random() < 0.3 else 0
        late = world.inbox[index].run_id != driver.run_id
        if chance.random() < (0.1 if late else 0.9):
            world.deliver(index, repeat=chance.random() < 0.1)
        else:
            world.inbox.append(world.inbox.pop(index))


def _produce(world: World, driver: Driver) -> None:
    world.source.feed.add(world.chance.randint(1, 5))


def _read(world: World, driver: Driver) -> None:
    world.read(world.chance.choice(driver.tasks), world.chance.randint(1, 4))


def _report(world: World, driver: Driver) -> None:
    """Any task, also one whose driver is dead."""
    every = [task for each in world.drivers for task in each.tasks if task.alive]
    if every:
        world.report(world.chance.choice(every), fuse(world, 0.1))


def _mark(world: World, driver: Driver) -> None:
    if world.markers:
        world.mark(0)


def _elapse(world: World, driver: Driver) -> None:
    for each in world.awake_drivers():
        world.elapse(each)


def _commit(world: World, driver: Driver) -> None:
    for each in world.awake_drivers():
        world.carry_out(each, fuse(world, 0.2))


def _glimpse(world: World, driver: Driver) -> None:
    world.glimpse()


def _time(world: World, driver: Driver) -> None:
    world.pass_time(world.chance.choice([1, 3, 25]))


def _jump(world: World, driver: Driver) -> None:
    world.machine.faults["clock jump"] += 1
    world.machine.clock.jump(world.chance.choice([-3600, -30, 30, 3600]))


def _wake(world: World, driver: Driver) -> None:
    sleeping = [each for each in world.machine.processes if each.alive and not each.awake]
    if sleeping:
        world.wake(world.chance.choice(sleeping))


def _freeze(world: World, driver: Driver) -> None:
    world.machine.faults[SLEEP] += 1
    driver.frozen = True


def _kill(world: World, driver: Driver) -> None:
    world.machine.faults[KILL] += 1
    driver.die()


def _lose_task(world: World, driver: Driver) -> None:
    world.machine.faults["task killed"] += 1
    world.lose_task(world.chance.choice(driver.tasks))


def _power(world: World, driver: Driver) -> None:
    world.machine.faults[POWER] += 1
    world.machine.lose_power()


def _slow(world: World, driver: Driver) -> None:
    """Each call to the checkpoint's storage takes so many seconds from now on."""
    world.machine.faults["slow storage"] += 1
    world.machine.weather.delay_s = world.chance.choice([0.0, 0.01, 0.1, 0.5])


def _outage(world: World, driver: Driver) -> None:
    place = world.chance.choice(outages.PLACES)
    seconds = world.chance.choice(outages.SECONDS)
    if place == EXECUTORS:
        seconds = outages.REPLACED_AFTER_S
    outages.survive(world, driver, place, seconds)


def _prune(world: World, driver: Driver) -> None:
    world.prune(world.chance.randint(2, 4), fuse(world, 0.3))


def _end(world: World, driver: Driver) -> None:
    world.ask(driver, world.chance.choice([DrainAsked(), StopAsked()]))


MOVES, WEIGHTS = zip(
    (_epoch, 40),
    (_messages, 6),
    (_produce, 3),
    (_read, 6),
    (_report, 6),
    (_mark, 6),
    (_elapse, 4),
    (_commit, 6),
    (_glimpse, 5),
    (_time, 2),
    (_jump, 1),
    (_wake, 6),
    (_freeze, 1),
    (_kill, 1),
    (_lose_task, 1),
    (_power, 1),
    (_slow, 0.5),
    (_outage, 0.3),
    (_prune, 2),
    (_end, 1),
    strict=True,
)


def fuse(world: World, likely: float) -> Fuse | None:
    """A fault within the next steps, or none."""
    chance = world.chance
    if chance.random() >= likely:
        return None
    return Fuse(chance.choice(world.fuses), chance.randint(1, STEPS_MAX))
