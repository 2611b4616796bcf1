"""The latencies that the run of a query has reported last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.whose_state import is_batch
from engine.errors import ConfigError


def last_latencies(hook: CheckpointHook, status: CheckpointStatus) -> Mapping[str, Any] | None:
    """Return ``latencyMs`` of the run's newest progress report; None before its first one.

    :raises ConfigError: it reports none.
    """
    reports = hook.checkpoint.progress.read()
    newest = next((each for each in reversed(reports) if each["runId"] == status.run_id), None)
    if newest is None and not _is_of_spark_alone(hook, status):
        return None
    latencies: Mapping[str, Any] | None = None if newest is None else newest.get("latencyMs")
    if latencies is None:
        raise ConfigError(
            f"The query of {hook.location.url} reports no latencies, so there is no limit to them.",
            hint="Queries that Spark itself runs do not: use stalled_after, or lag_max.",
        )
    return latencies


def _is_of_spark_alone(hook: CheckpointHook, status: CheckpointStatus) -> bool:
    """Whether nobody will ever report: it is ``df.writeStream`` that commits there."""
    return status.state is QueryState.UNKNOWN and is_batch(hook.checkpoint, status.epoch)
