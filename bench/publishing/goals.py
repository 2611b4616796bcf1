"""What is aimed at, and what was there before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


def shown(value: float) -> str:
    """A figure as people read it."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


@dataclass(frozen=True)
class AtLeast:
    """A goal of a figure of which more is better."""

    value: float

    def __str__(self) -> str:
        return f"at least {shown(self.value)}"


@dataclass(frozen=True)
class Times:
    """A goal of so many times as much as another engine, in the same run."""

    factor: float
    engine: str

    def __str__(self) -> str:
        return f"at least {shown(self.factor)} × {self.engine}"


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
    "takeovers": {"a standby": {"seconds": 2}},
    "state_restarts": {"1,000,000 keys": {"seconds": 2}},
    "deduplicated": {"engine": {"rows_per_second": _TWICE}},
    "joined": {"engine": {"rows_per_second": _TWICE}},
    "joined_latency": {"engine": {"p99": 20}},
    "listing": {"1,000 queries, 50 ms per call": {"first_s": 1}},
    "kafka_latency": {"engine": {"p50": 1.5, "p99": 12}},
    "kafka_functions": {"engine": {"p50": 2.5, "p99": 15}},
    "peer_latency": {"engine": {"p50": 5, "p99": 20}},
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


def is_met(goal: Goal, value: float, figures: Mapping[str, float | None]) -> bool:
    """Whether a figure reaches its goal.

    :param figures: the same figure of all engines; what a goal of times another one refers to
        and has none is not reached.
    """
    if isinstance(goal, AtLeast):
        return value >= goal.value
    if isinstance(goal, Times):
        other = figures.get(goal.engine)
        return other is not None and value >= goal.factor * other
    return value <= goal
