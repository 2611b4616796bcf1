"""The metrics of one query: its run adds to them, and whoever serves or sends them reads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.metrics.totals import QueryTotals
from engine.progress.counters import EpochCounters
from engine.progress.report import EpochTimes
from engine.redaction.logs import log_failure
from engine.redaction.texts import encodable, redact

logger = logging.getLogger(__name__)
STANDBY: Final = "STANDBY"
"""The state of a query that another process runs while this one waits."""


@dataclass(frozen=True)
class Look:
    """What a query does right now; times in milliseconds since 1970.

    :param state: a value of :class:`engine.checkpoint.query_state.QueryState`, or :data:`STANDBY`.
    :param committed_epoch: the last one, -1 if there is none; None: it is not known yet.
    :param partitions: of all sources.
    :param tasks: of the query, those of stages behind an exchange among them.
    :param lags: of each stream by partition, in the shape of its offset; None for one that has not
        looked where it ends.
    :param sources: what each stream reads.
    :param started_ms: when this process has started it.
    :param commit_interval_ms: see the metric of that name.
    """

    state: str
    query_id: str = ""
    run_id: str = ""
    generation: int | None = None
    committed_epoch: int | None = None
    open_epoch: int | None = None
    restarts: int = 0
    failing_since_ms: int | None = None
    next_attempt_at_ms: int | None = None
    partitions: int = 0
    tasks: int = 0
    lags: Sequence[Any] = ()
    sources: Sequence[str] = ()
    sink: str = ""
    started_ms: int | None = None
    commit_interval_ms: int | None = None


class QueryMeter:
    """What is measured is added by the thread that commits, some microseconds per task and epoch;
    nothing is computed before somebody reads.

    :param name: of the query: the label of all its metrics.
    :param state: while it is not started.
    :ivar look: how the query is now.
    """

    def __init__(self, name: str, state: str) -> None:
        self.name = encodable(redact(name))
        self.look: Callable[[], Look] = lambda: Look(state)
        self._totals = QueryTotals()
        self._lock = threading.Lock()
        self._on_close: list[Callable[[], None]] = []

    def committed(
        self,
        report: Mapping[str, Any],
        times: EpochTimes,
        readers: Sequence[Sequence[EpochCounters]],
        writers: Iterable[EpochCounters],
    ) -> None:
        """See :meth:`engine.metrics.totals.QueryTotals.add`. Never raises: epochs do not depend on
        this."""
        try:
            with self._lock:
                self._totals.add(report, times, readers, writers)
        except Exception:
            log_failure(logger, "epoch %s is not in the metrics", report.get("batchId"))

    def read(self, using: Callable[[QueryTotals], Any]) -> Any:
        """What a function makes of the totals, which do not change meanwhile."""
        with self._lock:
            return using(self._totals)

    def on_close(self, call: Callable[[], None]) -> None:
        """To be called, once, when the query has ended."""
        self._on_close.append(call)

    def close(self) -> None:
        """Nobody reads any more. Again: nothing happens."""
        while self._on_close:
            self._on_close.pop()()
