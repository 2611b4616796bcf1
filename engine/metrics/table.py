"""All metrics of a query: one table, which Prometheus, OpenTelemetry and docs/metrics.md go by.

Names and units are those of Prometheus: base units, ``_total`` for what only grows. Every metric
has the label ``query`` besides those that stand here. The number of series is bounded: labels are
of what a query is made of, and of a stream only so many partitions have series of their own
(:data:`~engine.metrics.values.PARTITIONS_MAX`).

========= ====================================================================
label     is
========= ====================================================================
stream    the number of a source, from 0, as in the lines of the offset log
partition of a source, as its offset names it: ``orders/3`` of Kafka
task      the number of a task among those that read a stream, from 0
operator  a step that keeps state, as ``stateOperators`` of a report names it
stage     whose tasks: ``source 0``, or the step that keeps state, as in ``stages`` of a report
activity  of a task: ``reading``, or waiting for records, ``transforming``, ``writing``
step      of a commit, as ``durationMs`` of a report names it
========= ====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from engine.metrics import values
from engine.metrics.meter import Look, QueryMeter
from engine.metrics.values import PARTITIONS_MAX

BOUNDS_S: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0),
)
"""The buckets of histograms; the last one is without a bound."""
BOUNDS_US: Final = [round(bound * 1_000_000) for bound in BOUNDS_S]


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
    :param reader: its values; nothing of what is not known.
    """

    name: str
    kind: Kind
    unit: str
    text: str
    reader: values.Reader
    labels: tuple[str, ...] = ()

    def read(self, meter: QueryMeter, look: Look) -> list[values.Labeled]:
        """The values of a query, at a look at it."""
        found: list[values.Labeled] = meter.read(lambda totals: list(self.reader(look, totals)))
        return found


_G, _C, _H = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM

