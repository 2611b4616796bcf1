"""Writes docs/reliability.md from what levels have found.

That is kept beside the page, in docs/reliability.json, so a run of one level replaces that level
alone; the page tells of each on which day and on which state of the engine it ran.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyspark

from tests.faults.result import LevelResult

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
DATA = PAGE.with_suffix(".json")
_HEAD = """\
# Reliability

Written by `make faults`: do not edit. It injects faults into the engine, compares what went in
with what came out, and fails if anything was lost, repeated in an exactly-once sink, torn, or
written by a fenced run.
"""
_LEVELS = """\
## What the levels do

- **L0**: the engine's coordinator, runner, logs, lease, recovery, retention and files sink on a
  simulated disk that loses, tears and reorders what was not synchronised; power failures, kills,
  suspensions and I/O errors at every file-system step, messages delayed and repeated, clocks that
  jump, rewinds, slow storage, processes that cannot be seen; a sink, a source, the storage or the
  executors that are down for up to an hour of simulated time. Every seed is one world.
- **L1**: a process with the whole engine is killed with SIGKILL before and after each named step,
  when it comes there for the first, the fourth and the ninth time, for every sink; then pairs:
  killed again while it recovers.
- **L2**: without hooks: `strace` kills the process at the K-th system call that touches the
  checkpoint or the sink, or lets the call fail with ENOSPC or EIO; and a disk that is really
  full.
- **L3**: each file of a checkpoint and of the files sink's log is cut, and flipped, at each byte;
  in random order, as many as the time allows. So is each of a query with state, whose snapshots are
  also taken away, and swapped for one another.
- **L4**: a real Spark, with files and from Kafka to Kafka: Python workers, the daemon, the driver,
  the JVM and executors are killed, or stopped for a while.
- **L4 hosts** (`PUBLISH=1 make test-cluster`): Spark's master, two workers, a driver and a standby
  in network namespaces with names and addresses of their own, and one disk. Cables are pulled out,
  which nobody is told, slowed, and plugged in again; hosts die. `plain` keeps nothing, `counts`
  sends rows from host to host by key. A task may be silent for 8 seconds, the lease lasts 3, Spark
  misses an executor after 20 seconds and a worker after 10.
