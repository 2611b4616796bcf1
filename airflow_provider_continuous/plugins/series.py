"""What the charts of a query's page are drawn from: numbers over time, of its progress reports.

One list per number, all of the same length, the oldest epoch first; None where an epoch does not
tell. Whoever keeps more reports than the checkpoint's newest gives them here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_provider_continuous.view.overview import count_behind
from engine.redaction.logs import redact

Report = Mapping[str, Any]


def series_of(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the lists by name, and ``restarts``: ``{at_s, count, error}`` of each restart.

    ``at_s``, seconds since 1970, is when the epoch was closed.
    """
    told = [each for each in reports if _closed_s(each) is not None]
    steps = sorted({step for each in told for step in each.get("durationMs") or {}} - _WHOLE)
    return {
        "at_s": [_closed_s(each) for each in told],
        "epoch": [each.get("batchId") for each in told],
        "rows_in": [each.get("inputRowsPerSecond") for each in told],
        "rows_out": [_rows_out(each) for each in told],
        "behind": [_behind(each) for each in told],
        "watermark_lag_s": [_seconds(each.get("watermarkLagMs")) for each in told],
        "p50_ms": [_latency(each, "p50") for each in told],
        "p99_ms": [_latency(each, "p99") for each in told],
        "open_ms": [each.get("batchDuration") for each in told],
        "commit_ms": [(each.get("latencyMs") or {}).get("epochEndToCommitted") for each in told],
        "steps_ms": {
            step: [(each.get("durationMs") or {}).get(step) for each in told] for step in steps
        },
        "state_bytes": [_state(each, "snapshotBytes") for each in told],
        "state_rows": [_state(each, "numRowsTotal") for each in told],
        "bad": [each.get("numBadRecords") for each in told],
        "restarts": _restarts(told),
    }


_WHOLE = {"triggerExecution"}


def _closed_s(report: Report) -> float | None:
    try:
        began = datetime.fromisoformat(str(report["timestamp"]).replace("Z", "+00:00"))
        return began.timestamp() + float(report.get("batchDuration") or 0) / 1000
    except (KeyError, ValueError):
        return None


def _rows_out(report: Report) -> float | None:
    rows = (report.get("sink") or {}).get("numOutputRows")
    open_ms = report.get("batchDuration")
    return None if rows is None or rows < 0 or not open_ms else rows * 1000 / open_ms


def _behind(report: Report) -> int | None:
    counts = [count_behind(source.get("lag")) for source in report.get("sources") or []]
    return sum(each or 0 for each in counts) if counts and None not in counts else None


def _latency(report: Report, which: str) -> float | None:
    found = ((report.get("latencyMs") or {}).get("readToWritten") or {}).get(which)
    return None if found is None else float(found)


def _state(report: Report, what: str) -> int | None:
    operators = report.get("stateOperators") or []
    counts = [each[what] for each in operators if each.get(what) is not None]
    return sum(counts) if counts else None


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def _restarts(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """The first epoch after each restart, in place or by another run, tells of it."""
    found, before = [], None
    for report in reports:
        run, count = report.get("runId"), int(report.get("restarts") or 0)
        if before is not None and (run, count) != before:
            why = report.get("lastError") if run == before[0] else "another run took over"
            found.append({"at_s": _closed_s(report), "count": count, "error": redact(why or "")})
        before = run, count
    return found