METRICS: Final = (
    Metric(
        *("continuous_query_info", _G, ""),
        "Always 1. Which query this is, which run, and where its rows go.",
        values.info,
        ("query_id", "run_id", "sink"),
    ),
    Metric(
        *("continuous_stream_info", _G, ""),
        "Always 1. What a stream reads.",
        values.streams,
        ("stream", "source"),
    ),
    Metric(
        *("continuous_query_state", _G, ""),
        "1 for the state that the query is in, 0 for all others. STANDBY: another process runs it, "
        "and this one waits.",
        values.states,
        ("state",),
    ),
    Metric(
        *("continuous_generation", _G, ""),
        "The generation that holds the checkpoint; each attempt is one.",
        values.one(lambda look, _: look.generation),
    ),
    Metric(
        *("continuous_partitions", _G, "partitions"),
        "Partitions of all sources.",
        values.one(lambda look, _: look.partitions or None),
    ),
    Metric(
        *("continuous_tasks", _G, "tasks"),
        "Tasks of the query, those of stages behind an exchange among them.",
        values.one(lambda look, _: look.tasks or None),
    ),
    Metric(
        *("continuous_open_epoch", _G, ""),
        "The epoch that records belong to that arrive now.",
        values.one(lambda look, _: look.open_epoch),
    ),
    Metric(
        *("continuous_committed_epoch", _G, ""),
        "The last committed epoch; -1 if there is none.",
        values.one(lambda look, _: look.committed_epoch),
    ),
    Metric(
        *("continuous_epochs_committed_total", _C, "epochs"),
        "Epochs that were committed.",
        values.one(lambda _, totals: totals.epochs),
    ),
    Metric(
        *("continuous_last_commit_timestamp_seconds", _G, "seconds"),
        "When this process has committed the last epoch, since 1970.",
        values.one(lambda _, totals: values.seconds(totals.committed_ms or None)),
    ),
    Metric(
        *("continuous_started_timestamp_seconds", _G, "seconds"),
        "When this process has started the query, since 1970.",
        values.one(lambda look, _: values.seconds(look.started_ms)),
    ),
    Metric(
        *("continuous_commit_interval_seconds", _G, "seconds"),
        "So long it is at most from one commit to the next while all is well: the trigger's "
        "interval, or option emptyEpochInterval if that is longer.",
        values.one(lambda look, _: values.seconds(look.commit_interval_ms)),
    ),
    Metric(
        *("continuous_restarts_total", _C, "restarts"),
        "Restarts in place.",
        values.one(lambda look, _: look.restarts),
    ),
    Metric(
        *("continuous_failing_since_timestamp_seconds", _G, "seconds"),
        "When the first failure was since the last commit, since 1970; absent while all is well.",
        values.one(lambda look, _: values.seconds(look.failing_since_ms)),
    ),
    Metric(
        *("continuous_next_attempt_timestamp_seconds", _G, "seconds"),
        "When the next attempt begins, since 1970; absent unless the query waits for it.",
        values.one(lambda look, _: values.seconds(look.next_attempt_at_ms)),
    ),
    Metric(
        *("continuous_rows_read_total", _C, "rows"),
        "Rows that a source returned, of committed epochs.",
        values.rows_read,
        ("stream",),
    ),
    Metric(
        *("continuous_task_rows_read_total", _C, "rows"),
        f"The same by task; of the first {PARTITIONS_MAX} of a stream.",
        values.task_rows,
        ("stream", "task"),
    ),
    Metric(
        *("continuous_rows_written_total", _C, "rows"),
        "Rows that the sink took, of committed epochs.",
        values.one(lambda _, totals: totals.written),
    ),
    Metric(
        *("continuous_bad_records_total", _C, "rows"),
        "Records that were left out because they could not be parsed or computed with.",
        values.one(lambda _, totals: totals.bad),
    ),
    Metric(
        *("continuous_late_rows_total", _C, "rows"),
        "Rows that a step with state has left out because they were behind the watermark.",
        values.late_rows,
        ("operator",),
    ),
    Metric(
        *("continuous_source_lag_offsets", _G, "offsets"),
        "How far the last commit is behind the end that the source saw last, all partitions "
        "together; absent where the source does not know its end.",
        values.lags(sum),
        ("stream",),
    ),
    Metric(
        *("continuous_source_lag_offsets_max", _G, "offsets"),
        "The same of the partition that is behind most.",
        values.lags(max),
        ("stream",),
    ),
    Metric(
        *("continuous_partition_lag_offsets", _G, "offsets"),
        f"The same by partition; of the first {PARTITIONS_MAX} of a stream.",
        values.partition_lags,
        ("stream", "partition"),
    ),
    Metric(
        *("continuous_record_latency_seconds", _H, "seconds"),
        "From a batch's return by the source until the sink has taken it, each row counted; "
        "without those that a watermark has closed in an epoch in which nothing was read.",
        values.one(lambda _, totals: totals.latency.copy()),
    ),
    Metric(
        *("continuous_epoch_open_seconds", _H, "seconds"),
        "How long epochs were open.",
        values.one(lambda _, totals: totals.open_for.copy()),
    ),
    Metric(
        *("continuous_epoch_commit_seconds", _H, "seconds"),
        "From the end of an epoch until it was committed.",
        values.one(lambda _, totals: totals.committing.copy()),
    ),
    Metric(
        *("continuous_commit_step_seconds_total", _C, "seconds"),
        "Time that each step of the commits took; without the wait for a common commit.",
        values.commit_steps,
        ("step",),
    ),
    Metric(
        *("continuous_task_seconds_total", _C, "seconds"),
        "What tasks spent their time with, all of a stage together: the largest share of "
        "transforming or writing is what bounds the query; who keeps up is reading, or waiting "
        "for records.",
        values.task_activities,
        ("stage", "activity"),
    ),
    Metric(
        *("continuous_watermark_timestamp_seconds", _G, "seconds"),
        "The watermark of the last committed epoch, since 1970; absent without one.",
        values.one(values.watermark_s),
    ),
    Metric(
        *("continuous_event_time_max_timestamp_seconds", _G, "seconds"),
        "The newest event time that the last committed epoch has brought, since 1970; absent if it "
        "brought none.",
        values.one(values.event_time_s),
    ),
    Metric(
        *("continuous_state_rows", _G, "rows"),
        "Rows that a step keeps.",
        values.of_operators("numRowsTotal"),
        ("operator",),
    ),
    Metric(
        *("continuous_state_snapshot_bytes", _G, "bytes"),
        "Size of the files that keep the state, as of the last committed epoch.",
        values.of_operators("snapshotBytes"),
        ("operator",),
    ),
    Metric(
        *("continuous_observed", _G, ""),
        "What df.observe has computed of the last committed epoch; numbers only.",
        values.observed,
        ("observation", "metric"),
    ),
)
