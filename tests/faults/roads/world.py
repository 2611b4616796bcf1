"""L5: a query from one real server to another, and what can befall both.

The engine runs on threads in a process of its own, of which whatever comes to mind befalls one
after the other: it is killed at a named place or at any time; it is suspended until another has
taken over, and woken up; it stays away with something prepared; a task fails; a server is killed,
suspended, or away for minutes. Meanwhile records go into the source. Then a last process goes on
to the end, and what a reader of the sink sees is compared with what went in.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from engine.checkpoint.checkpoint import Checkpoint
from tests.faults.result import LevelResult, fits_no_more
from tests.faults.roads import driver
from tests.faults.roads.driver import DEADLINE_S, LEASE_S, Driver
from tests.faults.roads.road import Road, Server, Setup, road_of
from tests.servers.process import NoServerError
from tests.waiting import wait_until

FAULTS_A_WORLD = 25
FAULTS_A_MUTANT = 6
WORLDS_MAX = 12
KILLED, ANY_TIME, AWAY = "killed at a place", "killed at any time", "away"
FAILED, ZOMBIE = "a task failed", "suspended and replaced"
CHANCES: Final = {KILLED: 45, ANY_TIME: 10, AWAY: 5, FAILED: 10, ZOMBIE: 5}
SERVER_CHANCES: Final = {"killed": 5, "suspended": 5, "away": 1}
"""Of each server."""
_AT_A_PLACE: Final = 0.7
"""So many of those that are suspended are so between two steps, the others at any time."""


def run(
    seed: int, road: str, faults: int, *, away_s: float = 5.0, mutants: bool = False
) -> LevelResult:
    """So many faults; and each mutant until it is caught.

    :param road: see :func:`tests.faults.roads.road.module_of`.
    :param away_s: how long a server is away.
    """
    driver.preload(road)
    way = road_of(road)()
    result = LevelResult(way.level, seeds=[seed])
    chance = Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="continuous-faults-"))
    try:
        with way.serving(folder):
            for number in range(-(-faults // FAULTS_A_WORLD)):
                world = _World(way, folder / f"w{number}", result, chance, away_s)
                world.play(min(FAULTS_A_WORLD, faults - number * FAULTS_A_WORLD))
            for mutant in way.mutants if mutants else ():
                found = _hunt(mutant, way, folder, chance)
                if fits_no_more(found):
                    result.blame(f"mutant {mutant!r} does not fit the code any more: {found}")
                    found = None
                result.mutants[mutant] = None if found is None else found[:110]
    except NoServerError as exc:
        result.skipped = str(exc)
    finally:
        shutil.rmtree(folder)
    return result


def _hunt(mutant: str, road: Road, folder: Path, chance: Random) -> str | None:
    """Play with a mutant until it is caught; how, or None."""
    for number in range(WORLDS_MAX):
        result = LevelResult("")
        name = f"m{list(road.mutants).index(mutant)}-{number}"
        _World(road, folder / name, result, chance, 5.0, mutant).play(FAULTS_A_MUTANT)
        if result.broken:
            return result.broken[0].partition(": ")[2]
    return None


class _World:
    def __init__(
        self,
        road: Road,
        folder: Path,
        result: LevelResult,
        chance: Random,
        away_s: float,
        mutant: str = "",
    ) -> None:
        folder.mkdir()
        self._road, self._result, self._chance, self._away_s = road, result, chance, away_s
        where = road.make(f"{road.level}-{folder.name}".lower().replace(" ", "-"))
        self._setup = Setup(str(folder), type(road), where, mutant)
        self._checkpoint = Checkpoint(self._setup.checkpoint)
        self._acts: dict[str, Callable[[], None]] = {
            KILLED: self._kill_at,
            ANY_TIME: self._kill,
            AWAY: lambda: self._stay_away(lambda: _pause(chance.uniform(0.5, 2.0))),
            FAILED: self._fail,
            ZOMBIE: self._replace,
        }
        self._started_s: float | None = None
        self._chances = dict(CHANCES)
        for name, server in road.servers.items():
            self._befalls_server(name, server)
        for name, meanwhile in road.meanwhile(self._setup, chance.random).items():
            self._acts[name] = lambda act=meanwhile.act: self._stay_away(act)
            self._chances[name] = meanwhile.chance
        by = road.brought_out.get(mutant, ())
        places = tuple(each for each in by if each in road.places)
        self._places, self._between = places or road.places, places or road.between
        if by:
            self._chances = dict.fromkeys(set(by).difference(places) or (KILLED,), 1)

    def play(self, faults: int) -> None:
        try:
            with self._road.feeding(self._setup):
                self._driver = Driver(self._setup)
                self._await_commit()
                for kind in self._chance.choices(
                    list(self._chances), list(self._chances.values()), k=faults
                ):
                    self._acts[kind]()
                    self._result.faults[kind] += 1
                    if (differs := self._road.differs(self._setup)) is not None:
                        raise AssertionError(f"behind {kind}: {differs}")
            self._await_commit()
            self._setup.drain.touch()
            self._driver.await_end()
            self._result.outcomes.update(self._road.at_end(self._setup))
            self._compare()
        except Exception as exc:
            self._result.broken.append(f"{self._setup.folder}: {type(exc).__name__}: {exc}")
        finally:
            self._driver.kill()

    # -- faults -----------------------------------------------------------------------------------

    def _kill_at(self) -> None:
        self._restart(f"{self._some_place(self._places)}:kill")
        # A place that this process does not come to: it is killed some time.
        self._driver.await_death(self._chance.uniform(1.0, 3.0))
        self._restart()
        self._await_commit()

    def _kill(self) -> None:
        _pause(self._chance.uniform(0.0, 0.3))
        self._restart()
        self._await_commit()

    def _stay_away(self, meanwhile: Callable[[], None]) -> None:
        self._restart(f"{self._some_place(self._between)}:kill")
        self._driver.await_death(5.0)
        self._driver.kill()
        meanwhile()
        self._restart()
        self._await_commit()

    def _fail(self) -> None:
        self._driver.signal(signal.SIGUSR1)
        self._await_commit()

    def _replace(self) -> None:
        if self._chance.random() < _AT_A_PLACE:
            self._restart(f"{self._some_place(self._between)}:stop")
            self._driver.await_stop(5.0)
        zombie = self._driver
        try:
            zombie.signal(signal.SIGSTOP)
            _pause(LEASE_S)
            self._driver = Driver(self._setup)
            self._await_commit()
            zombie.signal(signal.SIGCONT)
            zombie.await_end()
            self._await_commit()
        finally:
            if zombie is not self._driver:
                zombie.kill()  # else this process would wait for it in the end

    def _befalls_server(self, name: str, server: Server) -> None:
        def kill(gone_s: float = 0.0) -> None:
            server.process.kill()
            _pause(gone_s)
            server.start()
            self._await_commit()

        def suspend(gone_s: float | None = None) -> None:
            server.process.suspend()
            _pause(self._chance.uniform(0.5, 4.0) if gone_s is None else gone_s)
            server.process.resume()
            self._await_commit()

        acts = {"killed": kill, "suspended": suspend, "away": lambda: kill(self._away_s)}
        if name in self._road.forgetful:
            acts = {"suspended": suspend, "away": lambda: suspend(self._away_s)}
        for what, act in acts.items():
            self._acts[f"{name} {what}"] = act
            self._chances[f"{name} {what}"] = SERVER_CHANCES[what]

    def _some_place(self, places: Sequence[str]) -> str:
        """And one of its visits."""
        return f"{self._chance.choice(places)}:{self._chance.choice(self._road.visits)}"

    def _restart(self, armed: str = "") -> None:
        self._driver.kill()
        self._driver = Driver(self._setup, armed)
        self._started_s = None if armed else time.monotonic()

    def _await_commit(self) -> None:
        """Two, so that one of them has begun by now."""
        wanted = (self._checkpoint.commits.latest_id() or 0) + 2

        def has_come() -> bool:
            self._driver.check()
            newest = self._checkpoint.commits.latest_id() or 0
            if self._started_s is not None and newest >= wanted - 1:
                self._result.restart_ms.append((time.monotonic() - self._started_s) * 1000)
                self._started_s = None
            return newest >= wanted

        wait_until(has_come, "the query goes on", DEADLINE_S)

    # -- the end ----------------------------------------------------------------------------------

    def _compare(self) -> None:
        went_in, came_out = self._road.went_in(self._setup), self._road.came_out(self._setup)
        self._result.records += self._road.records(self._setup)
        lost, repeated = went_in - came_out, came_out - went_in
        if self._road.repeats:
            self._result.outcomes["records again, at least once"] += repeated.total()
            repeated = Counter(each for each in repeated.elements() if each not in went_in)
        for kind, found in (("lost", lost), ("repeated", repeated)):
            self._blame(kind, found)
        self._result.lost += lost.total()
        self._result.repeated += repeated.total()

    def _blame(self, kind: str, found: Counter[bytes]) -> None:
        if found:
            some = sorted(found)[:5]
            self._result.broken.append(f"{self._setup.folder}: {kind}: {len(found)}: {some}")


def _pause(seconds: float) -> None:
    """A fault has to last for a while."""
    threading.Event().wait(seconds)
