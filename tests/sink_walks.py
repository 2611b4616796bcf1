"""A sink in a world at random: runs that die, sleep and wake up late, tasks that go on writing, and
rewinds. A reader sees the rows of the committed epochs, each once, and whole epochs at any moment.

The world is the engine: it keeps what a checkpoint keeps, and starts, logs and commits in the order
in which the engine does. Each sink adds what it is driven by, and what others do to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from engine.errors import ConfigError, ContinuousError, StaleRunError

R = TypeVar("R")
"""A run of the query."""


class Dead(BaseException):
    """The process is gone: nothing tidies up."""


@dataclass(frozen=True)
class Epoch:
    """What was prepared and logged.

    :param messages: of its tasks.
    :param rows: of all of them, in their order.
    """

    number: int
    messages: Sequence[Any]
    rows: Sequence[Any]


class SinkWalk(ABC, Generic[R]):
    """See the module.

    :cvar places: at which a commit may be interrupted; ``settled`` those behind which it is there,
        ``locked`` those at which nobody else gets far.
    :cvar refusals: how a run may be told that it, or the rewind of it, does not go on.
    :ivar there: the epochs that a reader has to see.
    :ivar open: those that are logged, and not in the commit log; the sink may have them.
    :ivar asleep: runs that were given up, and will commit what they have logged.
    :ivar story: what has happened, for people.
    """

    places: ClassVar[Sequence[str]]
    settled: ClassVar[Collection[str]]
    locked: ClassVar[Collection[str]] = ()
    refusals: ClassVar[tuple[type[ContinuousError], ...]] = (StaleRunError,)

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.there: dict[int, Epoch] = {}
        self.open: list[Epoch] = []
        self.asleep: list[tuple[R, int, list[Epoch]]] = []
        self.run: R | None = None
        self.generation, self.timeline, self.drawn = -1, 0, 0
        self.story: list[str] = []
        self._telling: list[Epoch] = []
        self._meanwhile: Callable[[str], None] | None = None

    # -- the sink ---------------------------------------------------------------------------------

    @abstractmethod
    def begin(self) -> R:
        """Start a run of this generation and timeline, and commit all that is open."""

    @abstractmethod
    def write(self, run: R, epoch: int, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """The messages of tasks, each of which writes some rows, or none."""

    @abstractmethod
    def tell(self, run: R, epochs: Sequence[Epoch]) -> None:
        """Commit; epochs of one commit of the sink are :meth:`telling`."""

    @abstractmethod
    def take_back(self, to: int) -> None:
        """Rewind, by the newest generation.

        :raises ConfigError: it is not known any more which rows came later.
        """

    @abstractmethod
    def seen(self) -> list[Any]:
        """What a reader sees, sorted."""

    def draw(self) -> Any:
        """Another row."""
        self.drawn += 1
        return self.drawn

    def expected(self) -> list[Any]:
        """What it has to see."""
        return sorted(row for each in self.there.values() for row in each.rows)

    def must_go_back(self, to: int) -> bool:
        """Whether a rewind has to be possible."""
        return True

    def others(self) -> Sequence[Callable[[], None]]:
        """What others do to the sink; the more often a move is there, the more often it is made."""
        return ()

    def check_start(self) -> None:
        """What has to hold behind a start."""

    # -- the world --------------------------------------------------------------------------------

    @property
    def newest(self) -> int:
        """The newest committed epoch, -1 if there is none."""
        return max(self.there, default=-1)

    @property
    def logged(self) -> int:
        """The newest epoch of the offset log."""
        return max([self.newest, *(each.number for each in self.open)])

    def walk(self, moves: int) -> None:
        """So many moves, and a start at the end."""
        for _ in range(moves):
            own = [self._epoch] * 8 + [self.start] * 2 + [self.late, self.zombie, self.rewind]
            self.chance.choice([*own, *self.others()])()
            self.check()
        self.start()
        self.check()

    def reach(self, place: str) -> None:
        """A commit is at this place."""
        if self._meanwhile is not None and place in self.places:
            self._meanwhile(place)

    def telling(self, epochs: Sequence[Epoch]) -> None:
        """These are committed together now."""
        self._telling = list(epochs)

    def check(self) -> None:
        self._must(self.seen() == self.expected())

    def committed(self, epochs: Sequence[Epoch]) -> None:
        """They are in the sink."""
        for each in epochs:
            self.there.setdefault(each.number, each)

    def start(self) -> None:
        """Another run takes over."""
        self._give_up(f"start {self.generation + 1}")
        self.generation += 1
        self.run = self.begin()
        self.committed(self.open)
        self.open = []
        self.check_start()

    def late(self) -> None:
        """A run that was given up wakes up in its commit."""
        if self.asleep:
            run, timeline, epochs = self.asleep.pop(self.chance.randrange(len(self.asleep)))
            self.story.append(f"late {[each.number for each in epochs]} of {timeline}")
            with suppress(*self.refusals):
                self.tell(run, epochs)
                if timeline == self.timeline:
                    self.committed(epochs)

    def zombie(self) -> None:
        """A task of such a run goes on."""
        if self.asleep:
            run, _, epochs = self.chance.choice(self.asleep)
            self.story.append(f"zombie behind {epochs[-1].number}")
            with suppress(ContinuousError):
                self._prepare(run, epochs[-1].number + 1)

    def rewind(self) -> None:
        if self.newest < 0:
            return
        to = self.chance.randint(0, self.newest)
        self._give_up(f"rewind to {to} by {self.generation + 1}")
        self.generation += 1
        try:
            self.take_back(to)
        except ConfigError as exc:
            self.story.append(exc.message)
            self._must(not self.must_go_back(to))
            return
        if self.chance.random() < 0.3:
            self.take_back(to)
        self.timeline, self.open = self.generation, []
        self.there = {epoch: each for epoch, each in self.there.items() if epoch <= to}

    def _give_up(self, why: str) -> None:
        self.story.append(why)
        if self.run is not None and self.open:
            self.asleep.append((self.run, self.timeline, list(self.open)))
        self.run = None

    def _prepare(self, run: R, epoch: int) -> Epoch:
        sizes = [self.chance.choice((0, 0, 1, 2)) for _ in range(self.chance.randint(1, 3))]
        rows = [[self.draw() for _ in range(size)] for size in sizes]
        messages = self.write(run, epoch, rows)
        return Epoch(epoch, messages, [row for some in rows for row in some])

    def _epoch(self) -> None:
        if self.run is None:
            self.start()
        run, fate = self.run, self.chance.random()
        assert run is not None
        epoch = self._prepare(run, self.logged + 1)
        self.story.append(f"epoch {epoch.number} {epoch.rows} {fate:.2f}")
        if fate < 0.1:  # it is never logged
            self.run = None
            return
        self.open.append(epoch)
        if fate < 0.2:
            self._give_up("gives up")
        elif fate > 0.35:  # else it waits for the next one
            self._commit(run, fate)

    def _commit(self, run: R, fate: float) -> None:
        """:param fate: whether the run dies in it, or sleeps while others are there."""
        mine, generation, timeline = list(self.open), self.generation, self.timeline
        place, self._telling = self.chance.choice(self.places), []

        def meanwhile(at: str) -> None:
            if at in self.settled:
                self.committed(self._telling)
            if at != place:
                return
            self._meanwhile = None
            self.story.append(f"at {at}")
            self.check()
            if fate < 0.5 or at in self.locked:
                raise Dead
            for _ in range(self.chance.randint(1, 3)):
                self.chance.choice((self.start, self.rewind, *self.others()))()
                self.check()

        self._meanwhile = meanwhile if fate < 0.7 else None
        try:
            self.tell(run, mine)
        except Dead:
            self._give_up("dies")
        except self.refusals as exc:
            self.story.append(f"{type(exc).__name__}: {exc.message}")
            self.run = None if self.run is run else self.run
            self._must(self.generation > generation or self.is_borne(exc))
        else:
            if self.timeline == timeline:
                self.committed(mine)
            if self.run is run and fate < 0.85:  # else it dies in front of the commit log
                self.open = []
            elif self.run is run:
                self._give_up("dies behind it")
        finally:
            self._meanwhile = None

    def _must(self, holds: bool) -> None:
        assert holds, self.story

    def is_borne(self, error: ContinuousError) -> bool:
        """Whether a run is refused though no other one is there."""
        return False
