"""What differs from one road to the next: its servers, its ends, and what else can befall it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol

from engine.execution.definition import StreamBinding
from engine.pipeline.pipeline import Pipeline
from engine.sinks.contract import SinkBinding
from tests.servers.process import Process

PLACES = (
    "prepare.before", "prepare.after", "walCommit.after", "commitSink.before", "commitSink.after",
    "commitOffsets.after", "report.before", "report.after", "setAside.before", "setAside.after",
    "claim.after", "lost.after",
)  # fmt: skip
BETWEEN = ("prepare.after", "walCommit.after", "commitSink.before")
"""Where what is prepared is not ended."""


@dataclass(frozen=True)
class Setup:
    """A world: what the process of its query needs to know.

    :param folder: for its checkpoint and what it says.
    :param where: what :meth:`Road.make` has made for it.
    """

    folder: str
    road: type[Road]
    where: Mapping[str, str]
    mutant: str = ""

    @property
    def drain(self) -> Path:
        """The query drains when this file is there."""
        return Path(self.folder) / "drain"

    @property
    def checkpoint(self) -> str:
        return str(Path(self.folder) / "checkpoint")


class Server(Protocol):
    """One that can be killed and started again with all that it has."""

    @property
    def process(self) -> Process: ...

    def start(self) -> None:
        """And wait until it serves."""


def module_of(road: str) -> str:
    """:param road: ``module``, which has a ``ROAD``, or ``module:Road``."""
    return f"tests.faults.roads.{road.partition(':')[0]}"


def road_of(road: str) -> type[Road]:
    """The class that :func:`module_of`'s parameter names."""
    found: type[Road] = getattr(import_module(module_of(road)), road.partition(":")[2] or "ROAD")
    return found


class Road(ABC):
    """Made once for all its worlds; ``stream`` and ``sink`` are called in the query's process.

    :cvar level: its name on the page.
    :cvar places: failpoints (:mod:`engine.base.failpoints`) at which the process is killed.
    :cvar between: those where it is killed to stay away with something prepared.
    :cvar forgetful: names of servers that have nothing any more when they were killed: they are
        suspended instead.
    :cvar repeats: whether what it promises, at least once, lets records come again: they are
        counted, and no fault.
    :cvar mutants: by name: what puts a wrong version in place, in the query's process.
    :cvar visits: at which visit of a place something happens to the process.
    :cvar brought_out: mutants that some kinds of faults, or some of the places, bring to light,
        which chance would seldom draw; places alone: a kill there.
    :ivar servers: by the name of each; there inside :meth:`serving`.
    """

    level: ClassVar[str]
    places: ClassVar[Sequence[str]] = PLACES
    between: ClassVar[Sequence[str]] = BETWEEN
    forgetful: ClassVar[Collection[str]] = ()
    repeats: ClassVar[bool] = False
    mutants: ClassVar[Mapping[str, Callable[[], None]]] = {}
    visits: ClassVar[Sequence[int]] = (1, 2, 3, 5)
    brought_out: ClassVar[Mapping[str, Collection[str]]] = {}

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}

    @abstractmethod
    def serving(self, folder: Path) -> AbstractContextManager[None]:
        """Its servers run while the block does.

        :param folder: for what they keep.
        :raises NoServerError: they cannot be had here.
        """

    @abstractmethod
    def make(self, name: str) -> dict[str, str]:
        """Make what a world has for itself; :attr:`Setup.where`."""

    @abstractmethod
    def feeding(self, setup: Setup) -> AbstractContextManager[None]:
        """Write new records into the source while the block runs, each with a text of its own."""

    @abstractmethod
    def went_in(self, setup: Setup) -> Counter[bytes]:
        """Those texts."""

    def records(self, setup: Setup) -> int:
        """How many that were."""
        return self.went_in(setup).total()

    @abstractmethod
    def came_out(self, setup: Setup) -> Counter[bytes]:
        """Those that a reader of the sink sees."""

    @staticmethod
    @abstractmethod
    def stream(setup: Setup) -> StreamBinding:
        """What the query reads."""

    @classmethod
    def streams(cls, setup: Setup) -> tuple[StreamBinding, ...]:
        """The same, if it reads several."""
        return (cls.stream(setup),)

    @classmethod
    def stages(cls, setup: Setup) -> tuple[Pipeline, ...]:
        """What follows behind exchanges."""
        return ()

    @staticmethod
    @abstractmethod
    def sink(setup: Setup) -> SinkBinding:
        """What it writes to."""

    @classmethod
    def options(cls, setup: Setup) -> Mapping[str, Any]:
        """The engine's options of this start, beside those that all have."""
        return {}

    def differs(self, setup: Setup) -> str | None:
        """How what came out differs, behind a recovery, from what has to; None: it does not, or
        only the end tells."""
        return None

    def meanwhile(self, setup: Setup, draw: Callable[[], float]) -> Mapping[str, Meanwhile]:
        """What can happen while the query is away with something prepared.

        :param draw: a chance between 0 and 1.
        """
        return {}

    def at_end(self, setup: Setup) -> Mapping[str, int]:
        """Look at what a drain has left behind, and count it for the page."""
        return {}


@dataclass(frozen=True)
class Meanwhile:
    """
    :param chance: how often, beside :data:`tests.faults.roads.world.CHANCES`.
    """

    chance: int
    act: Callable[[], None]
