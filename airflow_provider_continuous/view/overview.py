"""What a person wants to know about a query, from one look at its checkpoint.

The page, the command line, the notifier, the listener and the metrics all tell the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.base.json_text import load
from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus
from engine.checkpoint.watermark import event_watermark_ms
from engine.redaction.logs import redact


@dataclass(frozen=True)
class QueryOverview:
    """One look.

    :param location: of the checkpoint, as the user writes it.
    :param progress: the last progress report; empty before the first, and for Spark's own queries.
    :param committed_at_ms: when the last epoch was committed, None before the first.
    :param looked_at_ms: the time of the look; both since 1970.
    :param watermark_ms: event time behind which all is committed, since 1970; None without one.
    """

    location: str
    status: CheckpointStatus
    progress: Mapping[str, Any] = field(default_factory=dict)
    committed_at_ms: int | None = None
    looked_at_ms: int = 0
    watermark_ms: int | None = None

    @property
    def name(self) -> str:
        """The query's name, else that of the checkpoint's folder."""
        return str(self.progress.get("name") or self.location.rstrip("/").rpartition("/")[2])

    @property
    def rows_per_second(self) -> float | None:
        """Rows read in the last committed epoch, per second; None unless the query is active."""
        rate = self.progress.get("inputRowsPerSecond")
        return float(rate) if rate is not None and self.status.state.is_active else None

    @property
    def latency_ms(self) -> Mapping[str, float]:
        """``p50``, ``p99`` and ``max``, from read to written, in the last committed epoch."""
        latency = self.progress.get("latencyMs") or {}
        return latency.get("readToWritten") or {}

    @property
    def records_behind(self) -> int | None:
        """How far the last committed epoch ends before the ends of its sources, all partitions
        together, in what their offsets count. None unless all of them know their ends, and tell."""
        told = [source.get("lag") for source in self.progress.get("sources") or []]
        counts = [count_behind(lag) for lag in told]
        return sum(each or 0 for each in counts) if counts and None not in counts else None

    @property
    def lag_s(self) -> float | None:
        """Seconds since the last commit: what was read before it is in the sink. None without a
        commit."""
        if self.committed_at_ms is None:
            return None
        return max(0.0, (self.looked_at_ms - self.committed_at_ms) / 1000)

    @property
    def watermark_lag_s(self) -> float | None:
        """Seconds that the watermark is behind the clock; negative if event time is ahead. None
        without a watermark."""
        if self.watermark_ms is None:
            return None
        return (self.looked_at_ms - self.watermark_ms) / 1000

    @property
    def error(self) -> str | None:
        """Why the query failed, or was restarted the last time; without secrets."""
        error = self.status.error or self.status.last_error
        return None if error is None else redact(error)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        status = self.status
        return {
            "name": self.name,
            "checkpoint_location": self.location,
            "state": status.state.value,
            "message": None if status.message is None else redact(status.message),
            "query_id": status.id,
            "run_id": status.run_id,
            "generation": status.generation,
            "epoch": status.epoch,
            "rows_per_second": self.rows_per_second,
            "latency_p50_ms": self.latency_ms.get("p50"),
            "latency_p99_ms": self.latency_ms.get("p99"),
            "lag_s": self.lag_s,
            "records_behind": self.records_behind,
            "watermark_ms": self.watermark_ms,
            "watermark_lag_s": self.watermark_lag_s,
            "restarts": status.restarts,
            "failing_since_ms": status.failing_since_ms,
            "next_attempt_at_ms": status.next_attempt_at_ms,
            "error": self.error,
            "started_at_ms": status.started_at_ms,
            "committed_at_ms": self.committed_at_ms,
            "host": status.host,
            "pid": status.pid,
            "application": status.application,
            "spark_ui": spark_ui(status),
        }


def look_at(checkpoint: Checkpoint, location: str) -> QueryOverview:
    """Look once.

    :param location: as the user writes it, for people.
    :raises CheckpointError: the checkpoint cannot be read.
    """
    status = checkpoint.status()
    reports = checkpoint.progress.read()
    return QueryOverview(
        location,
        status,
        reports[-1] if reports else {},
        checkpoint.committed_at_ms(status.epoch) if status.epoch >= 0 else None,
        round(time.time() * 1000),
        event_watermark_ms(checkpoint),
    )


def count_behind(lag: str | None) -> int | None:
    """Add up what a progress report tells as a source's lag; None if it tells no numbers."""
    try:
        found = list(_numbers(load(lag))) if lag else []
    except ValueError:  # cut, for it was long
        return None
    return sum(found) if found else None


def _numbers(lag: Any) -> Iterator[int]:
    if isinstance(lag, dict):
        for each in lag.values():
            yield from _numbers(each)
    elif isinstance(lag, int):
        yield lag


def spark_ui(status: CheckpointStatus) -> str | None:
    """Where Spark's own pages about a run are, while it lives and if they are on."""
    url = status.application_url or ""
    # Whoever may write the checkpoint has written this: no other kind of link gets on a page.
    return url if status.state.is_active and url.startswith(("http://", "https://")) else None
