"""``python -m bench``: every engine in a process of its own, in turn, some times.

Prints medians and ratios; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from bench import (
    cold,
    commits,
    coordinator,
    count_latency,
    counts_in_partitions,
    deduplicated,
    epochs,
    exchange,
    expressions,
    functions,
    idle,
    joined,
    joined_latency,
    kafka_delta,
    kafka_functions,
    kafka_latency,
    kafka_parquet,
    kafka_postgres,
    kafka_throughput,
    latency,
    restarts,
    sensors,
    snapshots,
    state_restarts,
    throughput,
    windowed_counts,
    windows,
    wire,
)
from bench.measure import spread
from bench.publish import publish

Runs = Mapping[str, list[dict[str, float]]]
Medians = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Case:
    """One benchmark.

    :param engines: what is measured in turn. If ``compares``, the first is ours and the others are
        what it is compared with.
    :param title: what, and in which unit.
    :param more_is_better: of its figures.
    """

    engines: tuple[str, ...]
    title: str
    compares: bool = False
    more_is_better: bool = False


CASES = {
    "throughput": Case(
        throughput.ENGINES,
        "rate → filter → 3 projections → noop, 2 partitions: rows per second",
        compares=True,
        more_is_better=True,
    ),
    "latency": Case(
        latency.ENGINES, "rate at 1,000 rows/s, row's timestamp to the writer: ms", compares=True
    ),
    "functions": Case(
        functions.ENGINES,
        "rate at 1,000 rows/s, epochs of 3 s, row's timestamp to the call of a Python UDF: ms",
        compares=True,
    ),
    "cold": Case(cold.ENGINES, "new process to the first result: s", compares=True),
    "epochs": Case(epochs.ENGINES, "what epochs cost: CPU in % of a core, epochs per second"),
    "commits": Case(commits.ENGINES, "the commit of an epoch: ms, and calls until it is committed"),
    "restarts": Case(restarts.ENGINES, "a restart in place: s until it goes on, and calls"),
    "idle": Case(idle.ENGINES, "requests to S3 of a query that reads nothing"),
    "expressions": Case(expressions.ENGINES, "expressions, the best call: µs a batch, ns a row"),
    "coordinator": Case(coordinator.ENGINES, "the pure coordinator: epochs per second of CPU"),
    "windows": Case(
        windows.ENGINES, "a windowed count by key, the stage alone: rows per second, µs, ms"
    ),
    "windowed_counts": Case(
        windowed_counts.ENGINES,
        "rate → count by window and key, update → noop, 2 × 2 tasks: rows per second",
        compares=True,
        more_is_better=True,
    ),
    "counts_in_partitions": Case(
        counts_in_partitions.ENGINES,
        "the same where keys stay in their partitions, and with an exchange: rows per second",
        compares=True,
        more_is_better=True,
    ),
    "count_latency": Case(
        count_latency.ENGINES,
        "the same at 10,000 rows/s, row's timestamp to the count that it changes: ms",
        compares=True,
    ),
    "exchange": Case(
        exchange.ENGINES,
        "the exchange alone: one way in µs, rows per second of each side's CPU",
    ),
    "snapshots": Case(snapshots.ENGINES, "the snapshot of an epoch, 1,000,000 keys: ms, bytes"),
    "state_restarts": Case(
        state_restarts.ENGINES, "a restart in place of a windowed count: s until it commits"
    ),
    "deduplicated": Case(
        deduplicated.ENGINES,
        "rate → dropDuplicates, 1,000,000 keys → noop: rows per second",
        compares=True,
        more_is_better=True,
    ),
    "joined": Case(
        joined.ENGINES,
        "two streams joined within a minute → noop: rows per second",
        compares=True,
        more_is_better=True,
    ),
    "joined_latency": Case(
        joined_latency.ENGINES,
        "the same at 10,000 rows/s of each, the later row's timestamp to the pair: ms",
        compares=True,
    ),
    "wire": Case(
        wire.ENGINES,
        "the driver's end of the wire, epochs of 1 s: cores, marker at the tasks after ms",
    ),
    "sensors": Case(
        sensors.ENGINES,
        f"{sensors.SENSORS:,} deferred epoch sensors in one event loop, looks 1 s apart: cores, "
        "detected after ms",
    ),
    "kafka_latency": Case(
        kafka_latency.ENGINES,
        "Kafka → filter, upper → Kafka at 1,000 records/s, due to seen: ms",
        compares=True,
    ),
    "kafka_functions": Case(
        kafka_functions.ENGINES, "the same with a Python function: ms", compares=True
    ),
    "kafka_throughput": Case(
        kafka_throughput.ENGINES,
        "Kafka → filter, upper → Kafka, 90 bytes each: rows per second",
        compares=True,
        more_is_better=True,
    ),
    "kafka_parquet": Case(
        kafka_parquet.ENGINES,
        "Kafka → filter, upper → Parquet, 90 bytes each: rows per second",
        compares=True,
        more_is_better=True,
    ),
    "kafka_delta": Case(
        kafka_delta.ENGINES,
        "Kafka → filter, upper → Delta, 90 bytes each: rows per second",
        compares=True,
        more_is_better=True,
    ),
    "kafka_postgres": Case(
        kafka_postgres.ENGINES,
        "Kafka → filter, upper → PostgreSQL, 90 bytes each: rows per second",
        compares=True,
        more_is_better=True,
    ),
}
HAVE_SHORT = ("coordinator", "exchange", "expressions", "snapshots", "windows", "wire")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="how often each engine runs")
    parser.add_argument(
        "--short", action="store_true", help=f"less of it, in {', '.join(HAVE_SHORT)}"
    )
    parser.add_argument("--only", choices=CASES, nargs="+", help="these cases")
    parser.add_argument("--publish", action="store_true", help="write docs/performance.md")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        case, engine = arguments.one
        how = {"short": arguments.short} if case in HAVE_SHORT else {}
        importlib.import_module(f"bench.{case}").main(engine, **how)
        return
    summary = {}
    for name in arguments.only or CASES:
        case = CASES[name]
        results: Runs = {engine: [] for engine in case.engines}
        for _ in range(arguments.runs):
            for engine in case.engines:
                results[engine].append(measure(name, engine, short=arguments.short))
        summary[name] = show(case, results)
        if arguments.publish:
            publish({name: summary[name]}, arguments.runs)
    print(json.dumps(summary))


def measure(case: str, engine: str, *, short: bool = False) -> dict[str, float]:
    """Run one engine in a fresh process.

    :raises SystemExit: it fails; says why.
    """
    done = subprocess.run(
        [sys.executable, "-m", "bench", *(["--short"] * short), "--one", case, engine],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        sys.exit(f"{case}, {engine}, ends with {done.returncode}:\n{done.stderr[-5_000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def show(case: Case, results: Runs) -> Medians:
    """Print all figures, and what is compared; the medians."""
    print(f"\n{case.title}, median of runs (min … max)")
    medians: Medians = {}
    for engine, runs in results.items():
        names = [name for name in runs[0] if name != "rows"]
        medians[engine] = {name: statistics.median(run[name] for run in runs) for name in names}
        shown = "   ".join(f"{n} {spread([run[n] for run in runs], 2)}" for n in names)
        print(f"  {engine:20} {shown}")
    if case.compares:
        _compare(case, medians)
    return medians


def _compare(case: Case, medians: Medians) -> None:
    ours, *others = case.engines
    for other in others:
        for name, value in medians[ours].items():
            theirs = medians[other][name]
            ratio = value / theirs if case.more_is_better else theirs / value
            print(f"  {ours} is {ratio:.2f} x as good as {other} in {name}")


if __name__ == "__main__":
    main()
