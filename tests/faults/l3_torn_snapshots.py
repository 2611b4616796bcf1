"""L3, state: every file of a checkpoint of a query with state, damaged at each byte, missing, or
swapped for another one.

A windowed count runs on threads and stops; something is damaged, it starts again, gets more
records, and drains. The outcome must be one of those of :mod:`tests.faults.l3_torn_files`: each
count is told once, and is that of a batch computation, or the query ends with an error of the
engine.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from engine.errors import ContinuousError
from tests.faults.l3_torn_files import DAMAGE, damaged
from tests.faults.result import LevelResult
from tests.simulation.counting import CountStory, counted
from tests.simulation.story import WAIT_S

LEVEL = "L3 damaged state"
MISSING, SWAPPED = "missing", "swapped"
_EPOCHS, _RECORDS, _MORE = 8, 9, 40
_FOLDERS = ("state", "offsets", "commits", "control", "metadata")


class Case(NamedTuple):
    """:param at: the byte; for a swapped file the number of the other one."""

    path: str
    damage: str
    at: int


def run(seed: int, *, seconds: float = math.inf, cases_max: int | None = None) -> LevelResult:
    """All cases, in an order of the seed, or as many as the limits allow."""
    result = LevelResult(LEVEL, seeds=[seed])
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="continuous-faults-"))
    try:
        story = Story(folder / "checkpoint")
        cases = _in_turn(story.cases(), Random(seed))
        for number, case in enumerate(cases[:cases_max]):
            if time.monotonic() - began > seconds:
                break
            story.try_out(case, folder / str(number), result)
        result.outcomes["of all possible damages"] = len(cases)
    finally:
        shutil.rmtree(folder)
    return result


def _in_turn(cases: Sequence[Case], chance: Random) -> list[Case]:
    """Whole files first, for they are few; then bytes, of a file of each folder in turn: most of
    all bytes are those of snapshots."""
    places, turns = list[tuple[int, float, Case]](), Counter[str]()
    for case in chance.sample(cases, len(cases)):
        folder = case.path.partition("/")[0]
        turns[folder] += 1
        places.append((turns[folder] if case.damage in DAMAGE else 0, chance.random(), case))
    return [case for *_, case in sorted(places)]


class Story:
    """A query that has stopped, to be started again as often as wanted."""

    def __init__(self, folder: Path) -> None:
        story = CountStory(folder)
        query = story.start(reducers=2)
        for _ in range(_EPOCHS):
            story.grow(query, _RECORDS)
        query.stop()
        self._folder, self._records = folder, story.records
        self._committed = dict(story.sink.committed)
        self.files: Mapping[str, bytes] = {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.relative_to(folder).parts[0] in _FOLDERS
        }

    def cases(self) -> list[Case]:
        state = [path for path in self.files if path.startswith("state/")]
        bytes_ = (
            Case(path, damage, at)
            for path, data in self.files.items()
            for at in range(len(data))
            for damage in DAMAGE
        )
        swapped = (
            Case(path, SWAPPED, other)
            for path in state
            for other in range(len(state))
            if state[other] != path
        )
        return [*bytes_, *swapped, *(Case(path, MISSING, 0) for path in self.files)]

    def try_out(self, case: Case, folder: Path, result: LevelResult) -> None:
        """Damage, start, compare."""
        shutil.copytree(self._folder, folder)
        where = folder / case.path
        if case.damage == MISSING:
            where.unlink()
        elif case.damage == SWAPPED:
            others = [data for path, data in self.files.items() if path.startswith("state/")]
            where.write_bytes(others[case.at])
        else:
            where.write_bytes(damaged(self.files[case.path], case.at, case.damage))
        left = where.read_bytes() if where.exists() else None
        outcome = self._start(folder)
        if outcome == "harmless" and (where.read_bytes() if where.exists() else None) != left:
            outcome = "mended"
        kind = case.path.partition("/")[0]
        result.faults[f"{case.damage} in {kind}"] += 1
        result.outcomes[outcome.partition(":")[0]] += 1
        result.records += 2 * (self._records + _MORE)
        if outcome.startswith("WRONG"):
            result.blame(f"{case.damage} at {case.at} of {case.path}: {outcome[7:]}")
        shutil.rmtree(folder)

    def _start(self, folder: Path) -> str:
        story = CountStory(folder)
        story.feed.add(self._records)
        story.sink.committed.update(self._committed)
        try:
            query = story.start(reducers=3)
            story.grow(query, _MORE)
            query.awaitEpoch(query.status["epoch"] + 1, WAIT_S)
            drained = query.drain(WAIT_S)
        except ContinuousError:
            return "refused"
        except Exception as exc:
            return f"WRONG: it crashed: {type(exc).__name__}: {exc}"
        if (error := query.exception()) is not None:
            return "refused later" if isinstance(error, ContinuousError) else f"WRONG: {error!r}"
        if not drained:
            return "WRONG: it does not drain"
        told = story.sink.rows()
        wanted = counted(story.records, 2, before_s=story.closed_before_s())
        if len(told) != len(story.sink.last()):
            return f"WRONG: repeated: {len(told) - len(story.sink.last())} windows"
        return "harmless" if story.sink.last() == wanted else self._difference(story, wanted)

    @staticmethod
    def _difference(story: CountStory, wanted: Mapping[object, int]) -> str:
        last = story.sink.last()
        others = [key for key in {*last, *wanted} if last.get(key) != wanted.get(key)]  # type: ignore[call-overload]
        return f"WRONG: lost: {len(others)} counts: {sorted(map(str, others))[:4]}"
