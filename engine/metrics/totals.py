"""What a run of a query has done since it began, added up from the reports of its epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.progress.counters import EpochCounters
from engine.progress.histogram import LatencyHistogram
from engine.progress.report import ACTIVITIES, COMMIT_WAIT, EpochTimes

_NO_STEPS = ("triggerExecution", COMMIT_WAIT)
"""Of ``durationMs``: the sum of the steps, and what is no work."""


@dataclass
class QueryTotals:
    """Beside what has grown, what the last report tells. Durations as the histograms have them.

    :param epochs: how many were committed.
    :param read: rows by the number of the stream, and of the task among those that read it.
    :param late: rows behind the watermark, by the name of the step.
    :param step_ms: milliseconds of each step of the commits.
    :param task_ms: milliseconds of the tasks, by the name of the stage and of what they were at, as
        ``stages`` of a report has them.
    :param latency: from a record's arrival to the sink's having taken it.
    :param open_for: how long epochs were open.
    :param committing: from the end of an epoch to its commit.
    :param last: the last report; empty before the first.
    :param committed_ms: when that epoch was committed, by the wall clock.
    """

    epochs: int = 0
    read: Counter[tuple[int, int]] = field(default_factory=Counter)
    written: int = 0
    bad: int = 0
    late: Counter[str] = field(default_factory=Counter)
    step_ms: Counter[str] = field(default_factory=Counter)
    task_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    open_for: LatencyHistogram = field(default_factory=LatencyHistogram)
    committing: LatencyHistogram = field(default_factory=LatencyHistogram)
    last: Mapping[str, Any] = field(default_factory=dict)
    committed_ms: int = 0

    def add(
        self,
        report: Mapping[str, Any],
        times: EpochTimes,
        readers: Sequence[Sequence[EpochCounters]],
        writers: Iterable[EpochCounters],
    ) -> None:
        """An epoch was committed.

        :param report: see :mod:`engine.progress.report`.
        :param readers: by stream, of the tasks that read it.
        :param writers: of the tasks that write to the sink.
        """
        self.epochs += 1
        for stream, tasks in enumerate(readers):
            for task, counters in enumerate(tasks):
                self.read[stream, task] += counters.rows_read
        self.written += report["sink"]["numOutputRows"]
        self.bad += report["numBadRecords"]
        for each in report["stateOperators"]:
            self.late[each["operatorName"]] += each["numRowsDroppedByWatermark"]
        for step, duration_ms in report["durationMs"].items():
            if step not in _NO_STEPS:
                self.step_ms[step] += duration_ms
        for stage in report["stages"]:
            for field_name, activity in ACTIVITIES.items():
                key = stage["name"], activity
                self.task_ms[key] = self.task_ms.get(key, 0.0) + stage[field_name]
        for counters in writers:
            self.latency.merge(counters.read_to_written)
        self.open_for.record((times.closed_ms - times.started_ms) * 1000)
        self.committing.record((times.committed_ms - times.closed_ms) * 1000)
        self.last, self.committed_ms = report, times.committed_ms
