"""A history as series with units: what a page draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.history.folding import Mark, Point
from engine.history.measures import Measures

Number = float | int | None


@dataclass(frozen=True)
class Series:
    """One value per point.

    :param unit: of the values: ``rows/s``, ``records/s``, ``rows``, ``records``, ``offsets``,
        ``bytes``, ``ms``, ``epochs`` or ``restarts``.
    :param values: None where it is not known, or nothing was measured.
    """

    unit: str
    values: tuple[Number, ...]


@dataclass(frozen=True)
class HistoryView:
    """Series over the same points, oldest first; times in milliseconds since 1970.

    :param starts_ms: where each point begins, inclusive; it is ``lengths_ms`` long. A point is
        there only if an epoch was committed in it, or the query restarted.
    :param series: by name, see :data:`SERIES`; and ``step.<name>``, the mean of a step of the
        commit.
    :param marks: what happened to the query, oldest first.
    """

    starts_ms: tuple[int, ...]
    lengths_ms: tuple[int, ...]
    series: Mapping[str, Series]
    marks: tuple[Mark, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "starts_ms": list(self.starts_ms),
            "lengths_ms": list(self.lengths_ms),
            "series": {
                name: {"unit": each.unit, "values": list(each.values)}
                for name, each in self.series.items()
            },
            "marks": [asdict(mark) for mark in self.marks],
        }


def _per_epoch(total: Number, measures: Measures) -> Number:
    return None if total is None or not measures.epochs else total / measures.epochs


def _rate(rows: int | None, measures: Measures) -> Number:
    if rows is None or not measures.epochs:
        return None
    return rows / max(measures.open_ms, 1) * 1000


SERIES: Final[Mapping[str, tuple[str, Callable[[Measures], Number]]]] = {
    "rows_in_per_second": ("rows/s", lambda m: _rate(m.rows_in, m)),
    "rows_out_per_second": ("rows/s", lambda m: _rate(m.rows_out, m)),
    "rows_in": ("rows", lambda m: m.rows_in),
    "rows_out": ("rows", lambda m: m.rows_out),
    "lag": ("offsets", lambda m: m.lag),
    "watermark_lag": ("ms", lambda m: m.watermark_lag_ms),
    "latency_p50": ("ms", lambda m: m.latency.percentile_ms(50)),
    "latency_p99": ("ms", lambda m: m.latency.percentile_ms(99)),
    "latency_max": ("ms", lambda m: m.latency.max_us / 1000 if m.latency.counts else None),
    "epochs": ("epochs", lambda m: m.epochs),
    "epoch_duration": ("ms", lambda m: _per_epoch(m.open_ms, m)),
    "commit_duration": ("ms", lambda m: _per_epoch(m.commit_ms, m)),
    "commit_duration_max": ("ms", lambda m: m.commit_max_ms),
    "state_rows": ("rows", lambda m: m.state_rows),
    "state_bytes": ("bytes", lambda m: m.state_bytes),
    "bad_records": ("records", lambda m: m.bad_records),
    "bad_records_per_second": ("records/s", lambda m: _rate(m.bad_records, m)),
    "late_records_per_second": ("records/s", lambda m: _rate(m.late_records, m)),
    "late_records": ("records", lambda m: m.late_records),
    "restarts": ("restarts", lambda m: m.restarts),
}
"""Name → unit, value of a point. Rates are over the time in which epochs were open; durations and
steps are means of the epochs; lags are the largest of them; state is that of the newest."""


def view(points: Sequence[Point], marks: Iterable[Mark]) -> HistoryView:
    """:param points: oldest first."""
    steps = dict.fromkeys(step for point in points for step in point.measures.steps_ms)
    series = {
        name: Series(unit, tuple(value(point.measures) for point in points))
        for name, (unit, value) in SERIES.items()
    }
    for step in steps:
        values = (_per_epoch(each.measures.steps_ms.get(step), each.measures) for each in points)
        series[f"step.{step}"] = Series("ms", tuple(values))
    return HistoryView(
        tuple(point.start_ms for point in points),
        tuple(point.length_ms for point in points),
        series,
        tuple(sorted(marks, key=lambda mark: mark.at_ms)),
    )