- **L5**: roads from one real server to another (`tests/faults/roads/`): Apache Kafka in KRaft mode,
  Redis, a web service that heeds keys, an object store, and what else the connectors write to.
  The process of the query is killed at named places and at any time, suspended until another has
  taken over and woken up, kept away with something prepared; tasks fail; servers are killed,
  suspended, and away for more than a minute (moto's S3 has all in memory: it is suspended only).
  On the road to Kafka transactions time out meanwhile, some of an epoch perhaps when others are
  committed; on that to Redis what was staged is gone; on those to Delta the table is compacted. The
  one of MQTT is at least once: what came again is counted. Queries with state (windowed counts,
  sessions, a deduplication, an outer join, `transformWithState`) start each time with another
  number of tasks; what they have told and what they keep is compared with a batch computation, at
  the offsets committed last, behind every recovery.
- **day**: see above; a level like the others, `make faults LEVELS=day`.
- **Mutants**: wrong versions of the protocol, one at a time. A harness that does not catch them
  proves nothing.

## Honest limits

- `kill -9` is no power failure: what the process has written survives it. Only L0 loses
  unsynchronised data, and it does so by a model of a disk. No real machine was switched off.
- A run that is suspended in the very middle of a write finishes that one write when it wakes, after
  another run has taken over; it is not counted as a zombie write, a second one is. Logs are
  created and never overwritten, and the next start compares them, so that such a write is found,
  behind a rewind, too. The log of a files sink refuses it: the folder that it would come from is
  gone.
- L2 is a sample of all system calls, with one sink. L1 to L3 run on a local disk; checkpoints
  on S3 have tests against a server of its own, and no faults.
- L4 hosts has played each of its faults once (the table of faults by kind says so).
  Namespaces share one kernel, one clock and one disk.
- The mutants run on L0, L3 and L5: they prove those three.
- L5 has one broker, so none that is elected in place of another, and its Kafka is 4.2.1: 4.3.0 and
  4.3.1 break their own promise. While a partition has no leader, as those of a single broker that
  starts again, they forget to mark transactions in it (KAFKA-20734): what was committed was lost,
  and what was aborted was seen.
- At least once stays at least once: foreach and foreachBatch may see records again, and are only
  checked for loss.
- Some faults are harder than others: a message of an older run, or one that is repeated, is a
  fault as well. The table of faults by kind says how many of each there were.
"""


_COLUMNS = (
    *("level", "faults", "bound", "records", "lost", "repeated", "torn", "zombie writes"),
    *("recovery p50, p99 ms", "seeds", "day", "engine"),
)
_COUNTS = ("lost", "repeated", "torn", "zombie_writes")
_TIME = "ms until all is back: "
Record = dict[str, Any]
"""What is kept of a level: JSON."""


def publish(results: Sequence[LevelResult]) -> None:
    """Replace these levels in what was found before, and write all of it. Levels that could not run
    replace nothing."""
    known: dict[str, Record] = json.loads(DATA.read_text()) if DATA.exists() else {}
    known |= {each.level: record(each) for each in results if each.skipped is None}
    DATA.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(known), encoding="utf-8")


def record(result: LevelResult) -> Record:
    """Of a level that has run just now."""
    return {
        "day": date.today().isoformat(),
        "engine": _engine(),
        "faults": dict(sorted(result.faults.items())),
        "outcomes": dict(sorted(result.outcomes.items())),
        "figures": result.figures,
        "records": result.records,
        **{name: getattr(result, name) for name in _COUNTS},
        "recovery_ms": result.percentiles(),
        "seeds": _seeds(result.seeds),
        "mutants": result.mutants,
        "broken": result.broken,
    }


def page(known: Mapping[str, Record]) -> str:
    """The text.

    :param known: by level, in the order in which they are shown.
    """
    levels = {level: _times_apart(known[level]) for level in sorted(known)}
    faults = sum(sum(each["faults"].values()) for each in levels.values())
    total = {name: sum(each[name] for each in levels.values()) for name in ("records", *_COUNTS)}
    mutants = [by for each in levels.values() for by in each["mutants"].values()]
    caught = sum(by is not None for by in mutants)
    counts = (
        f"{total['lost']} lost, {total['repeated']} repeated, {total['torn']} torn epochs seen, "
        f"{total['zombie_writes']} zombie writes accepted; "
        f"{caught} of {len(mutants)} mutants caught"
    )
    lines = [
        _HEAD,
        f"**{faults:,} faults, {total['records']:,} records: {counts}.**",
        "",
        f"{_machine()}.",
        "",
        "Zero out of N is not zero: `bound` is what the rate of failures per fault is below,",
        "with a confidence of 95 %, of that level alone: 3/N. A simulated fault costs little, and",
        "so there are many; one on a real Spark counts for more than its number.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "|---" * len(_COLUMNS) + "|",
        *(_row(level, each) for level, each in levels.items() if each["faults"]),
        "",
        "`engine` is how git calls the state of that folder which the level ran on.",
        "L1 measures from the kill of a process, and L5 from the start of the next one, to the",
        "first new commit; L4 from the kill of a Python worker to the first record of its",
        "partition in the next writer.",
        "",
        *(
            f"- **Broken** in {level}: {_cell(text)}"
            for level, each in levels.items()
            for text in each["broken"]
        ),
        "",
        *_counted("what came of the faults", "outcomes", levels),
        "",
        "## How long until all is back",
        "",
        "From a kill until a new process is there and all queries commit again, ms, the median.",
        "Of hosts: from the fault, or its end, until new records are in the sink, each once, on a",
        "machine that was busy with other work.",
        "",
        *_counted("after", "times", levels),
        "",
        "## A day in an hour",
        "",
        "Counts by key and hour, and sessions with a gap of ten minutes, of a day whose time goes",
        "by 24 times as fast, some rows out of order and some late. In the evening a worker is",
        "killed, and then the driver. All that has closed is what a batch computation finds, and",
        "neither memory nor checkpoints may have grown by more than 15 % from the morning to the",
        "afternoon. Memory is what is resident, so what processes share counts for each.",
        "",
        *_counted("what was measured", "figures", levels),
        "",
        "## Faults by kind",
        "",
        *_counted("kind", "faults", levels),
        "",
        _LEVELS,
        "## Mutants",
        "",
        "| wrong version | of | caught by |",
        "|---|---|---|",
        *(
            f"| {name} | {level} | {_cell(by or 'NOT CAUGHT')} |"
            for level, each in levels.items()
            for name, by in each["mutants"].items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _times_apart(found: Record) -> Record:
    """Of what came of the faults some are times: no counts to be read with the others."""
    outcomes = found["outcomes"]
    times = {
        kind.removeprefix(_TIME): ms for kind, ms in outcomes.items() if kind.startswith(_TIME)
    }
    counts = {kind: count for kind, count in outcomes.items() if not kind.startswith(_TIME)}
    return {**found, "outcomes": counts, "times": times}


def _counted(what: str, which: str, levels: Mapping[str, Record]) -> list[str]:
    """A table of what was counted, by level."""
    return [
        f"| level | {what} | |",
        "|---|---|---|",
        *(
            f"| {level} | {kind} | {count:,} |"
            for level, each in levels.items()
            for kind, count in each.get(which, {}).items()  # older records lack some
        ),
    ]


def _row(level: str, found: Record) -> str:
    p50, p99 = found["recovery_ms"]
    faults = sum(found["faults"].values())
    recovery = "" if p50 is None or p99 is None else f"{p50:,.0f}, {p99:,.0f}"
    cells = [
        *(level, f"{faults:,}", f"{3 / faults:.5f}", f"{found['records']:,}"),
        *(str(found[name]) for name in _COUNTS),
        *(recovery, found["seeds"], found["day"], found["engine"]),
    ]
    return f"| {' | '.join(cells)} |"


def _engine() -> str:
    """Which state of the engine this is: what is not committed counts as another one."""
    root = PAGE.parents[1]
    tree = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD:engine"], cwd=root, capture_output=True, text=True
    )
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "engine"], cwd=root)
    if tree.returncode:
        return "not known"
    return tree.stdout.strip() + "+" * bool(changed.returncode)


def _seeds(seeds: Sequence[int]) -> str:
    return f"{seeds[0]}-{seeds[-1]}" if len(set(seeds)) > 1 else "".join(map(str, seeds[:1]))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _machine() -> str:
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, Spark {pyspark.__version__}"
    )
