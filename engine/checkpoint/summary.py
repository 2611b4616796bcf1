"""The summary: what a look at a query needs, in an object that is there anyway: ``control/lease``.

A run replaces its lease with each heartbeat (``leaseHeartbeatMs``), half of that after a commit at
the latest, and when it ends; so the summary costs no request of its own, and nothing waits for it.
Who runs the query, and how, is told by the lease's own fields; under ``summary`` stands what is
known of the last committed epoch, ``lag`` as of the heartbeat, and ``rows_per_second`` 0 once
nothing has been committed for long (:meth:`Summary.as_of`)::

    {"run_id":"...","generation":3,"state":"RUNNING","epoch":7,...,
     "summary":{"query_id":"...","name":"orders","epoch":7,"committed_at_ms":1795174660561,
                "rows":120,"rows_written":118,"rows_per_second":120.0,"bad_records":0,
                "latency_p50_ms":0.4,"latency_p99_ms":0.9,"latency_max_ms":1.5,
                "commit_ms":12,"lag":40,"watermark_ms":1795174600000}}

It is null until a run knows what it goes on from, in leases of queries that Spark runs or that a
rewind has left behind, and missing in those of older releases. Then the logs and the progress
reports tell the same, with more reads (:func:`summarize`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from engine.checkpoint.watermark import event_watermark_ms
from engine.history.measures import lag_of, rate_of

if TYPE_CHECKING:
    from engine.checkpoint.folder import CheckpointFolder


_TEXTS: Final = ("query_id", "name")
QUIET_MS: Final = 10_000
"""So long nothing is committed before the rate is 0, or for three epochs if they are longer."""


@dataclass(frozen=True)
class Summary:
    """What is known of the last committed epoch; None is not known, or there is none.

    :param query_id: see :meth:`engine.checkpoint.folder.CheckpointFolder.query_id`.
    :param name: of the query.
    :param epoch: -1 before the first.
    :param committed_at_ms: when it was committed, since 1970.
    :param rows: how many were read in it; ``rows_written`` to the sink.
    :param rows_per_second: read in it, per second; see :meth:`as_of`.
    :param bad_records: how many it left out.
    :param latency_p50_ms: from a record's return by the reader until the writer has taken it, in
        milliseconds; likewise ``latency_p99_ms`` and ``latency_max_ms``.
    :param commit_ms: from the epoch's end to its commit.
    :param lag: see :func:`engine.history.measures.lag_of`.
    :param watermark_ms: event time behind which all is committed, since 1970.
    """

    query_id: str | None = None
    name: str | None = None
    epoch: int = -1
    committed_at_ms: int | None = None
    rows: int | None = None
    rows_written: int | None = None
    rows_per_second: float | None = None
    bad_records: int | None = None
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    latency_max_ms: float | None = None
    commit_ms: float | None = None
    lag: int | None = None
    watermark_ms: int | None = None

    def as_of(self, now_ms: int) -> Summary:
        """The same later, with a rate of 0 if nothing was committed for long: nothing came, or it
        does not get on.

        :param now_ms: by the clock of the run's machine, as ``committed_at_ms`` is.
        """
        if not self.rows_per_second or self.committed_at_ms is None:
            return self
        lasted_ms = (self.rows or 0) / self.rows_per_second * 1000
        is_quiet = now_ms - self.committed_at_ms > max(QUIET_MS, 3 * lasted_ms)
        return replace(self, rows_per_second=0.0) if is_quiet else self

    @classmethod
    def from_json(cls, given: Any) -> Summary | None:
        """Fields that a newer engine has added are left out, or tells in another way; None of what
        is no summary."""
        if not isinstance(given, dict) or not isinstance(given.get("epoch"), int):
            return None
        names = (field.name for field in fields(cls) if field.name in given)
        return cls(**{name: given[name] for name in names if _fits(name, given[name])})


def _fits(name: str, value: Any) -> bool:
    if value is None or name in _TEXTS:
        return value is None or isinstance(value, str)
    return isinstance(value, (int, float)) and math.isfinite(value)


def summary_of(
    report: Mapping[str, Any],
    query_id: str | None,
    epoch: int,
    committed_at_ms: int | None,
    watermark_ms: int | None,
) -> Summary:
    """What a progress report tells; see :mod:`engine.progress.report`.

    :param report: of the epoch, or of an earlier one if it has none; empty if there is none.
    """
    latency = report.get("latencyMs") or {}
    passed = latency.get("readToWritten") or {}
    return Summary(
        query_id=query_id,
        name=report.get("name"),
        epoch=epoch,
        committed_at_ms=committed_at_ms,
        rows=report.get("numInputRows"),
        rows_written=rows_written(report),
        rows_per_second=rate_of(report),
        bad_records=report.get("numBadRecords"),
        latency_p50_ms=passed.get("p50"),
        latency_p99_ms=passed.get("p99"),
        latency_max_ms=passed.get("max"),
        commit_ms=latency.get("epochEndToCommitted"),
        lag=lag_of(report),
        watermark_ms=watermark_ms,
    )


def rows_written(report: Mapping[str, Any]) -> int | None:
    """Return how many rows went to the sink; None if that is not known: Spark tells -1 then."""
    written = (report.get("sink") or {}).get("numOutputRows")
    return None if written is None or written < 0 else int(written)


def summarize(checkpoint: CheckpointFolder, epoch: int) -> Summary:
    """The same from the logs and the progress reports, with a handful of reads.

    :param epoch: the last committed one, -1 if there is none.
    :raises CheckpointError: they cannot be read.
    """
    reports = checkpoint.progress.read()
    return summary_of(
        reports[-1] if reports else {},
        checkpoint.query_id(),
        epoch,
        checkpoint.committed_at_ms(epoch) if epoch >= 0 else None,
        event_watermark_ms(checkpoint, epoch) if epoch >= 0 else None,
    )
