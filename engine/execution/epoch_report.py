"""The progress report of an epoch, from what its tasks have told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.base.moments import iso_timestamp
from engine.coordinator.epoch_runner import CommittedEpoch
from engine.execution.definition import QueryDefinition
from engine.execution.lag import stream_progress
from engine.execution.observed import observed_metrics
from engine.pipeline.stateful import StatefulStep
from engine.progress.counters import EpochCounters
from engine.progress.histogram import LatencyHistogram
from engine.progress.report import (
    EpochTimes,
    QueryIdentity,
    Restarts,
    StageTimes,
    epoch_progress,
)
from engine.sources.contract import Offset
from engine.wire.messages import EpochCommitMessage

Reports = Sequence[Sequence[EpochCommitMessage]]


def epoch_report(
    identity: QueryIdentity,
    definition: QueryDefinition,
    starts: Sequence[Offset] | None,
    committed: CommittedEpoch,
    reports: Reports,
    times: EpochTimes,
    restarts: Restarts,
) -> dict[str, Any]:
    """See :mod:`engine.progress.report`.

    :param starts: where the epoch begins, per stream; None: at the very beginning.
    :param reports: per pipeline, of its tasks.
    """
    read = reports[: len(definition.streams)]
    begins = starts or (None,) * len(read)
    return epoch_progress(
        identity,
        committed.epoch,
        [
            stream_progress(*each)
            for each in zip(definition.streams, begins, committed.offsets, read, strict=True)
        ],
        times,
        committed.duration_ms,
        restarts,
        observed_metrics(definition.pipelines, reports),
        _stages(definition, reports),
        writers(definition, reports),
        _event_time(definition, committed.watermark_ms, reports),
        committed.watermark_ms if definition.delays_ms else None,
        _state_operators(definition, reports),
    )


def written_latency(definition: QueryDefinition, reports: Reports) -> LatencyHistogram:
    """From a batch's return by the reader until the writer has taken it, of all tasks: what
    ``latencyMs.readToWritten`` of the report summarizes."""
    latency = LatencyHistogram()
    for each in writers(definition, reports):
        latency.merge(each.read_to_written)
    return latency


def count_epoch(
    definition: QueryDefinition, report: Mapping[str, Any], reports: Reports, times: EpochTimes
) -> None:
    """Tell the query's meter of an epoch that was committed, if it has one.

    :param report: the progress report that was made of ``reports``.
    """
    if definition.meter is not None:
        read = reports[: len(definition.streams)]
        readers = [[part.counters for part in parts] for parts in read]
        definition.meter.committed(report, times, readers, writers(definition, reports))


def writers(definition: QueryDefinition, reports: Reports) -> list[EpochCounters]:
    """What the tasks have counted whose rows go to the sink."""
    return [
        part.counters
        for pipeline, parts in zip(definition.pipelines, reports, strict=True)
        for part in parts
        if pipeline.exchange is None
    ]


def _stages(definition: QueryDefinition, reports: Reports) -> list[StageTimes]:
    told = []
    for number, (pipeline, parts) in enumerate(zip(definition.pipelines, reports, strict=True)):
        kept = None if pipeline.stage is None else pipeline.kept
        name = f"source {number}" if kept is None else kept.name
        told.append(StageTimes(name, [part.counters for part in parts]))
    return told


def _event_time(definition: QueryDefinition, watermark_ms: int, reports: Reports) -> dict[str, str]:
    """The watermark during the epoch, and the newest event time that it has brought; nothing of a
    query without a watermark."""
    if not definition.delays_ms:
        return {}
    told = {"watermark": iso_timestamp(watermark_ms)}
    counters = [part.counters for parts in reports for part in parts]
    seen = [us for each in counters for us in each.event_times_us.values()]
    if seen:
        told["max"] = iso_timestamp(max(seen) // 1000)
    return told


def _state_operators(definition: QueryDefinition, reports: Reports) -> list[dict[str, Any]]:
    """One entry for each step that keeps state. The bytes of a snapshot are those of all steps of a
    stage: the first of them tells."""
    found = []
    for pipeline, parts in zip(definition.pipelines, reports, strict=True):
        handles = [part.state for part in parts if part.state is not None]
        steps = [step for step in pipeline.steps if isinstance(step, StatefulStep)]
        for index, step in enumerate(steps):
            late = sum(part.counters.late_rows.get(step.name, 0) for part in parts)
            rows = sum(part.counters.state_rows.get(step.name, 0) for part in parts)
            found.append(
                {
                    "operatorName": step.name,
                    "numRowsTotal": rows,
                    "numRowsDroppedByWatermark": late,
                    "snapshotBytes": 0 if index else sum(each.nbytes for each in handles),
                    "numShufflePartitions": len(parts),
                }
            )
    return found
