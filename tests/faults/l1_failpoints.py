"""L1: real processes, killed by SIGKILL at every named place of the protocol, for every sink.

The engine runs on threads in a process that is forked for each case, with everything imported. It
is killed at the first, the fourth or the ninth visit of a place (:mod:`engine.base.failpoints`),
which is in the first, an early or a later epoch for the steps of a commit; what comes once per
start has no fourth visit. When all of these are played, the process that recovers is killed as
well. Then a last one goes on to the end of the source and the sink is read.

The page cache outlives ``kill -9``: this is not power loss, which is L0's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from engine.base import failpoints
from engine.checkpoint.checkpoint import Checkpoint
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.handle import ContinuousQuery
from tests.faults import sinks
from tests.faults.result import LevelResult
from tests.model import ONE_ATTEMPT, SCHEMA, Feed, ModelReader

LEVEL = "L1 kill -9 at named places"
PARTITIONS = 2
RECORDS = 12  # of each partition
VISITS = (1, 4, 9)
DEADLINE_S = 180.0
FAULTS_MIN = 10  # however slow the machine is
COME_BY = {
    "data.": (*sinks.FORMATS, *sinks.LAKES), "sinkLog.": tuple(sinks.FORMATS),
    "tableLog.": sinks.LAKES,
    "postgres.": (), "sqlalchemy.": (), "sourceLog.": (), "compaction.": (), "maintenance.": (),
}  # fmt: skip
"""Some places only some sinks come by. Some no sink does: that of a source, see L5, and those of
who looks after a table, who has tests of his own."""


class Case(NamedTuple):
    """Where the first process is killed, and where the second (nowhere: empty)."""

    sink: str
    first: str
    second: str


def run(seed: int, seconds: float) -> LevelResult:
    """Every place, visit and sink; then pairs, as many as the time allows."""
    result = LevelResult(LEVEL, seeds=[seed])
    began = time.monotonic()
    singles = len(_places())
    for number, case in enumerate(_cases(Random(seed))):
        if time.monotonic() - began > seconds and result.faults.total() >= FAULTS_MIN:
            break
        result.outcomes[f"of {singles} places, visits and sinks played"] = min(number + 1, singles)
        folder = Path(tempfile.mkdtemp(prefix="continuous-faults-"))
        try:
            try_out(case, folder, result)
        finally:
            shutil.rmtree(folder)
    return result


def _places() -> list[tuple[int, Case]]:
    """With the visit."""
    return [
        (visit, Case(sink, f"{name}:{visit}:kill", ""))
        for name in failpoints.NAMES
        for visit in VISITS
        for sink in sinks.SINKS
        if all(sink in those for places, those in COME_BY.items() if name.startswith(places))
    ]


def _cases(chance: Random) -> Iterator[Case]:
    shuffled = _places()
    chance.shuffle(shuffled)
    # First visits first: a short run has seen most places, if not for every sink.
    places = [case for _, case in sorted(shuffled, key=lambda place: place[0])]
    yield from places
    while True:
        first, second = chance.choice(places), chance.choice(failpoints.NAMES)
        yield first._replace(second=f"{second}:{chance.choice(VISITS)}:kill")


def try_out(case: Case, folder: Path, result: LevelResult) -> None:
    """One query, killed once or twice, to its end."""
    killed_s = None
    for armed in (case.first, case.second, ""):
        said, signalled = _in_process(armed, case.sink, folder)
        if killed_s is not None and "first_commit_s" in said:
            result.restart_ms.append((said["first_commit_s"] - killed_s) * 1000)
            killed_s = None
        if signalled:
            killed_s = time.monotonic()
            result.faults[f"killed at {armed.partition(':')[0]}"] += 1
        elif "error" in said:
            result.blame(f"{case}: {said['error']}")
            return
        if said.get("torn"):
            result.torn += 1
            result.blame(f"{case}: torn: a reader saw {said['torn']}")
        if not signalled and armed == "":
            break
    result.records += PARTITIONS * RECORDS
    for kind in ("lost", "repeated"):
        if said[kind]:
            result.blame(f"{case}: {kind}: {said[kind]}")


def _in_process(armed: str, sink: str, folder: Path) -> tuple[dict[str, Any], bool]:
    """Run the query in a forked process; what it said, and whether it was killed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        with os.fdopen(writing, "w", buffering=1) as out:
            try:
                failpoints.arm(armed)
                _query(sink, folder, out)
            except BaseException:
                out.write(json.dumps({"error": traceback.format_exc()}) + "\n")
            out.flush()
            os._exit(0)
    os.close(writing)
    watch = threading.Timer(DEADLINE_S, os.kill, (pid, signal.SIGKILL))
    watch.daemon = True
    watch.start()
    began = time.monotonic()
    with os.fdopen(reading) as lines:
        said: dict[str, Any] = {}
        for line in lines:
            said = json.loads(line) | said  # the first commit is the one that counts
    watch.cancel()
    watch.join()  # no thread may be there when the next process is forked
    signalled = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    if signalled and time.monotonic() - began >= DEADLINE_S:
        return said | {"error": f"it hung for {DEADLINE_S:g} s"}, False
    return said, signalled


