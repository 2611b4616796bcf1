"""QueryHealthTrigger: look whether a query runs and advances."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from airflow_provider_continuous.hooks.checkpoint import is_over
from airflow_provider_continuous.observing.source_ends import SourceEnds
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.latency import last_latencies
from airflow_provider_continuous.triggers.poller import Event
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.query_state import QueryState


class QueryHealthTrigger(CheckpointTrigger):
    """Ends with ``healthy``, or with ``unhealthy`` and why.

    :param from_epoch: the last committed epoch when the wait began: advancing means a later one;
        None: the one at this trigger's first look.
    :param stalled_after_s: a query whose last commit is older than this does not advance.
    :param latency_max_s: of a record from the reader to the writer, p99 of the last epoch.
    :param lag_max: how far the committed offsets may be behind the end of ``source``: bytes of a
        ``tail`` source.
    :param source: for ``lag_max``: see :class:`SourceEnds`.
    :param fail_on: names of states that are ``unhealthy`` at once.
    :param unhealthy_for_s: end with ``unhealthy`` once the query has been so for this long; None
        waits for it to recover.
    :param watch_until: do not end with ``healthy`` before this time, in seconds since 1970.
    :param unhealthy_since: since when it has been, in seconds since 1970, if somebody knows.
    """

    wanted = "a healthy query"

    def __init__(
        self,
        checkpoint_location: str,
        from_epoch: int | None = -1,
        stalled_after_s: float = 60.0,
        latency_max_s: float | None = None,
        lag_max: int | None = None,
        source: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        fail_on: Sequence[str] = (),
        unhealthy_for_s: float | None = None,
        watch_until: float | None = None,
        unhealthy_since: float | None = None,
        **waiting: Any,
    ) -> None:
        super().__init__(checkpoint_location, **waiting)
        self.from_epoch = from_epoch
        self.stalled_after_s = stalled_after_s
        self.latency_max_s = latency_max_s
        self.lag_max = lag_max
        self.source = source
        self.fail_on = [QueryState(state).value for state in fail_on]
        self.unhealthy_for_s = unhealthy_for_s
        self.watch_until = watch_until
        self.unhealthy_since = unhealthy_since

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        own = (
            "from_epoch",
            "stalled_after_s",
            "latency_max_s",
            "lag_max",
            "source",
            "fail_on",
            "unhealthy_for_s",
            "watch_until",
            "unhealthy_since",
        )
        return {**super().arguments(), **{name: getattr(self, name) for name in own}}

    @cached_property
    def _ends(self) -> SourceEnds:
        return SourceEnds(self.source)  # Airflow renders what it has started itself before

    def look(self) -> Event | None:
        """Look once."""
        status = self.status()
        if self.from_epoch is None:
            self.from_epoch = status.epoch
        figures = self._figures(status)
        paused = status.state is QueryState.LOST and not is_over(status)
        if status.state.value in self.fail_on and not paused:
            why = f"The query is {status.state}" + (f": {status.error}" if status.error else ".")
            return {"outcome": "unhealthy", "error": why, **figures}
        problems = self._problems(status, figures)
        now = time.time()
        if not problems:
            self.unhealthy_since = None
            if self.watch_until is not None:
                healthy = now >= self.watch_until
            else:
                healthy = status.epoch > self.from_epoch
            return {"outcome": "healthy", **figures} if healthy else None
        if self.unhealthy_since is None:
            self.unhealthy_since = now
            self.log.warning("Not healthy: %s", "; ".join(problems))
        if self.unhealthy_for_s is None or now - self.unhealthy_since < self.unhealthy_for_s:
            return None
        lasting = f"for {now - self.unhealthy_since:.0f} s"
        return {
            "outcome": "unhealthy",
            "error": f"It was not, {lasting}: {'; '.join(problems)}.",
            **figures,
        }

    def _figures(self, status: CheckpointStatus) -> dict[str, Any]:
        return {
            "state": status.state.value,
            "epoch": status.epoch,
            "commit_age_s": self._commit_age_s(status),
            "latency_s": self._latency_s(status),
            "lag": self._lag(status),
        }

    def _problems(self, status: CheckpointStatus, figures: Mapping[str, Any]) -> list[str]:
        found = []
        # Spark's own checkpoints do not say who runs them: there, commits alone tell.
        if status.state not in (QueryState.RUNNING, QueryState.UNKNOWN):
            doing = f" ({status.message})" if status.message else ""
            found.append(f"the query is {status.state}{doing}")
        age_s = figures["commit_age_s"]
        if age_s is None:
            found.append("nothing is committed")
        elif age_s > self.stalled_after_s:
            last = "last commit is" if status.epoch >= 0 else "first commit is missing, it began"
            found.append(f"the {last} {age_s:.0f} s ago")
        latency_s = figures["latency_s"]
        if self.latency_max_s is not None and (latency_s or 0.0) > self.latency_max_s:
            found.append(f"records take {latency_s:g} s (p99)")
        if self.lag_max is not None and figures["lag"] > self.lag_max:
            found.append(f"it is {figures['lag']} behind its sources")
        return found

    def _commit_age_s(self, status: CheckpointStatus) -> float | None:
        """Seconds since the last commit; before the first one, since the start."""
        summary = self.summary()
        if summary is not None and summary.committed_at_ms is not None:
            return max(0.0, time.time() - summary.committed_at_ms / 1000)
        committed_at = self.hook.describe_epoch(status.epoch)["committed_at"]
        if committed_at is not None:
            return max(0.0, time.time() - datetime.fromisoformat(committed_at).timestamp())
        if status.started_at_ms is not None:
            return max(0.0, time.time() - status.started_at_ms / 1000)
        return None

    def _latency_s(self, status: CheckpointStatus) -> float | None:
        if self.latency_max_s is None:
            return None
        summary = self.summary()
        if summary is not None and summary.latency_p99_ms is not None:
            return summary.latency_p99_ms / 1000
        latencies = last_latencies(self.hook, status)
        measured = None if latencies is None else latencies["readToWritten"]
        # None: this run has not reported yet, or its last epoch had no records.
        return None if measured is None else float(measured["p99"]) / 1000

    def _lag(self, status: CheckpointStatus) -> int | None:
        return None if self.lag_max is None else self._ends.lag(self.offsets_of(status))
