"""What is kept of one epoch, or of many that are folded into one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from engine.base.moments import wall_ms_of
from engine.progress.histogram import LatencyHistogram


@dataclass
class Measures:
    """What was measured up to a moment. None: it is not known.

    :param at_ms: of the newest epoch in it, when it was committed; milliseconds since 1970.
    :param epochs: so many were committed. They and all else that is not said to be otherwise are
        added up.
    :param open_ms: for how long they were open.
    :param restarts: so often the query was restarted in place.
    :param commit_ms: from the epochs' end to their commit; ``commit_max_ms`` is the longest one.
    :param lag: how far the committed offsets were behind the ends of the sources, in the unit of
        the offsets; the largest one. Likewise ``watermark_lag_ms``.
    :param state_rows: how many are remembered; the newest number. Likewise ``state_bytes``,
        the size of the snapshots.
    :param steps_ms: step of the commit → how long it took.
    :param latency: from a batch's return by the reader until the writer has taken it.
    """

    at_ms: int
    epochs: int = 0
    open_ms: int = 0
    rows_in: int = 0
    rows_out: int | None = None
    bad_records: int = 0
    late_records: int = 0
    restarts: int = 0
    commit_ms: int | None = None
    commit_max_ms: int | None = None
    lag: int | None = None
    watermark_lag_ms: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    steps_ms: dict[str, int] = field(default_factory=dict)
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)

    def merge(self, other: Measures) -> None:
        """Take up what others were measured."""
        for name in _ADDED:
            setattr(self, name, _sum(getattr(self, name), getattr(other, name)))
        for name in _LARGEST:
            setattr(self, name, _largest(getattr(self, name), getattr(other, name)))
        if other.at_ms >= self.at_ms:
            self.at_ms = other.at_ms
            for name in _NEWEST:
                if getattr(other, name) is not None:
                    setattr(self, name, getattr(other, name))
        for step, duration_ms in other.steps_ms.items():
            self.steps_ms[step] = self.steps_ms.get(step, 0) + duration_ms
        self.latency.merge(other.latency)


_ADDED = (
    "epochs", "open_ms", "rows_in", "rows_out", "bad_records", "late_records", "restarts",
    "commit_ms",
)  # fmt: skip
_LARGEST = ("commit_max_ms", "lag", "watermark_lag_ms")
_NEWEST = ("state_rows", "state_bytes")
NUMBERS = (*_ADDED, *_LARGEST, *_NEWEST)
"""The fields that are a number each, in the order in which they are stored."""


def measured(report: Mapping[str, Any], latency: LatencyHistogram | None = None) -> Measures:
    """What a progress report tells, of this engine or of Spark.

    :param latency: the whole of it; None: the report's percentiles, of which the mean between two
        epochs is as high as the higher one at worst.
    :raises ValueError: it is no progress report.
    """
    try:
        rows = int(report["numInputRows"])
        own = report.get("latencyMs")
        open_ms = int(report.get("batchDuration") or 0)
        rate = float(report.get("inputRowsPerSecond") or 0)
        if own is None and rate > 0:  # of Spark: its batches have pauses in between
            open_ms = max(open_ms, round(rows / rate * 1000))
        out = (report.get("sink") or {}).get("numOutputRows", -1)
        commit_ms = None if own is None else int(own["epochEndToCommitted"])
        operators = report.get("stateOperators") or ()
        if latency is None:
            latency = _told(rows, (own or {}).get("readToWritten"))
        return Measures(
            at_ms=committed_at_ms(report),
            epochs=1,
            open_ms=open_ms,
            rows_in=rows,
            rows_out=None if out < 0 else int(out),
            bad_records=int(report.get("numBadRecords") or 0),
            late_records=sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in operators),
            commit_ms=commit_ms,
            commit_max_ms=commit_ms,
            lag=lag_of(report),
            watermark_lag_ms=watermark_lag_ms_of(report),
            state_rows=_total(operators, "numRowsTotal"),
            state_bytes=_total(operators, "snapshotBytes", "memoryUsedBytes"),
            steps_ms={str(step): int(ms) for step, ms in report.get("durationMs", {}).items()},
            latency=latency.coarser(),
        )
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"not a progress report: {type(exc).__name__}: {exc}") from exc


def is_sparks(report: Mapping[str, Any]) -> bool:
    """Whether Spark has made a report, and not this engine."""
    return report.get("latencyMs") is None


def committed_at_ms(report: Mapping[str, Any]) -> int:
    """When its epoch was committed, in milliseconds since 1970.

    :raises ValueError: the report tells no time.
    """
    started = datetime.fromisoformat(str(report.get("timestamp")).replace("Z", "+00:00"))
    own = report.get("latencyMs") or {}
    took_ms = (report.get("batchDuration") or 0) + (own.get("epochEndToCommitted") or 0)
    return round(started.timestamp() * 1000) + int(took_ms)


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def _largest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _told(rows: int, summary: Mapping[str, float] | None) -> LatencyHistogram:
    """A histogram of these percentiles; what lies between two of them counts as the higher one."""
    histogram = LatencyHistogram()
    if summary and rows:
        slow, slowest = rows // 2, rows // 100
        for ms, count in (
            (summary["p50"], rows - slow),
            (summary["p99"], slow - slowest),
            (summary["max"], slowest),
        ):
            if count:
                histogram.record(round(ms * 1000), count)
        histogram.max_us = round(summary["max"] * 1000)
    return histogram


def lag_of(report: Mapping[str, Any]) -> int | None:
    """How far an epoch ends before the ends of its sources, in the unit of the offsets: of all that
    know where they end, None if none does. Spark's tell no sum: of those it is that of the
    partition which is the farthest behind."""
    total: int | None = None
    for source in report.get("sources") or ():
        behind = source.get("lagTotal")
        if behind is None:
            behind = (source.get("metrics") or {}).get("maxOffsetsBehindLatest")
        if behind is not None:
            total = _sum(total, round(float(behind)))
    return total


def watermark_lag_ms_of(report: Mapping[str, Any]) -> int | None:
    """How far the watermark was behind the clock when an epoch was committed, in milliseconds; None
    if there is none. Spark tells the watermark alone, and one of 1970 while it has none."""
    if "watermarkLagMs" in report:
        lag_ms: int | None = report["watermarkLagMs"]
        return lag_ms
    told = (report.get("eventTime") or {}).get("watermark")
    watermark_ms = 0 if told is None else wall_ms_of(told)
    return committed_at_ms(report) - watermark_ms if watermark_ms else None


def rate_of(told: Mapping[str, Any]) -> float | None:
    """Rows read per second of a report, or of one of its sources; None if it tells none. Spark
    tells 0 of a run's first batch, for it counts from the trigger before: that took them as fast as
    it processed them."""
    rate: float | None = told.get("inputRowsPerSecond")
    if rate == 0 and told.get("numInputRows"):
        rate = told.get("processedRowsPerSecond")
    return rate


def _total(operators: Any, *names: str) -> int | None:
    """The sum of the first of these numbers that each operator has."""
    found = [
        int(next(each[name] for name in names if name in each))
        for each in operators
        if any(name in each for name in names)
    ]
    return sum(found) if found else None
