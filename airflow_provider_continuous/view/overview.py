"""What a person wants to know about a query, from one look at its checkpoint.

The page, the command line, the notifier, the listener and the metrics all tell the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.checkpoint.checkpoint import Checkpoint, CheckpointStatus, QueryLook
from engine.checkpoint.summary import Summary
from engine.redaction.logs import redact


@dataclass(frozen=True)
class QueryOverview:
    """One look.

    :param location: of the checkpoint, as the user writes it.
    :param status: who runs it, and how; maybe without offsets.
    :param summary: of its last committed epoch.
    :param looked_at_ms: the time of the look, since 1970.
    """

    location: str
    status: CheckpointStatus
    summary: Summary
    looked_at_ms: int = 0

    @property
    def committed_at_ms(self) -> int | None:
        """When the last epoch was committed, since 1970; None before the first."""
        return self.summary.committed_at_ms

    @property
    def watermark_ms(self) -> int | None:
        """Event time behind which all is committed, since 1970; None without one."""
        return self.summary.watermark_ms

    @property
    def name(self) -> str:
        """The query's name, else that of the checkpoint's folder."""
        return str(self.summary.name or self.location.rstrip("/").rpartition("/")[2])

    @property
    def rows_per_second(self) -> float | None:
        """Rows read in the last committed epoch, per second; None unless the query is active."""
        rate = self.summary.rows_per_second
        return float(rate) if rate is not None and self.status.state.is_active else None

    @property
    def latency_ms(self) -> Mapping[str, float]:
        """``p50``, ``p99`` and ``max``, from read to written, in the last committed epoch; empty if
        it is not known."""
        told = self.summary
        values = {
            "p50": told.latency_p50_ms,
            "p99": told.latency_p99_ms,
            "max": told.latency_max_ms,
        }
        return {name: value for name, value in values.items() if value is not None}

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
            "commit_ms": self.summary.commit_ms,
            "lag_s": self.lag_s,
            "source_lag": self.summary.lag,
            "rows": self.summary.rows,
            "bad_records": self.summary.bad_records,
            "watermark_ms": self.watermark_ms,
            "watermark_lag_s": self.watermark_lag_s,
            "restarts": status.restarts,
            "failing_since_ms": status.failing_since_ms,
            "next_attempt_at_ms": status.next_attempt_at_ms,
            "error": self.error,
            "error_class": status.error_class,
            "started_at_ms": status.started_at_ms,
            "heartbeat_at_ms": status.heartbeat_at_ms,
            "committed_at_ms": self.committed_at_ms,
            "host": status.host,
            "pid": status.pid,
            "application": status.application,
            "spark_ui": spark_ui(status),
        }


def look_at(
    checkpoint: Checkpoint, location: str, committed: Callable[[], Iterable[int]] | None = None
) -> QueryOverview:
    """Look once.

    :param location: as the user writes it, for people.
    :param committed: see :meth:`engine.checkpoint.checkpoint.Checkpoint.status`.
    :raises CheckpointError: the checkpoint cannot be read.
    """
    return overview_of(checkpoint.look(committed), location)


def overview_of(look: QueryLook, location: str) -> QueryOverview:
    """Return what a look shows.

    :param location: as the user writes it, for people.
    """
    return QueryOverview(location, look.status, look.summary, round(time.time() * 1000))


def spark_ui(status: CheckpointStatus) -> str | None:
    """Where Spark's own pages about a run are, while it lives and if they are on."""
    url = status.application_url or ""
    # Whoever may write the checkpoint has written this: no other kind of link gets on a page.
    return url if status.state.is_active and url.startswith(("http://", "https://")) else None
