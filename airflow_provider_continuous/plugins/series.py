"""What the charts of a query's page are drawn from: numbers over time, of its history.

One list per number, all of the same length, the oldest first; None where it is not known. Where no
epoch was open for a while there is a point of its own that has no numbers: so no line is drawn
across the time in which the query was down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, Literal

from airflow_provider_continuous.plugins.formats import moment
from engine.history.view import HistoryView

Window = Literal["5m", "1h", "12h", "7d"]
WINDOWS: Final[dict[Window, int]] = {
    "5m": 5 * 60,
    "1h": 60 * 60,
    "12h": 12 * 60 * 60,
    "7d": 7 * 24 * 60 * 60,
}
"""What may be looked at, in seconds: the older, the coarser."""
SHOWN_FIRST: Final[Window] = "1h"
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
    "bad": "bad_records_per_second",
    "late": "late_records_per_second",
}
_PAUSE_MS: Final = 10_000
"""So long no epoch is open before it counts as a pause, or for three points if they are longer."""
_STEP: Final = "step."
_WHOLE: Final = "step.triggerExecution"


def series_of(history: HistoryView) -> dict[str, Any]:
    """Return the lists by name, and ``marks``: ``{at_s, kind, reason}`` of each start, restart and
    end.

    ``at_s``, seconds since 1970, is when a point ends; ``pauses`` are the places of points that
    have no numbers.
    """
    series = history.series
    ends_ms = [a + b for a, b in zip(history.starts_ms, history.lengths_ms, strict=True)]
    pauses = _pauses(history, ends_ms)

    def told(values: Sequence[Any]) -> list[Any]:
        drawn = list(values)
        for place in reversed(pauses):
            drawn.insert(place, None)
        return drawn

    at_ms = told(ends_ms)
    for place, index in enumerate(pauses):
        at_ms[index + place] = ends_ms[index - 1] + history.lengths_ms[index - 1]
    return {
        "at_s": [each / 1000 for each in at_ms],
        "pauses": [index + place for place, index in enumerate(pauses)],
        **{name: told(series[known].values) for name, known in _CHARTS.items()},
        "steps_ms": {
            name.removeprefix(_STEP): told(each.values)
            for name, each in series.items()
            if name.startswith(_STEP) and name != _WHOLE
        },
        "marks": [{**asdict(mark), "at_s": mark.at_ms / 1000} for mark in history.marks],
    }


def nothing_drawn(
    ends_ms: Sequence[int], window: Window, now_ms: float, epoch: int
) -> dict[str, Any] | None:
    """Return ``{why, wider}`` if a window has less than the two points that a line needs.

    ``wider`` is the next window that has them, None if there is none.

    :param ends_ms: of all points of the history, oldest first.
    :param epoch: the last committed one.
    """
    counts = {
        name: sum(end_ms > now_ms - length_s * 1000 for end_ms in ends_ms)
        for name, length_s in WINDOWS.items()
    }
    if counts[window] > 1:
        return None
    if len(ends_ms) > 1:
        what = "There is one point alone" if counts[window] else "Nothing was committed"
        why = f"{what} in the last {window}; the history ends at {moment(ends_ms[-1])}."
    elif epoch < 1:
        why = "There is nothing to draw before two epochs are committed."
    else:
        few = "one point alone, too few" if ends_ms else "no history"
        why = f"The checkpoint has {few} to draw."
    return {"why": why, "wider": next((name for name in WINDOWS if counts[name] > 1), None)}


def _pauses(history: HistoryView, ends_ms: Sequence[int]) -> list[int]:
    """The points before which no epoch was open for a while. One that is open for long, for nothing
    comes, is in the point in which it was committed."""
    epochs, durations = (history.series[each].values for each in ("epochs", "epoch_duration"))
    found = []
    for index in range(1, len(ends_ms)):
        length_ms = max(history.lengths_ms[index - 1 : index + 1])
        open_ms = (epochs[index] or 0) * (durations[index] or 0)
        began_ms = ends_ms[index] - max(open_ms, history.lengths_ms[index])
        if began_ms - ends_ms[index - 1] > max(_PAUSE_MS, 3 * length_ms):
            found.append(index)
    return found
