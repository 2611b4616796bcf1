"""Stay with a run: until it has come far enough, has ended, or another one has taken over."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from airflow_provider_continuous.observing.source_ends import SourceEnds
from airflow_provider_continuous.triggers.base import status_event
from airflow_provider_continuous.triggers.kill import KillableTrigger
from airflow_provider_continuous.triggers.latency import last_latencies
from airflow_provider_continuous.triggers.poller import Event
from engine.checkpoint.checkpoint import CheckpointStatus
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import standing_by

STANDBY_GRACE_S = 15.0
"""So long a standby has to take over: a lease of ten heartbeats, and its start."""
STANDBY_EVERY_S = 10.0
"""Whether one waits is looked at so often."""


class QuerySupervisionTrigger(KillableTrigger):
    """Ends with ``reached``, ``ended``, ``replaced``, ``alone``; with ``timeout`` at the deadline.

    :param until_epoch: ``reached`` once this epoch has committed; None: never.
    :param restart_delay_s: a run that is FAILED or LOST is over only when nobody has taken over
        for so long: the pause before it is started again.
    :param takeover_grace_s: the same for a run that was asked to end: a restart or an upgrade by
        another task is no end.
    :param standby_due: ``alone`` when nobody stands by, from then on, seconds since 1970; None: no
        standby is wanted. With one, a run that is LOST gets :data:`STANDBY_GRACE_S` at least.
    """

    wanted = "the end of supervision"

    def __init__(
        self,
        *args: Any,
        until_epoch: int | None = None,
        restart_delay_s: float = 0.0,
        takeover_grace_s: float = 0.0,
        standby_due: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.until_epoch = until_epoch
        self.restart_delay_s = restart_delay_s
        self.takeover_grace_s = takeover_grace_s
        self.standby_due = standby_due
        self._over_since: float | None = None
        self._standby_seen_s = 0.0

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        return {
            **super().arguments(),
            "until_epoch": self.until_epoch,
            "restart_delay_s": self.restart_delay_s,
            "takeover_grace_s": self.takeover_grace_s,
            "standby_due": self.standby_due,
        }

    def look(self) -> Event | None:
        """Look once."""
        status = self.status()
        if status.state is QueryState.UNKNOWN:
            return {"outcome": "error", "error": "Its checkpoint is gone, or another one."}
        if self.until_epoch is not None and status.epoch >= self.until_epoch:
            return status_event("reached", status)
        if not status.state.is_over:
            self._over_since = None
            if status.run_id != self.run_id:
                return status_event("replaced", status)
            return status_event("alone", status) if self._is_alone() else None
        now = time.monotonic()
        if self._over_since is None:
            self._over_since = now
        stopped = status.state is QueryState.STOPPED
        grace_s = self.takeover_grace_s if stopped else self.restart_delay_s
        if status.state is QueryState.LOST and self.standby_due is not None:
            grace_s = max(grace_s, STANDBY_GRACE_S)
        return status_event("ended", status) if now - self._over_since >= grace_s else None

    def _is_alone(self) -> bool:
        now = time.time()
        due = self.standby_due is not None and now >= self.standby_due
        if not due or now - self._standby_seen_s < STANDBY_EVERY_S:
            return False
        if not standing_by(self.own_hook.checkpoint.storage):
            return True  # the look that reads everything asks once more
        self._standby_seen_s = now
        return False


class HealthyEpochsTrigger(KillableTrigger):
    """Ends with ``healthy``, ``ended`` or ``replaced``; with ``timeout`` at the deadline.

    :param after_epoch: the last epoch of the version before; -1 if it had none.
    :param epochs: how many epochs after it must commit.
    :param latency_max_ms: what ``latencyMs.readToWritten.p99`` of the newest progress report must
        not exceed by then; None: anything.
    :param commit_max_ms: the same for ``latencyMs.epochEndToCommitted``.
    :param lag_max: how far the committed offsets may be behind the ends of ``sources`` by then;
        None: any distance.
    :param sources: see :class:`SourceEnds`.
    """

    def __init__(
        self,
        *args: Any,
        after_epoch: int,
        epochs: int,
        latency_max_ms: float | None = None,
        commit_max_ms: float | None = None,
        lag_max: int | None = None,
        sources: Sequence[Mapping[str, Any] | None] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.after_epoch = after_epoch
        self.epochs = epochs
        self.latency_max_ms = latency_max_ms
        self.commit_max_ms = commit_max_ms
        self.lag_max = lag_max
        self.sources = list(sources)

    @property
    def wanted(self) -> str:
        """What is waited for, in words."""
        return f"{self.epochs} healthy epochs after epoch {self.after_epoch}"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this trigger again."""
        return {
            **super().arguments(),
            "after_epoch": self.after_epoch,
            "epochs": self.epochs,
            "latency_max_ms": self.latency_max_ms,
            "commit_max_ms": self.commit_max_ms,
            "lag_max": self.lag_max,
            "sources": self.sources,
        }

    def look(self) -> Event | None:
        """Look once."""
        status = self.status()
        if status.run_id != self.run_id:
            return status_event("replaced", status)
        enough = status.epoch >= self.after_epoch + self.epochs
        # One that has stopped without an error may have had a bounded trigger.
        good = status.state in (QueryState.RUNNING, QueryState.STOPPED)
        if enough and good and self._is_fast(status) and self._is_near(status):
            return status_event("healthy", status)
        return status_event("ended", status) if self.run_is_over(status) else None

    @cached_property
    def _ends(self) -> SourceEnds:
        return SourceEnds(self.sources)

    def _is_near(self, status: CheckpointStatus) -> bool:
        return self.lag_max is None or self._ends.lag(self.offsets_of(status)) <= self.lag_max

    def _is_fast(self, status: CheckpointStatus) -> bool:
        if self.latency_max_ms is None and self.commit_max_ms is None:
            return True
        latency = last_latencies(self.hook, status)
        if latency is None:
            return False
        # An epoch without rows has no latency: nothing waits.
        measured = (latency["readToWritten"] or {}).get("p99", 0.0), latency["epochEndToCommitted"]
        return all(
            limit is None or value <= limit
            for value, limit in zip(
                measured, (self.latency_max_ms, self.commit_max_ms), strict=True
            )
        )
