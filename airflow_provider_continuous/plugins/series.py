"""What the charts of a query's page are drawn from: numbers over time, of its history.

One list per number, all of the same length, the oldest first; None where it is not known.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from engine.history.view import HistoryView

WINDOWS: Final = {"5m": 5 * 60, "1h": 60 * 60, "12h": 12 * 60 * 60, "7d": 7 * 24 * 60 * 60}
"""What may be looked at, in seconds: the older, the coarser."""
SHOWN_FIRST: Final = "1h"
_CHARTS: Final = {
    "rows_in": "rows_in_per_second",
    "rows_out": "rows_out_per_second",
    "behind": "lag",
    "watermark_lag_ms": "watermark_lag",
    "p50_ms": "latency_p50",
    "p99_ms": "latency_p99",
    "open_ms": "epoch_duration",
    "commit_ms": "commit_duration",
    "state_bytes": "state_bytes",
    "state_rows": "state_rows",
    "bad": "bad_records",
    "late": "late_records",
}
_STEP: Final = "step."
_WHOLE: Final = "step.triggerExecution"


def series_of(history: HistoryView) -> dict[str, Any]:
    """Return the lists by name, and ``marks``: ``{at_s, kind, reason}`` of each start, restart and
    end.

    ``at_s``, seconds since 1970, is when a point ends.
    """
    series = history.series
    ends = zip(history.starts_ms, history.lengths_ms, strict=True)
    return {
        "at_s": [(start + length) / 1000 for start, length in ends],
        **{name: series[known].values for name, known in _CHARTS.items()},
        "steps_ms": {
            name.removeprefix(_STEP): each.values
            for name, each in series.items()
            if name.startswith(_STEP) and name != _WHOLE
        },
        "marks": [{**asdict(mark), "at_s": mark.at_ms / 1000} for mark in history.marks],
    }
