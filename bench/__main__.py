"""``python -m bench [--runs N] [--short]``: every engine in a process of its own, in turn, N times.

Prints medians and ratios; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
from typing import Any

from bench import coordinator, functions, latency, sensors, throughput, wire
from bench.measure import spread

CASES = {
    "throughput": throughput.ENGINES,
    "latency": latency.ENGINES,
    "functions": functions.ENGINES,
    "sensors": sensors.ENGINES,
    "coordinator": coordinator.ENGINES,
    "wire": wire.ENGINES,
}
HAVE_SHORT = ("coordinator", "wire")
TITLES = {
    "latency": "rate at 1,000 rows/s, row's timestamp to the writer",
    "functions": "rate at 1,000 rows/s, epochs of 3 s, row's timestamp to the call of a Python UDF",
}


def measure(case: str, engine: str, *, short: bool = False) -> dict[str, float]:
    """Run one engine in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", *(["--short"] * short), "--one", case, engine],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        timeout=300,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="how often each engine runs")
    parser.add_argument(
        "--short", action="store_true", help=f"fewer epochs, in {' and '.join(HAVE_SHORT)}"
    )
    parser.add_argument("--only", choices=CASES, help="one case")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        case, engine = arguments.one
        how = {"short": arguments.short} if case in HAVE_SHORT else {}
        importlib.import_module(f"bench.{case}").main(engine, **how)
        return
    summary: dict[str, Any] = {}
    for case in [arguments.only] if arguments.only else CASES:
        results: dict[str, list[dict[str, float]]] = {engine: [] for engine in CASES[case]}
        for _ in range(arguments.runs):
            for engine in CASES[case]:
                results[engine].append(measure(case, engine, short=arguments.short))
        if case == "throughput":
            summary[case] = _show_throughput(results)
        elif case == "sensors":
            summary[case] = _show_sensors(results)
        elif case == "coordinator":
            summary[case] = _show_coordinator(results)
        elif case == "wire":
            summary[case] = _show_wire(results)
        else:
            summary[case] = _show(TITLES[case], results)
    print(json.dumps(summary))


def _show_throughput(results: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    print(
        "\nrate → filter → 3 projections → noop, 2 partitions: million rows/s, median (min … max)"
    )
    medians = {}
    for engine, runs in results.items():
        values = [run["rows_per_second"] / 1e6 for run in runs]
        medians[engine] = statistics.median(values)
        print(f"  {engine:20} {spread(values)}")
    ratios = {f"vs {name}": medians["engine"] / medians[name] for name in list(medians)[1:]}
    for name, ratio in ratios.items():
        print(f"  engine {name}: {ratio:.2f} x")
    return {"million_rows_per_second": medians, "ratios": ratios}


def _show_sensors(results: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    print(
        f"\n{sensors.SENSORS:,} deferred epoch sensors in one event loop, looks 1 s apart: "
        "median (min … max)"
    )
    medians: dict[str, dict[str, float]] = {}
    for engine, runs in results.items():
        medians[engine] = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        cpu = spread([run["cpu"] * 100 for run in runs])
        late = "   ".join(f"{n} {spread([run[n] for run in runs], 0)}" for n in ("p50", "p99"))
        print(f"  {engine:12} checkpoints   CPU {cpu} % of a core   detected after ms {late}")
    ratios = {}
    for engine, figures in medians.items():
        kind, count = engine.split(", ")
        if kind == "alone":
            shared = medians[f"shared, {count}"]
            ratios[count] = {name: figures[name] / shared[name] for name in ("cpu", "p99")}
            print(
                f"  {count} checkpoints: one poller per sensor takes "
                f"{ratios[count]['cpu']:.1f} x the CPU, p99 {ratios[count]['p99']:.1f} x"
            )
    return {"figures": medians, "ratios": ratios}


def _show_coordinator(results: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    print("\nthe pure coordinator: epochs per second of CPU, median (min … max)")
    medians = {}
    for engine, runs in results.items():
        values = [run["epochs_per_second"] for run in runs]
        medians[engine] = statistics.median(values)
        print(f"  {engine:20} {spread(values)}")
    return {"epochs_per_second": medians}


def _show_wire(results: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    print("\nthe wire, epochs of a second: marker at the tasks after ms, median (min … max)")
    medians: dict[str, dict[str, float]] = {}
    for engine, runs in results.items():
        medians[engine] = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        cpu = spread([run["cpu"] * 100 for run in runs])
        late = "   ".join(f"{n} {spread([run[n] for run in runs])}" for n in ("p50", "p99"))
        print(
            f"  {engine:20} driver {cpu} % of a core, {runs[0]['threads']:.0f} threads   {late}   "
            f"all connected after {medians[engine]['connected_s']:.1f} s"
        )
    return {"figures": medians}


def _show(title: str, results: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    print(f"\n{title}: ms, median of runs (min … max)")
    medians: dict[str, dict[str, float]] = {}
    for engine, runs in results.items():
        names = [name for name in runs[0] if name != "rows"]
        medians[engine] = {name: statistics.median(run[name] for run in runs) for name in names}
        shown = "   ".join(f"{n} {spread([run[n] for run in runs], 2)}" for n in names)
        print(f"  {engine:20} {shown}")
    return {"ms": medians}


if __name__ == "__main__":
    main()
