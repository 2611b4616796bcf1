"""Writes docs/performance.md and its plot from the figures of a run.

The figures are kept beside the page, in docs/performance.json, so a run of one case replaces that
case alone; the page tells the day of each.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import psutil

DOCS = Path(__file__).parents[1] / "docs"
PAGE, DATA, PLOT = (DOCS / f"performance.{kind}" for kind in ("md", "json", "svg"))
_HEAD = """# Performance

Written by `make bench`: medians of at least {runs} runs, each in a new process, on a machine with
{cores} cores and {memory} GiB ({python}). Absolute times are that machine's; what is compared has
run in turn. The benchmarks are in `bench/`.
"""
_TEXTS = {
    "throughput": "rate → filter → 3 projections → noop, 2 partitions",
    "latency": "rate at 1,000 rows/s: from a row's own timestamp to the writer's hands, ms; of "
    "Spark in whole ms, to its last projection",
    "functions": "the same to the call of a Python function, epochs of 3 s, ms",
    "cold": "from a new process to the first result: the first epoch of `continuous run`, and the "
    "first Python job of a Spark session, s",
    "epochs": "what epochs cost: CPU of driver, JVM and workers together, % of a core",
    "commits": "the commit of an epoch, ms; `calls` are the requests in a row until it is visible, "
    "`late` how far behind its second the last epoch began",
    "restarts": "a restart in place until it is known where to go on, s, with 100 epochs kept and "
    "the last one open; `calls` are all requests, some of them at once",
    "idle": "requests to S3 per minute of a query that reads nothing",
    "expressions": "expressions in ANSI mode, of a batch in memory, the best of many calls: µs a "
    "batch, ns a row of 100,000",
    "coordinator": "the pure coordinator: epochs per second of CPU",
    "windows": "a windowed count by key, the stage alone, on one core: rows/s that are folded in "
    "front of the exchange, and that are counted behind it; µs for a batch of 10 rows with its "
    "results; ms for the snapshot of 1,000 changed keys, for loading all, for closing all",
    "windowed_counts": "rate → count by window of ten seconds and key, update mode → noop, two "
    "readers by two reducers: rows/s",
    "counts_in_partitions": "the same with keys that are each in one partition, counted where they "
    "are read (`keysStayInPartitions`), and behind an exchange: rows/s",
    "count_latency": "the count with an exchange at 10,000 rows/s with 10,000 keys: from a row's "
    "own timestamp to the count that it has changed, ms; of Spark in whole ms",
    "exchange": "the exchange alone, between two processes: one way of a batch, µs; rows per "
    "second of CPU of each side, HMACs included",
    "snapshots": "the snapshot of an epoch of a windowed count with 1,000,000 keys in one task: "
    "how long the reducer pauses, and the writing beside the next epoch, ms; the file's bytes",
    "state_restarts": "a restart in place of a windowed count, from the kill of a worker until "
    "an epoch is committed that was not under way, s",
    "deduplicated": "rate → dropDuplicates by a key of 1,000,000 → noop: rows/s",
    "joined": "two streams of rate, joined by key within a minute of event time → noop: rows/s of "
    "both together",
    "joined_latency": "the same at 10,000 rows/s of each, from the timestamp of the later row to "
    "the pair, ms",
    "wire": "the driver's end of the wire, epochs of a second: CPU as a share of a core, when a "
    "marker is at a task, ms",
    "sensors": "1,000 deferred sensors in one triggerer, looks 1 s apart: CPU as a share of a "
    "core, when an epoch is detected, ms",
    "kafka_latency": "Kafka → filter, upper → Kafka, 1,000 records/s, the broker on the same "
    "cores, from when a record was due to a consumer of the results, ms",
    "kafka_functions": "the same with a Python function, ms",
    "kafka_throughput": "Kafka → filter, upper → Kafka, 3,000,000 records of 90 bytes that are "
    "there: rows/s",
    "kafka_parquet": "the same to Parquet files, from the start of the query until all is "
    "committed: rows/s",
    "kafka_delta": "the same to a Delta table: rows/s",
    "kafka_postgres": "the same to a table of PostgreSQL on the same cores, ours by COPY and "
    "exactly once, Spark's by JDBC from foreachBatch: rows/s",
}


@dataclass(frozen=True)
class AtLeast:
    """A goal of a figure of which more is better."""

    value: float

    def __str__(self) -> str:
        return f"at least {_shown(self.value)}"


@dataclass(frozen=True)
class Times:
    """A goal of so many times as much as another engine, in the same run."""

    factor: float
    engine: str

    def __str__(self) -> str:
        return f"at least {_shown(self.factor)} × {self.engine}"


Goal = float | AtLeast | Times
"""A number: at most."""

_COMMIT = {"p50": 2, "p99": 5}
_TWICE = Times(2, "spark micro-batch")
GOALS: Mapping[str, Mapping[str, Mapping[str, Goal]]] = {
    "cold": {"engine": {"seconds": 7}},
    "epochs": {
        "idle, 1 s": {"cpu": 2},
        "noop, 20 ms": {"cpu": 15},
        "parquet, 20 ms": {"cpu": 45},
    },
    "commits": {
        "local disk, 2 partitions": _COMMIT,
        "local disk, 2 partitions, epoch 1,000,000": _COMMIT,
        "local disk, 10,000 partitions": {"p50": 20},
        "S3, 50 ms per call": {"calls": 4},
        "S3, 100 ms per call": {"calls": 4},
    },
    "restarts": {
        "S3, 50 ms per call": {"seconds": 3},
        "local disk, 10,000 partitions": {"seconds": 1},
    },
    "idle": {"emptyEpochInterval 10 minutes, leaseHeartbeatMs 10,000": {"calls per minute": 20}},
    "expressions": {
        "CASE WHEN b <> 0 THEN a / b ELSE 0 END": {"10 rows, µs": 30, "100,000 rows, µs": 400},
        "IF(b <> 0, a DIV b, a * 2 + 1)": {"10 rows, µs": 30, "100,000 rows, µs": 400},
        "IF(a > 0, a * 2 + 1, a - b)": {"10 rows, µs": 30, "100,000 rows, µs": 400},
        "from_json, 5 fields": {"1 row, µs": 20, "1,000 rows, µs": 800},
        "filter, 3 projections": {"1 row, µs": 25, "10 rows, µs": 25},
        "filter, 3 projections, one of them upper": {
            "1 row, µs": 25,
            "10 rows, µs": 25,
            "100,000 rows, µs": 500,
        },
        "a / b of DECIMAL(18,4)": {"ns a row": 500},
        "a / b of DECIMAL(38,18)": {"ns a row": 500},
        "exp(y)": {"ns a row": 5},
        "ln(x)": {"ns a row": 5},
        "pow(x, y)": {"ns a row": 5},
    },
    "wire": {"2,000 tasks": {"cpu": 1, "p99": 50}},
    "windowed_counts": {"engine": {"10,000 keys": _TWICE, "1,000,000 keys": _TWICE}},
    "count_latency": {"engine": {"p50": 1.5, "p99": 5}},
    "exchange": {
        "10 rows": {"p99": 1_000},
        "10,000 rows": {"sent": AtLeast(20e6), "received": AtLeast(20e6)},
    },
    "snapshots": {
        "1,000 keys changed": {"pause_ms": 5},
        "10,000 keys changed": {"pause_ms": 5},
    },
    "state_restarts": {"1,000,000 keys": {"seconds": 2}},
    "deduplicated": {"engine": {"rows_per_second": _TWICE}},
    "joined": {"engine": {"rows_per_second": _TWICE}},
    "joined_latency": {"engine": {"p99": 20}},
    "kafka_latency": {"engine": {"p50": 1.5, "p99": 12}},
    "kafka_functions": {"engine": {"p50": 2.5, "p99": 15}},
}
"""What is aimed at, met or not: ``{case: {engine: {figure: goal}}}``."""

_BRANCHES = {"10 rows, µs": "137", "100,000 rows, µs": "2,100"}
_FEW_ROWS = {"1 row, µs": "30-50", "10 rows, µs": "30-50"}
BEFORE: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "expressions": {
        "CASE WHEN b <> 0 THEN a / b ELSE 0 END": _BRANCHES,
        "IF(b <> 0, a DIV b, a * 2 + 1)": _BRANCHES,
        "IF(a > 0, a * 2 + 1, a - b)": _BRANCHES,
        "from_json, 5 fields": {"1 row, µs": "83-114", "1,000 rows, µs": "2,650"},
        "filter, 3 projections": _FEW_ROWS,
        "filter, 3 projections, one of them upper": {**_FEW_ROWS, "100,000 rows, µs": "955"},
        "a / b of DECIMAL(18,4)": {"ns a row": "4,000"},
        "a / b of DECIMAL(38,18)": {"ns a row": "4,000"},
        "exp(y)": {"ns a row": "88-295"},
        "ln(x)": {"ns a row": "88-295"},
        "pow(x, y)": {"ns a row": "88-295"},
    },
}
"""What was measured once, before it was worked on, of a figure or of all like it."""


def publish(summary: Mapping[str, Mapping[str, Mapping[str, float]]], runs: int) -> None:
    """Replace the cases of ``summary``, ``{case: {engine: {figure: median}}}``, and write all."""
    known: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
    for case, figures in summary.items():
        known[case] = {"day": date.today().isoformat(), "runs": runs, "figures": figures}
    DATA.write_text(json.dumps(known, indent=1) + "\n")
    PAGE.write_text("\n".join(_page(known)) + "\n")
    if {"coordinator", "commits"} <= known.keys():
        PLOT.write_text(_plot(_curves(known)))


def _page(known: Mapping[str, Any]) -> Iterator[str]:
    yield _HEAD.format(
        runs=min(each["runs"] for each in known.values()),
        cores=psutil.cpu_count(),
        memory=round(psutil.virtual_memory().total / 2**30),
        python=f"Python {platform.python_version()}, {platform.system()}",
    )
    for case, text in _TEXTS.items():
        if case in known:
            yield f"## {case.replace('_', ' ').capitalize()}\n"
            yield f"{text[0].upper()}{text[1:]} ({known[case]['day']}).\n"
            yield from _table(known[case]["figures"], GOALS.get(case, {}), BEFORE.get(case, {}))
            yield ""
            if case == "commits" and "coordinator" in known:
                yield f"![Cost of an epoch against the number of partitions]({PLOT.name})\n"


def _table(
    figures: Mapping[str, Mapping[str, float]],
    goals: Mapping[str, Mapping[str, Goal]],
    before: Mapping[str, Mapping[str, str]],
) -> Iterator[str]:
    names = list(dict.fromkeys(name for values in figures.values() for name in values))
    yield f"| | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for engine, values in figures.items():
        goal, was = goals.get(engine, {}), before.get(engine, {})
        shown = (_cell(values.get(name), goal.get(name), was.get(name)) for name in names)
        yield f"| {engine} | {' | '.join(shown)} |"


def _cell(value: float | None, goal: Goal | None, before: str | None) -> str:
    if value is None:
        return ""
    said = []
    if goal is not None:
        is_number = isinstance(goal, float | int)
        said.append(f"goal: at most {_shown(goal)}" if is_number else f"goal: {goal}")
    said += [] if before is None else [f"before: {before}"]
    return f"{_shown(value)} ({', '.join(said)})" if said else _shown(value)


def _shown(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


# -- the plot -------------------------------------------------------------------------------------

Curve = Sequence[tuple[float, float]]
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 360, 70, 20, 190, 50
_COLOURS = ("#0b6e99", "#b5651d")


def _curves(known: Mapping[str, Any]) -> dict[str, Curve]:
    coordinator = known["coordinator"]["figures"]
    commits = known["commits"]["figures"]
    return {
        "coordinator, CPU": [
            (_partitions(engine), 1000 / values["epochs_per_second"])
            for engine, values in coordinator.items()
        ],
        "commit, local disk": [
            (_partitions(engine), values["p50"])
            for engine, values in commits.items()
            if engine.startswith("local") and engine.endswith("partitions")
        ],
    }


def _partitions(engine: str) -> float:
    return float(next(word for word in engine.split() if word[0].isdigit()).replace(",", ""))


def _plot(curves: Mapping[str, Curve]) -> str:
    """Milliseconds against partitions, both axes logarithmic."""
    points = [point for curve in curves.values() for point in curve]
    across, up = ([f(math.log10(p[axis]) for p in points) for f in (min, max)] for axis in (0, 1))
    across, up = (_decades(*ends) for ends in (across, up))

    def at(point: tuple[float, float]) -> tuple[float, float]:
        x = (math.log10(point[0]) - across[0]) / (across[1] - across[0])
        y = (math.log10(point[1]) - up[0]) / (up[1] - up[0])
        return (
            _LEFT + x * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - y * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for power in range(across[0], across[1] + 1):
        x, _ = at((10.0**power, 10.0 ** up[0]))
        parts.append(f'<path d="M{x:.0f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        parts.append(_label(x, _HEIGHT - _BOTTOM + 18, f"{10**power:,}"))
    for power in range(up[0], up[1] + 1):
        _, y = at((10.0 ** across[0], 10.0**power))
        parts.append(f'<path d="M{_LEFT} {y:.0f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(_label(_LEFT - 8, y + 4, f"{10.0**power:g}", "end"))
    parts.append(_label((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, "partitions"))
    parts.append(_label(_LEFT - 8, _TOP - 6, "ms per epoch", "end"))
    for (name, curve), colour in zip(curves.items(), _COLOURS, strict=True):
        places = [at(point) for point in sorted(curve)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        x, y = places[-1]
        parts.append(_label(x + 8, y + 4, name, "start", colour))
    return "\n".join([*parts, "</svg>", ""])


def _decades(low: float, high: float) -> tuple[int, int]:
    first = math.floor(low)
    return first, max(math.ceil(high), first + 1)


def _label(x: float, y: float, text: str, anchor: str = "middle", colour: str = "#333") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'
