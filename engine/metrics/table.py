"""All metrics of a query: one table, which Prometheus, OpenTelemetry and docs/metrics.md go by.

Names and units are those of Prometheus: base units, ``_total`` for what only grows. Every metric
has the label ``query`` besides those that stand here. The number of series is bounded: labels are
of what a query is made of, and partitions beyond :data:`PARTITIONS_MAX` of a stream have none of
their own.

======== ======================================================================
label    is
======== ======================================================================
stream   the number of a source, from 0, as in the lines of the offset log
partition a partition of a source, as its offset names it: ``orders/3`` of Kafka
task     the number of a task among those that read a stream, from 0
operator a step that keeps state, as ``stateOperators`` of a report name it
step     of a commit, as ``durationMs`` of a report names it
======== ======================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import islice
from typing import Any, Final

from engine.checkpoint.query_state import QueryState
from engine.metrics.meter import STANDBY, Look, QueryMeter
from engine.metrics.totals import QueryTotals
from engine.progress.histogram import LatencyHistogram
from engine.redaction.texts import encodable, redact

PARTITIONS_MAX: Final = 100
"""So many partitions, and tasks, of a stream have series of their own."""
BOUNDS_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0),
)
"""The buckets of histograms; the last one is without a bound."""
BOUNDS_US: Final = [round(bound * 1_000_000) for bound in BOUNDS_S]
STATES: Final = (
    *(str(each) for each in QueryState if each not in (QueryState.LOST, QueryState.UNKNOWN)),
    STANDBY,
)
"""What the process of a query may say of it."""

Value = float | LatencyHistogram
Labeled = tuple[tuple[str, ...], Value]
_Reader = Callable[[Look, QueryTotals], Iterable[Labeled]]


class Kind(str, Enum):
    """What may be done with the values."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """:param name: Prometheus' own.
    :param unit: of the values: ``seconds``, ``bytes``, what is counted, or nothing.
    :param labels: beside ``query``.
    :param values: the values of its labels, and the value; nothing of what is not known.
    """

    name: str
    kind: Kind
    unit: str
    text: str
    values: _Reader
    labels: tuple[str, ...] = ()

    def read(self, meter: QueryMeter, look: Look) -> list[Labeled]:
        """The values of a query, at a look at it."""
        found: list[Labeled] = meter.read(lambda totals: list(self.values(look, totals)))
        return found


def _one(value: Callable[[Look, QueryTotals], Value | None]) -> _Reader:
    """Of a metric without labels; None: it is not known."""

    def read(look: Look, totals: QueryTotals) -> Iterator[Labeled]:
        found = value(look, totals)
        if found is not None:
            yield (), found

    return read


def _seconds(value_ms: float | None) -> float | None:
    return None if value_ms is None else value_ms / 1000


def _info(look: Look, _: QueryTotals) -> Iterator[Labeled]:
    if look.run_id:
        yield (look.query_id, look.run_id, encodable(redact(look.sink))), 1


def _streams(look: Look, _: QueryTotals) -> Iterator[Labeled]:
    for number, source in enumerate(look.sources):
        yield (str(number), encodable(redact(source))), 1


def _states(look: Look, _: QueryTotals) -> Iterator[Labeled]:
    for state in STATES:
        yield (state,), int(state == look.state)


def _rows_read(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    sums: Counter[int] = Counter()
    for (stream, _task), rows in totals.read.items():
        sums[stream] += rows
    for stream, rows in sums.items():
        yield (str(stream),), rows


def _task_rows(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    for (stream, task), rows in totals.read.items():
        if task < PARTITIONS_MAX:
            yield (str(stream), str(task)), rows


def _lags(fold: Callable[[list[int]], int]) -> _Reader:
    def read(look: Look, _: QueryTotals) -> Iterator[Labeled]:
        for stream, lag in enumerate(look.lags):
            numbers = [number for _name, number in _by_partition(lag)]
            if numbers:
                yield (str(stream),), fold(numbers)

    return read


def _partition_lags(look: Look, _: QueryTotals) -> Iterator[Labeled]:
    for stream, lag in enumerate(look.lags):
        for name, number in islice(_by_partition(lag), PARTITIONS_MAX):
            yield (str(stream), encodable(name)), number


def _by_partition(lag: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Of what has the shape of an offset: the way to each number, and the number."""
    if isinstance(lag, dict):
        for key, each in lag.items():
            yield from _by_partition(each, f"{name}/{key}" if name else str(key))
    elif lag is not None:
        yield name, lag


