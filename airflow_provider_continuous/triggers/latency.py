"""The latencies that the run of a query has reported last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.errors import ConfigError


def last_latencies(hook: CheckpointHook, status: CheckpointStatus) -> Mapping[str, Any] | None:
    """Return ``latencyMs`` of the run's newest progress report; None before its first one.

    :raises ConfigError: it reports none.
    """
    reports = hook.checkpoint.progress.read()
    newest = next((each for each in reversed(reports) if each["runId"] == status.run_id), None)
    if newest is None:
        return None
    latencies: Mapping[str, Any] | None = newest.get("latencyMs")
    if latencies is None:
        raise ConfigError(
            f"The query of {hook.location.url} reports no latencies, so there is no limit to them.",
            hint="Queries that Spark itself runs do not: use stalled_after, or lag_max.",
        )
    return latencies
