"""The progress report of one epoch, in the shape of Spark's StreamingQueryProgress.

Beyond Spark's fields: ``latencyMs.readToWritten`` (from a batch's return by the reader until the
writer has taken it) and ``latencyMs.epochEndToCommitted``, ``numBadRecords``, ``restarts`` and
``lastError``; ``watermarkLagMs``, how far the watermark was behind the clock at the commit, null
without one. Where several epochs are committed together, ``durationMs.commitWait`` is how long
this one was kept waiting for it: ``triggerExecution`` and the rates are without that, and have an
equal share of ``commitSink``, which is told whole. Where a source knows it, ``latestOffset`` is
where it ended when it was seen last, ``lag`` how far the epoch ends before that, by partition, and
``lagTotal`` of all partitions together. ``stages`` tells what tasks spent their time with: those of
each stream, then those of each stage.
Of an offset they have an :func:`~engine.base.json_text.excerpt`: many reports are kept, and written
every second; the offset log has the whole of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.base.json_text import excerpt
from engine.base.moments import iso_timestamp
from engine.progress.counters import EpochCounters
from engine.progress.histogram import LatencyHistogram
from engine.redaction.texts import encodable

COMMIT_WAIT: Final = "commitWait"
"""The step in which an epoch is logged, and waits for others to be committed together with it."""


ACTIVITIES: Final = {
    "readingMs": "reading",
    "transformingMs": "transforming",
    "writingMs": "writing",
}
"""Field of ``stages`` → what tasks spent that time with."""


@dataclass(frozen=True)
class QueryIdentity:
    """What every report of a run has in common."""

    query_id: str
    run_id: str
    name: str | None
    sink: str


@dataclass(frozen=True)
class StreamProgress:
    """How far an epoch has brought one stream.

    :param counters: one per partition.
    :param known_end: where the source ended when it was seen last; None if it was not.
    :param lag: how far the epoch ends before that, of each partition, in the shape of the offset.
    """

    description: str
    start_offset: Any
    end_offset: Any
    counters: Sequence[EpochCounters]
    known_end: Any = None
    lag: Any = None

    @property
    def rows(self) -> int:
        """How many the source returned."""
        return sum(part.rows_read for part in self.counters)


@dataclass(frozen=True)
class StageTimes:
    """What the tasks of a stream, or of a stage, spent an epoch with.

    :param name: ``source 0`` for the first stream; of a stage that of the step that keeps state.
    """

    name: str
    counters: Sequence[EpochCounters]

    def told(self) -> dict[str, Any]:
        """Milliseconds, of all tasks together."""
        return {
            "name": self.name,
            "tasks": len(self.counters),
            "readingMs": sum(each.reading_us for each in self.counters) / 1000,
            "transformingMs": sum(each.transforming_us for each in self.counters) / 1000,
            "writingMs": sum(each.writing_us for each in self.counters) / 1000,
        }


@dataclass(frozen=True)
class EpochTimes:
    """When an epoch was opened, when the driver closed it, and when its entry in the commit log was
    durable: wall-clock times in milliseconds."""

    started_ms: int
    closed_ms: int
    committed_ms: int


@dataclass(frozen=True)
class Restarts:
    """How often a query was restarted in place since its start, and why the last time."""

    count: int = 0
    last_error: str | None = None


def epoch_progress(
    identity: QueryIdentity,
    epoch: int,
    streams: Sequence[StreamProgress],
    times: EpochTimes,
    duration_ms: Mapping[str, int],
    restarts: Restarts,
    observed: Mapping[str, Mapping[str, Any]] | None = None,
    stages: Sequence[StageTimes] = (),
    writers: Sequence[EpochCounters] | None = None,
    event_time: Mapping[str, str] | None = None,
    watermark_ms: int | None = None,
    state_operators: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Build the report of a committed epoch.

    :param duration_ms: step of the commit → milliseconds.
    :param observed: see :func:`engine.execution.observed.observed_metrics`.
    :param stages: of the tasks that read the streams, in their order, then of those that get their
        rows from others.
    :param writers: of the tasks that write to the sink; None: they are those that read.
    :param event_time: see :mod:`engine.execution.epoch_report`; likewise ``state_operators``.
    :param watermark_ms: that of the epoch; None or 0: there is none, or none yet.
    """
    open_ms = times.closed_ms - times.started_ms
    to_commit_ms = times.committed_ms - times.closed_ms
    work_ms = max(0, to_commit_ms - duration_ms.get(COMMIT_WAIT, 0))

    def rates(rows: int) -> dict[str, float]:
        return {
            "inputRowsPerSecond": rows / max(open_ms, 1) * 1000,
            "processedRowsPerSecond": rows / max(open_ms + work_ms, 1) * 1000,
        }

    readers = [part for stream in streams for part in stream.counters]
    writers = readers if writers is None else writers
    behind = [part for stage in stages[len(streams) :] for part in stage.counters]
    rows_in = sum(stream.rows for stream in streams)
    latency = LatencyHistogram()
    for part in writers:
        latency.merge(part.read_to_written)
    return {
        "id": identity.query_id,
        "runId": identity.run_id,
        "name": identity.name,
        "timestamp": iso_timestamp(times.started_ms),
        "batchId": epoch,
        "batchDuration": open_ms,
        "numInputRows": rows_in,
        **rates(rows_in),
        "durationMs": {**duration_ms, "triggerExecution": work_ms},
        "eventTime": dict(event_time or {}),
        "watermarkLagMs": times.committed_ms - watermark_ms if watermark_ms else None,
        "stateOperators": [dict(each) for each in state_operators],
        "sources": [
            {
                "description": encodable(stream.description),
                "startOffset": _told(stream.start_offset),
                "endOffset": _told(stream.end_offset),
                "latestOffset": _told(stream.known_end),
                "numInputRows": stream.rows,
                **rates(stream.rows),
                "lag": _told(stream.lag),
                "lagTotal": None if stream.lag is None else sum(numbers_of(stream.lag)),
                "metrics": _behind(list(numbers_of(stream.lag))),
            }
            for stream in streams
        ],
        "sink": {
            "description": encodable(identity.sink),
            "numOutputRows": sum(part.rows_written for part in writers),
        },
        "stages": [stage.told() for stage in stages],
        "observedMetrics": {name: dict(row) for name, row in (observed or {}).items()},
        "latencyMs": {
            "readToWritten": latency.summary_ms(),
            "epochEndToCommitted": to_commit_ms,
        },
        "numBadRecords": sum(part.bad_records for part in (*readers, *behind)),
        "restarts": restarts.count,
        "lastError": restarts.last_error,
    }


def busy_share(stage: Mapping[str, Any]) -> float | None:
    """How much of their time the tasks were in their steps or wrote, 0 to 1.

    :param stage: one of ``stages`` of a report.
    :return: None if they have spent no time at all.
    """
    busy_ms = stage["transformingMs"] + stage["writingMs"]
    spent_ms = stage["readingMs"] + busy_ms
    return busy_ms / spent_ms if spent_ms else None


def _behind(lags: Sequence[int]) -> dict[str, str]:
    """As Spark's Kafka source reports it; nothing of a source that is not known to end
    anywhere."""
    if not lags:
        return {}
    told = {"avg": sum(lags) / len(lags), "max": max(lags), "min": min(lags)}
    return {f"{name}OffsetsBehindLatest": str(value) for name, value in told.items()}


def numbers_of(lag: Any) -> Iterator[int]:
    """Of a lag in the shape of its offset, that of each partition."""
    if isinstance(lag, dict):
        for each in lag.values():
            yield from numbers_of(each)
    elif lag is not None:
        yield lag


def _told(offset: Any) -> str | None:
    return None if offset is None else excerpt(offset)