# -- in the forked process ------------------------------------------------------------------------


def _query(sink: str, folder: Path, out: Any) -> None:
    def tell(**said: Any) -> None:
        out.write(json.dumps(said) + "\n")

    checkpoint = Checkpoint(str(folder / "checkpoint"))
    if sink not in sinks.AT_LEAST_ONCE:
        tell(torn=_torn(sinks.seen(sink, folder), checkpoint))
    feed = Feed(PARTITIONS)
    feed.available = [_logged(checkpoint)] * PARTITIONS
    execution = ContinuousExecution(_definition(feed, sink, folder, checkpoint), ThreadLauncher())
    execution.start()
    query = ContinuousQuery(execution, str)
    while min(feed.available) < RECORDS and query.isActive:
        feed.add(1)
        if query.awaitEpoch(execution.committed_epoch + 1, DEADLINE_S):
            tell(first_commit_s=time.monotonic())
    query.processAllAvailable()
    query.drain(DEADLINE_S)
    found = sinks.seen(sink, folder)
    wanted = Counter((p, seq) for p in range(PARTITIONS) for seq in range(RECORDS))
    repeated = found - wanted if sink not in sinks.AT_LEAST_ONCE else Counter()
    error = query.exception()
    if error is not None:
        tell(error=str(error))
    tell(lost=sorted(wanted - found), repeated=sorted(repeated))


def _definition(feed: Feed, sink: str, folder: Path, checkpoint: Checkpoint) -> QueryDefinition:
    return QueryDefinition(
        name=None,
        streams=(
            StreamBinding(
                Pipeline(SourceRelation("model", {}, SCHEMA), (), SCHEMA),
                ModelReader(feed),
                "model",
            ),
        ),
        sink=sinks.binding(sink, folder),
        checkpoint=checkpoint,
        epoch_interval_ms=0,
        options=ONE_ATTEMPT,
    )


def _logged(checkpoint: Checkpoint) -> int:
    """So many records of each partition have been read before."""
    newest = checkpoint.offsets.latest_id()
    entry = None if newest is None else checkpoint.offsets.get(newest)
    return 0 if entry is None else max(entry.offsets[0].values())  # type: ignore[union-attr]


def _torn(seen: Counter[Any], checkpoint: Checkpoint) -> list[int] | None:
    """What a reader sees now, if it is not what some epoch ends with."""
    counts = [sum(p == partition for p, _ in seen) for partition in range(PARTITIONS)]
    entries = map(checkpoint.offsets.get, checkpoint.offsets.ids())
    ends = [entry.offsets[0] for entry in entries if entry is not None]
    whole = [[0] * PARTITIONS, *([end[str(p)] for p in range(PARTITIONS)] for end in ends if end)]
    return None if counts in whole else counts
