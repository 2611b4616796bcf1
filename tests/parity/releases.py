"""``releases.json``: how many random trees were compared with which release of Spark.

Each run is kept, under its release: a line says what was compared, and how much. Those of the
newest state add up, and so do those of all earlier states.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import engine.expressions
import engine.plan

PATH: Final = Path(__file__).with_suffix(".json")


def code() -> int:
    """Another number whenever the code of expressions, or what makes them of Spark's plans, has
    changed, and the same for all who have the same."""
    folders = (Path(engine.expressions.__file__).parent, Path(engine.plan.__file__).parent)
    files = (path for folder in folders for path in sorted(folder.rglob("*.py")))
    return zlib.crc32(b"".join(path.read_bytes() for path in files))


@dataclass(frozen=True)
class State:
    """What is compared.

    :param spark: its version, e.g. 4.2.0.
    :param java: that Spark runs on.
    """

    spark: str
    java: str
    code: int = field(default_factory=code)

    @property
    def release(self) -> str:
        """That of the version, e.g. 4.2."""
        return self.spark.rpartition(".")[0]


@dataclass(frozen=True)
class Counts:
    """How much was compared.

    :param values: rows times trees.
    :param differing: how many of the trees.
    """

    trees: int = 0
    values: int = 0
    differing: int = 0

    def __add__(self, other: Counts) -> Counts:
        """The counts of both."""
        return Counts(
            self.trees + other.trees, self.values + other.values, self.differing + other.differing
        )


@dataclass(frozen=True)
class Run:
    """A run, as far as it went."""

    state: State
    seed: int
    counts: Counts


def load() -> dict[str, list[Run]]:
    """Release → its runs, the latest begun last."""
    found = json.loads(PATH.read_text(encoding="utf-8"))
    return {
        release: [
            Run(State(**each["state"]), each["seed"], Counts(**each["counts"])) for each in runs
        ]
        for release, runs in found.items()
    }


def record(run: Run) -> None:
    """Keep a run, or how far it is by now: a seed counts once for each state. Others may record at
    the same time."""
    with _alone():
        found = load()
        runs = found.setdefault(run.state.release, [])
        names = [(each.state, each.seed) for each in runs]
        if (run.state, run.seed) in names:
            runs[names.index((run.state, run.seed))] = run
        else:
            runs.append(run)
        _write(found)


def now_and_before(runs: Iterable[Run]) -> tuple[State, Counts, Counts]:
    """The state that was begun last, what was compared in it, and in all states before."""
    every = list(runs)
    newest = every[-1].state
    now = sum((run.counts for run in every if run.state == newest), Counts())
    before = sum((run.counts for run in every if run.state != newest), Counts())
    return newest, now, before


def _write(found: Mapping[str, list[Run]]) -> None:
    parts = []
    for release in sorted(found):
        lines = ",\n".join(f"    {json.dumps(asdict(run))}" for run in found[release])
        parts.append(f"  {json.dumps(release)}: [\n{lines}\n  ]")
    beside = PATH.with_suffix(".new")
    beside.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    beside.replace(PATH)


@contextmanager
def _alone() -> Iterator[None]:
    """The folder's lock, which no file has to be made for."""
    folder = os.open(PATH.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
