"""What a task counts while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.progress.histogram import LatencyHistogram


@dataclass
class EpochCounters:
    """What a task counted during one epoch.

    :param rows_read: rows that the source returned.
    :param rows_written: rows that the writer took.
    :param bad_records: records that were left out, see option ``onBadRecord``.
    :param observed: the name of each observation → the states of its aggregates, see
        :mod:`engine.pipeline.aggregates`.
    :param event_times_us: the number of each watermark → the largest event time that was seen, in
        microseconds; without those that have seen none.
    :param held_us: the number of each watermark → how far the partitions have come, the least of
        them, that have not caught up: it does not pass that. None: that is not known, and it stays.
        Without those that nothing holds.
    :param due_ms: when the next timer of processing time is due; None: there is none.
    :param late_rows: rows that were behind the watermark, by the name of the stage.
    :param state_rows: how many rows each stage that keeps state has behind the epoch, by its name.
    :param read_to_written: microseconds from a batch's return by the reader to the writer asking
        for the next one, weighted by rows; without those that a watermark has closed in an epoch in
        which nothing was read.
    :param reading_us: microseconds of the epoch in which the task read, or waited for, records;
        ``transforming_us``: in which it was in its steps; ``writing_us``: in the sink's writer, or
        in sending rows to other tasks. What a snapshot takes is in none of them.
    """

    rows_read: int = 0
    rows_written: int = 0
    bad_records: int = 0
    observed: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    event_times_us: dict[int, int] = field(default_factory=dict)
    held_us: dict[int, int | None] = field(default_factory=dict)
    due_ms: int | None = None
    late_rows: dict[str, int] = field(default_factory=dict)
    state_rows: dict[str, int] = field(default_factory=dict)
    read_to_written: LatencyHistogram = field(default_factory=LatencyHistogram)
    reading_us: int = 0
    transforming_us: int = 0
    writing_us: int = 0
