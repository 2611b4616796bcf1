"""L2: the system calls of driver and tasks, one after the other, killed at or made to fail.

No hooks: strace kills the process at the K-th call of a kind that one of its threads makes, before
it takes effect, or has it fail. How many there are, a run without faults tells. The calls are
counted once from the first step of the process on, and for the driver a second time from its first
committed epoch on: strace counts per thread, and a thread of the start makes calls, too.
"""

from __future__ import annotations

import math
import random
import re
import shutil
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from engine.checkpoint.checkpoint import Checkpoint
from tests.faults import l2_full_disk, l2_server
from tests.faults.l2_oracle import SinkReader, SourceFiles, compare_all
from tests.faults.l2_query import Outcome, Plan, drive
from tests.faults.l2_server import STRACE, Server, Trace
from tests.faults.result import LevelResult

CALLS = (
    "openat",
    *("write", "pwrite64", "fsync", "fdatasync"),
    *("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat"),
    *("mkdir", "mkdirat"),
)
PLACES = {"driver": 10, "running": 3, "worker": 10}
"""Whose calls, and of how many epochs."""
KILL, ERRORS = "signal=SIGKILL", ("error=ENOSPC", "error=EIO")
PARTITIONS, RECORDS, EPOCHS = 2, 1_000, 10
INTERVAL_MS = 20
RATE = PARTITIONS * RECORDS * 1_000 // (EPOCHS * INTERVAL_MS)
_DEADLINE_S = 60.0
_CALL = re.compile(r"^(\d+) +(\w+)\(", re.M)


@dataclass(frozen=True)
class Point:
    """:param place: whose calls, from when on.
    :param k: the K-th call of a thread, from 1.
    :param what: as strace has it.
    """

    place: str
    call: str
    k: int
    what: str

    def trace(self, log: Path) -> Trace:
        return Trace(str(log), self.call, f"{self.call}:{self.what}:when={self.k}")

    @property
    def kind(self) -> str:
        who = "task" if self.place == "worker" else "driver"
        what = "kill -9" if self.what == KILL else self.what.partition("=")[2]
        return f"{what} at {self.call}, {who}"


SILENT = Point("worker", "openat", 1, KILL)
"""The task dies before it has called the coordinator, so only the launcher hears of it."""


def run(*, sample: int | None = None, seed: int = 1, jobs: int = 2) -> LevelResult:
    """Every point, or a sample of so many, and the full disk."""
    result = LevelResult("L2 system calls", seeds=[seed])
    if STRACE is None:
        result.skipped = "there is no strace"
        return result
    began_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        with Server(folder) as server:
            harness = _Harness(server, folder, result)
            points = harness.points()
            chance = random.Random(seed)
            chosen = points if sample is None else [SILENT, *spread(points, sample, chance)]
            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(harness.case, chosen))
            l2_full_disk.run(server, folder, result)
    finally:
        shutil.rmtree(folder)
    result.seconds = time.monotonic() - began_s
    return result


def spread(points: Sequence[Point], count: int, chance: random.Random) -> list[Point]:
    """A sample that has something of each kind before it has more of one."""
    kinds: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in chance.sample(points, len(points)):
        kinds[point.place, point.kind].append(point)
    ranked = [(rank, point) for each in kinds.values() for rank, point in enumerate(each)]
    ranked = chance.sample(ranked, len(ranked))
    return [point for _, point in sorted(ranked, key=lambda pair: pair[0])[:count]]


class _Harness:
    def __init__(self, server: str, folder: Path, result: LevelResult) -> None:
        self._server, self._folder, self._result = server, folder, result
        self._lock = threading.Lock()
        self._cases = 0
        self._source = SourceFiles(folder / "in", PARTITIONS)
        self._source.append(RECORDS)

    def points(self) -> list[Point]:
        """What runs without faults do, told by strace."""
        points = []
        for place, epochs in PLACES.items():
            plan, folder = self._plan()
            log = folder / "strace"
            trace = Trace(str(log), ",".join(CALLS))
            outcome = self._drive(replace(plan, **{place: trace}), folder)
            assert outcome is not None, "a run without faults was killed"
            assert outcome.error is None, outcome.error
            calls = Counter(_CALL.findall(_told(trace)))
            share = min(1.0, epochs / (Checkpoint(str(plan.checkpoint)).committed_epoch() + 1))
            most = dict.fromkeys(CALLS, 0)
            for (_, call), count in calls.items():
                most[call] = max(most[call], count)
            points += [
                Point(place, call, k, what)
                for call, count in most.items()
                for k in range(1, math.ceil(count * share) + 1)
                for what in (KILL, *ERRORS)
            ]
        return points

    def case(self, point: Point) -> None:
        """One fault, what a reader sees then, another start, and what it sees at the end."""
        plan, folder = self._plan()
        trace = point.trace(folder / "strace")
        reader = SinkReader(plan.out, plan.checkpoint, self._source)
        found = []
        outcome = self._drive(replace(plan, **{point.place: trace}), folder)
        fired = any(sign in _told(trace) for sign in ("INJECTED", "killed by SIGKILL"))
        found += self._judge(point, outcome, fired)
        torn = reader.look()
        if outcome is None or outcome.error is not None:
            again = self._drive(plan, folder)
            if again is None or again.error is not None:
                found.append(f"the next start: {again}")
        torn = torn or reader.look()
        with self._lock:
            result = self._result
            if fired:
                result.faults[point.kind] += 1
            if torn:
                result.torn += 1
                found.append(f"torn: {torn}")
            compare_all(result, plan.out, self._source.ends, str(point))
            result.broken += [f"{point}: {each}" for each in found]
        shutil.rmtree(folder)

    def _judge(self, point: Point, outcome: Outcome | None, fired: bool) -> list[str]:
        if outcome is None:
            expected = fired and point.what == KILL and point.place != "worker"
            return [] if expected else ["the driver has died"]
        if not outcome.ours:
            return [f"not an error of the engine: {outcome.error}"]
        if outcome.error is not None and not fired:
            return [f"without a fault: {outcome.error}"]
        if outcome.error is not None and point.what == KILL and outcome.restarts:
            return [f"a killed task ended the query: {outcome.error}"]
        return []

    def _plan(self) -> tuple[Plan, Path]:
        with self._lock:
            self._cases += 1
            folder = self._folder / f"case-{self._cases}"
        folder.mkdir()
        plan = Plan(
            server=self._server,
            source=self._source.folder,
            out=folder / "out",
            checkpoint=folder / "checkpoint",
            ends=self._source.ends,
            rows_per_second=RATE,
            interval_ms=INTERVAL_MS,
        )
        return plan, folder

    def _drive(self, plan: Plan, folder: Path) -> Outcome | None:
        child = l2_server.start(self._server, drive, plan, log=str(folder / "stderr"))
        outcome: Outcome | None = child.result()
        return outcome


def _told(trace: Trace) -> str:
    """What strace has seen, when it has ended; nothing if it was not needed."""
    log, deadline_s = Path(trace.log), time.monotonic() + _DEADLINE_S
    pause = threading.Event()
    while log.exists() and not trace.done.exists() and time.monotonic() < deadline_s:
        pause.wait(0.01)
    return log.read_text() if log.exists() else ""
