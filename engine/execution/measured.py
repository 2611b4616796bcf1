"""What metrics tell of a query beside its epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.execution.execution import ContinuousExecution
from engine.metrics.meter import Look


def look_at(execution: ContinuousExecution) -> Look:
    """From any thread."""
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
        partitions=execution.spread.partitions,
        tasks=execution.spread.tasks,
        lags=_lags(execution),
        sources=[stream.description for stream in definition.streams],
        sink=definition.sink.description,
        started_ms=execution.started_ms,
        commit_interval_ms=max(
            definition.epoch_interval_ms, definition.options.empty_epoch_interval_ms
        ),
    )


def _lags(execution: ContinuousExecution) -> Sequence[Any]:
    """None of sources that fail to tell: all other metrics are there."""
    try:
        return execution.lag
    except Exception:
        return ()