def _of_operators(field: str) -> _Reader:
    def read(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
        sums: Counter[str] = Counter()
        for each in totals.last.get("stateOperators", ()):
            sums[each["operatorName"]] += each[field]
        for operator, value in sums.items():
            yield (operator,), value

    return read


def _late(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    for operator, rows in totals.late.items():
        yield (operator,), rows


def _steps(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    for step, duration_ms in totals.step_ms.items():
        yield (step,), duration_ms / 1000


def _watermark_s(_: Look, totals: QueryTotals) -> float | None:
    behind_ms = totals.last.get("watermarkLagMs")
    return None if behind_ms is None else (totals.committed_ms - behind_ms) / 1000


def _event_time_s(_: Look, totals: QueryTotals) -> float | None:
    newest = totals.last.get("eventTime", {}).get("max")
    return None if newest is None else datetime.fromisoformat(newest[:-1] + "+00:00").timestamp()


def _observed(_: Look, totals: QueryTotals) -> Iterator[Labeled]:
    for observation, row in totals.last.get("observedMetrics", {}).items():
        for name, value in row.items():
            if isinstance(value, int | float):
                yield (encodable(observation), encodable(name)), value


_G, _C, _H = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM

METRICS: Final = (
    Metric(
        *("continuous_query_info", _G, ""),
        "Always 1. Which query this is, which run, and where its rows go.",
        _info,
        ("query_id", "run_id", "sink"),
    ),
    Metric(
        *("continuous_stream_info", _G, ""),
        "Always 1. What a stream reads.",
        _streams,
        ("stream", "source"),
    ),
    Metric(
        *("continuous_query_state", _G, ""),
        "1 for the state that the query is in, 0 for all others. STANDBY: another process runs it, "
        "and this one waits.",
        _states,
        ("state",),
    ),
    Metric(
        *("continuous_generation", _G, ""),
        "The generation that holds the checkpoint; each attempt is one.",
        _one(lambda look, _: look.generation),
    ),
    Metric(
        *("continuous_partitions", _G, "partitions"),
        "Partitions of all sources.",
        _one(lambda look, _: look.partitions or None),
    ),
    Metric(
        *("continuous_tasks", _G, "tasks"),
        "Tasks of the query, those of stages behind an exchange among them.",
        _one(lambda look, _: look.tasks or None),
    ),
    Metric(
        *("continuous_open_epoch", _G, ""),
        "The epoch that records belong to that arrive now.",
        _one(lambda look, _: look.open_epoch),
    ),
    Metric(
        *("continuous_committed_epoch", _G, ""),
        "The last committed epoch; -1 if there is none.",
        _one(lambda look, _: look.committed_epoch),
    ),
    Metric(
        *("continuous_epochs_committed_total", _C, "epochs"),
        "Epochs that were committed.",
        _one(lambda _, totals: totals.epochs),
    ),
    Metric(
        *("continuous_last_commit_timestamp_seconds", _G, "seconds"),
        "When this process has committed the last epoch, since 1970.",
        _one(lambda _, totals: _seconds(totals.committed_ms or None)),
    ),
    Metric(
        *("continuous_restarts_total", _C, "restarts"),
        "Restarts in place.",
        _one(lambda look, _: look.restarts),
    ),
    Metric(
        *("continuous_failing_since_timestamp_seconds", _G, "seconds"),
        "When the first failure was since the last commit, since 1970; absent while all is well.",
        _one(lambda look, _: _seconds(look.failing_since_ms)),
    ),
    Metric(
        *("continuous_next_attempt_timestamp_seconds", _G, "seconds"),
        "When the next attempt begins, since 1970; absent unless the query waits for it.",
        _one(lambda look, _: _seconds(look.next_attempt_at_ms)),
    ),
    Metric(
        *("continuous_rows_read_total", _C, "rows"),
        "Rows that a source returned, of committed epochs.",
        _rows_read,
        ("stream",),
    ),
    Metric(
        *("continuous_task_rows_read_total", _C, "rows"),
        f"The same by task; of the first {PARTITIONS_MAX} of a stream.",
        _task_rows,
        ("stream", "task"),
    ),
    Metric(
        *("continuous_rows_written_total", _C, "rows"),
        "Rows that the sink took, of committed epochs.",
        _one(lambda _, totals: totals.written),
    ),
    Metric(
        *("continuous_bad_records_total", _C, "rows"),
        "Records that were left out because they could not be parsed or computed with.",
        _one(lambda _, totals: totals.bad),
    ),
    Metric(
        *("continuous_late_rows_total", _C, "rows"),
        "Rows that a step with state has left out because they were behind the watermark.",
        _late,
        ("operator",),
    ),
    Metric(
        *("continuous_source_lag_offsets", _G, "offsets"),
        "How far the last commit is behind the end that the source saw last, all partitions "
        "together; absent where the source does not know its end.",
        _lags(sum),
        ("stream",),
    ),
    Metric(
        *("continuous_source_lag_offsets_max", _G, "offsets"),
        "The same of the partition that is behind most.",
        _lags(max),
        ("stream",),
    ),
    Metric(
        *("continuous_partition_lag_offsets", _G, "offsets"),
        f"The same by partition; of the first {PARTITIONS_MAX} of a stream.",
        _partition_lags,
        ("stream", "partition"),
    ),
    Metric(
        *("continuous_record_latency_seconds", _H, "seconds"),
        "From a batch's return by the source until the sink has taken it, each row counted.",
        _one(lambda _, totals: totals.latency.copy()),
    ),
    Metric(
        *("continuous_epoch_open_seconds", _H, "seconds"),
        "How long epochs were open.",
        _one(lambda _, totals: totals.open_for.copy()),
    ),
    Metric(
        *("continuous_epoch_commit_seconds", _H, "seconds"),
        "From the end of an epoch until it was committed.",
        _one(lambda _, totals: totals.committing.copy()),
    ),
    Metric(
        *("continuous_commit_step_seconds_total", _C, "seconds"),
        "Time that each step of the commits took; without the wait for a common commit.",
        _steps,
        ("step",),
    ),
    Metric(
        *("continuous_watermark_timestamp_seconds", _G, "seconds"),
        "The watermark of the last committed epoch, since 1970; absent without one.",
        _one(_watermark_s),
    ),
    Metric(
        *("continuous_event_time_max_timestamp_seconds", _G, "seconds"),
        "The newest event time that the last committed epoch has brought, since 1970; absent if it "
        "brought none.",
        _one(_event_time_s),
    ),
    Metric(
        *("continuous_state_rows", _G, "rows"),
        "Rows that a step keeps.",
        _of_operators("numRowsTotal"),
        ("operator",),
    ),
    Metric(
        *("continuous_state_snapshot_bytes", _G, "bytes"),
        "Size of the files that keep the state, as of the last committed epoch.",
        _of_operators("snapshotBytes"),
        ("operator",),
    ),
    Metric(
        *("continuous_observed", _G, ""),
        "What df.observe has computed of the last committed epoch; numbers only.",
        _observed,
        ("observation", "metric"),
    ),
)
