"""The progress report of one epoch, in the shape of Spark's StreamingQueryProgress.

Beyond Spark's fields: ``latencyMs.readToWritten`` (from a batch's return by the reader until the
writer has taken it) and ``latencyMs.epochEndToCommitted``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from engine.messages import EpochCounters
from engine.progress.histogram import LatencyHistogram


@dataclass(frozen=True)
class QueryIdentity:
    """What every report of a run has in common."""

    query_id: str
    run_id: str
    name: str | None
    source: str
    sink: str


def iso_timestamp(wall_ms: int) -> str:
    """Spark's spelling: ``2026-01-31T23:59:59.123Z``."""
    moment = datetime.fromtimestamp(wall_ms / 1000, tz=timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ms % 1000:03d}Z"


def epoch_progress(
    identity: QueryIdentity,
    *,
    epoch: int,
    started_ms: int,
    closed_ms: int,
    committed_ms: int,
    counters: Sequence[EpochCounters],
    start_offset: Any,
    end_offset: Any,
    duration_ms: dict[str, int],
) -> dict[str, Any]:
    """Build the report of a committed epoch.

    :param started_ms: wall clock when the epoch was opened; ``closed_ms`` when the driver closed
        it, ``committed_ms`` when its commit log entry was durable.
    :param counters: one per partition.
    :param duration_ms: step of the commit → milliseconds.
    """
    rows_in = sum(part.rows_read for part in counters)
    rows_out = sum(part.rows_written for part in counters)
    lasted_s = max(closed_ms - started_ms, 1) / 1000
    latency = LatencyHistogram()
    for part in counters:
        latency.merge(part.read_to_written)
    to_commit_ms = committed_ms - closed_ms
    rate = {
        "inputRowsPerSecond": rows_in / lasted_s,
        "processedRowsPerSecond": rows_in / max(committed_ms - started_ms, 1) * 1000,
    }
    return {
        "id": identity.query_id,
        "runId": identity.run_id,
        "name": identity.name,
        "timestamp": iso_timestamp(started_ms),
        "batchId": epoch,
        "batchDuration": closed_ms - started_ms,
        "numInputRows": rows_in,
        **rate,
        "durationMs": {**duration_ms, "triggerExecution": to_commit_ms},
        "stateOperators": [],
        "sources": [
            {
                "description": identity.source,
                "startOffset": _compact(start_offset),
                "endOffset": _compact(end_offset),
                "latestOffset": None,
                "numInputRows": rows_in,
                **rate,
            }
        ],
        "sink": {"description": identity.sink, "numOutputRows": rows_out},
        "latencyMs": {
            "readToWritten": latency.summary_ms(),
            "epochEndToCommitted": to_commit_ms,
        },
    }


def _compact(offset: Any) -> str | None:
    return None if offset is None else json.dumps(offset, separators=(",", ":"))
