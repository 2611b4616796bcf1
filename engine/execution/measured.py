"""What a query tells its meter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.execution.definition import QueryDefinition
from engine.execution.epoch_report import Reports, writers
from engine.metrics.meter import Look
from engine.progress.report import EpochTimes

if TYPE_CHECKING:
    from engine.execution.execution import ContinuousExecution


def count_epoch(
    definition: QueryDefinition, report: Mapping[str, Any], reports: Reports, times: EpochTimes
) -> None:
    """An epoch was committed.

    :param report: the progress report that was made of ``reports``.
    """
    if definition.meter is not None:
        read = reports[: len(definition.streams)]
        readers = [[part.counters for part in parts] for parts in read]
        definition.meter.committed(report, times, readers, writers(definition, reports))


def look_at(execution: ContinuousExecution) -> Look:
    """What metrics tell beside the epochs. From any thread."""
    definition = execution.definition
    return Look(
        state=execution.state.value,
        query_id=execution.query_id,
        run_id=execution.run_id,
        generation=execution.generation,
        committed_epoch=execution.committed_epoch,
        open_epoch=execution.open_epoch,
        restarts=execution.restarts,
        failing_since_ms=execution.failing_since_ms,
        next_attempt_at_ms=execution.next_attempt_at_ms,
        partitions=execution.partitions,
        tasks=execution.tasks,
        lags=execution.lag,
        sources=[stream.description for stream in definition.streams],
        sink=definition.sink.description,
    )
