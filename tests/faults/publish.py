"""The page docs/reliability.md, made from a run of all levels."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import pyspark

from tests.faults.result import LevelResult, summary

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
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
  in random order, as many as the time allows.
- **L4**: a real Spark, with files and from Kafka to Kafka: Python workers, the daemon, the driver,
  the JVM and executors are killed, or stopped for a while.
- **L5**: roads from one real server to another (`tests/faults/roads/`): Apache Kafka in KRaft mode,
  Redis, a web service that heeds keys, an object store, and what else the connectors write to.
  The process of the query is killed at named places and at any time, suspended until another has
  taken over and woken up, kept away with something prepared; tasks fail; servers are killed,
  suspended, and away for more than a minute (moto's S3 has all in memory: it is suspended only).
  On the road to Kafka transactions time out meanwhile, some of an epoch perhaps when others are
  committed; on that to Redis what was staged is gone.
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
- The mutants run on L0, L3 and L5: they prove those three.
- L5 has one broker, so none that is elected in place of another. Kafka 4.3.1 was seen to break its
  own promise: a broker that is killed, and while it starts finds transactions that have timed out,
  may call them aborted without a marker in their partitions, and `read_committed` then shows them
  when their producer's id goes on. L5 keeps out of its way: transactions live for longer than the
  broker takes to start.
- At least once stays at least once: foreach and foreachBatch may see records again, and are only
  checked for loss.
- The kinds of faults that an inherited message or a duplicate is counted as are in the table:
  judge them yourself.
- Zero out of N is not zero: with 95 % confidence the rate of failures per fault is below 3/N.
"""


_COLUMNS = (
    *("level", "faults", "records", "lost", "repeated", "torn", "zombie writes"),
    *("recovery p50, p99 ms", "seeds"),
)


def page(results: Sequence[LevelResult]) -> str:
    """The text."""
    found = summary(results)
    faults = found["faults"]
    counts = (
        f"{found['lost']} lost, {found['repeated']} repeated, {found['torn']} torn epochs seen, "
        f"{found['zombie_writes']} zombie writes accepted; "
        f"{found['mutants_caught']} of {found['mutants']} mutants caught"
    )
    lines = [
        _HEAD,
        f"**{faults:,} faults, {found['records']:,} records: {counts}.**",
        "",
        f"{date.today():%Y-%m-%d}, {_machine()}.",
        f"The bound at 95 % is {3 / max(faults, 1):.5f} per fault.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "|---" * len(_COLUMNS) + "|",
        *map(_row, (result for result in results if result.faults or result.skipped)),
        "",
        "L1 measures from the kill of a process to its first new commit, start included; L4 from",
        "the kill of a Python worker to the first record of its partition in the next writer.",
        "",
        *_counted("what came of the faults", {each.level: each.outcomes for each in results}),
        "",
        "## Faults by kind",
        "",
        *_counted("kind", {each.level: each.faults for each in results}),
        "",
        _LEVELS,
        "## Mutants",
        "",
        "| wrong version | caught by |",
        "|---|---|",
        *(
            f"| {name} | {_cell(by or 'NOT CAUGHT')} |"
            for result in results
            for name, by in result.mutants.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _counted(what: str, levels: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A table of what was counted, by level."""
    return [
        f"| level | {what} | |",
        "|---|---|---|",
        *(
            f"| {level} | {kind} | {count:,} |"
            for level, counts in levels.items()
            for kind, count in sorted(counts.items())
        ),
    ]


def _row(result: LevelResult) -> str:
    if result.skipped is not None:
        return f"| {result.level} | not run: {result.skipped} | | | | | | | |"
    p50, p99 = result.percentiles()
    recovery = "" if p50 is None or p99 is None else f"{p50:,.0f}, {p99:,.0f}"
    counts = result.lost, result.repeated, result.torn, result.zombie_writes
    cells = [f"{result.faults.total():,}", f"{result.records:,}", *map(str, counts), recovery]
    return " | ".join([f"| {result.level}", *cells, _seeds(result.seeds)]) + " |"


def _seeds(seeds: Sequence[int]) -> str:
    return f"{seeds[0]}-{seeds[-1]}" if len(set(seeds)) > 1 else "".join(map(str, seeds[:1]))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _machine() -> str:
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, Spark {pyspark.__version__}"
    )
