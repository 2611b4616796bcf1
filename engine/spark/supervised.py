"""The life of a query that Spark itself runs, seen from its checkpoint.

Spark's queries tell nobody who runs them, and hear nothing while they run. So this process holds
the checkpoint's lease for them, as the engine's own queries do: it renews it, obeys requests to
drain and stop, and says at the end how the query ended. Spark ignores the folder ``control/``.

Spark does not look at the lease before it commits, as the engine does. A run that has lost it is
stopped at its next heartbeat; until then only Spark's own logs, whose entries are created and never
overwritten, refuse a second writer.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.base.clock import Clock, SystemClock
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease, LeaseRecord
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rewind import bind, finish_rewind, read_intent
from engine.checkpoint.rewindable import RewindableSink
from engine.coordinator.events import DrainAsked, RunFailed
from engine.errors import ContinuousError, StaleRunError
from engine.execution.ending import EndEvent
from engine.execution.history_keeper import HistoryKeeper
from engine.execution.kept_reports import RECENT_PROGRESS_MAX
from engine.execution.lease_keeper import LeaseKeeper
from engine.sinks.reopen import recorded_sink
from engine.spark.failure import describe_error

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)
Drain = Callable[["StreamingQuery", Checkpoint, threading.Event], None]
_STOP_AGAIN_S = 1.0
_INITIALIZING = ("Initializing", "Starting")
"""How Spark's messages begin before a query reads."""


class SparkExecution:
    """One start of a query that Spark runs. Not reusable.

    :param drain: one of :mod:`engine.spark.drains`.
    :param temporary: the checkpoint is deleted when the query has ended as asked.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        drain: Drain,
        *,
        application: str | None = None,
        heartbeat_interval_ms: int = 1_000,
        temporary: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.run_id = str(uuid.uuid4())
        self.query_id = ""
        self.state = QueryState.STARTING
        self.message = "Starting"
        self.committed_epoch = -1
        self.error: BaseException | None = None
        self._drain = drain
        self._application = application
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._temporary = temporary
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._query: StreamingQuery | None = None
        self._asked: EndEvent | None = None
        self._history = HistoryKeeper(checkpoint.history, self._owns_checkpoint, self._clock)
        self._in_history = -1
        """The last epoch that is."""
        self._saved: str | None = None
        """The time of the last progress report that was looked at."""
        self._reports: dict[int, dict[str, Any]] | None = None
        """By epoch, those that are in the checkpoint; None before they were read."""
        self._terminated = threading.Event()
        """Spark's query has ended."""
        self._released = threading.Event()
        """The checkpoint says so."""

    # -- starting -------------------------------------------------------------------------------

    def start(
        self, start_query: Callable[[], StreamingQuery], lost: LeaseRecord | None = None
    ) -> StreamingQuery:
        """Take the checkpoint, then let Spark start the query.

        :param lost: see :meth:`engine.checkpoint.lease.Lease.acquire`.
        :raises ConcurrentRunError: another run holds the checkpoint; Spark has started nothing.
        :raises CheckpointError: the checkpoint cannot be used.
        """
        checkpoint = self.checkpoint
        self.query_id = checkpoint.create_or_read_query_id(str(uuid.uuid4()))
        self._lease = Lease.acquire(
            checkpoint,
            run_id=self.run_id,
            application=self._application,
            heartbeat_interval_ms=self._heartbeat_interval_ms,
            clock=self._clock,
            lost=lost,
        )
        self._keeper = LeaseKeeper(self._lease, checkpoint, self.tell, self._clock)
        self._keeper.start(self._look)
        try:
            self._finish_rewind()
            query = start_query()
        except BaseException as exc:
            self._release(exc)
            raise
        self._history.started("by Spark", self._lease.succeeds)
        with self._lock:
            self._query = query
            asked = self._asked
        for watch in (self._await_end, self._watch):
            name = f"{watch.__name__} {self.run_id}"
            threading.Thread(target=watch, args=(query,), name=name, daemon=True).start()
        if asked is not None:
            self._end(query, asked)
        return query

    def _finish_rewind(self) -> None:
        if read_intent(self.checkpoint) is not None:
            sink = RewindableSink.of(recorded_sink(self.checkpoint))
            bind(self.checkpoint, self._lease, sink)
            finish_rewind(self.checkpoint, self._lease, sink)

    # -- running --------------------------------------------------------------------------------

    def _look(self) -> dict[str, Any]:
        """What the lease says with each heartbeat, whether Spark's JVM answers just now or not."""
        self.committed_epoch = self.checkpoint.committed_epoch()
        return {"state": self.state, "message": self.message, "epoch": self.committed_epoch}

    def _watch(self, query: StreamingQuery) -> None:
        while not self._terminated.wait(self._heartbeat_interval_ms / 1000):
            if self._lease.is_expired:  # Spark asks nobody before it commits
                self.tell(RunFailed(StaleRunError("The lease could not be renewed in time.")))
            try:
                self._observe(query)
            except Exception as exc:  # its end, if this is it, is seen by who awaits it
                logger.warning("Spark does not tell about the query: %s", describe_error(exc))

    def _observe(self, query: StreamingQuery) -> None:
        message = str(query.status["message"])
        with self._lock:
            self.message = message
            if self.state is QueryState.STARTING and not message.startswith(_INITIALIZING):
                self.state = QueryState.RUNNING
        self._save_progress(query)

    def _save_progress(self, query: StreamingQuery) -> None:
        last = query.lastProgress
        if last is None or last["timestamp"] == self._saved:
            return
        try:
            committed = self.checkpoint.committed_epoch()
            # Under the run that holds the lease: Spark's own id of it is known to nobody else.
            told = [
                {**json.loads(report.json), "runId": self.run_id} for report in query.recentProgress
            ]
            # A trigger without data reports the batch that it would have begun.
            ran = [r for r in told if r["batchId"] <= committed and "addBatch" in r["durationMs"]]
            if ran:
                self._keep_reports(ran)
            self._saved = last["timestamp"]
            self._keep_history(ran)
        except (OSError, ValueError, ContinuousError) as exc:
            logger.warning("progress was not saved: %s", exc)

    def _keep_reports(self, ran: Sequence[dict[str, Any]]) -> None:
        """Behind those of earlier runs, which may have been the last that had data."""
        progress = self.checkpoint.progress
        if self._reports is None:
            self._reports = {report.get("batchId", -1): report for report in progress.read()}
        self._reports |= {report["batchId"]: report for report in ran}
        self._reports = dict(sorted(self._reports.items())[-RECENT_PROGRESS_MAX:])
        progress.write(list(self._reports.values()))

    def _keep_history(self, reports: Sequence[Mapping[str, Any]]) -> None:
        for report in reports:
            if report["batchId"] > self._in_history:
                self._in_history = report["batchId"]
                self._history.add(report)

    def _owns_checkpoint(self) -> bool:
        try:
            self._lease.check()
        except StaleRunError:
            return False
        return True

    # -- ending ---------------------------------------------------------------------------------

    def tell(self, event: EndEvent) -> None:
        """Ask for the end, or report that the lease is lost. Returns at once."""
        with self._lock:
            if isinstance(self._asked, RunFailed) or self._terminated.is_set():
                return
            if isinstance(event, DrainAsked):
                self.state = QueryState.DRAINING
            self._asked, query = event, self._query
        if query is not None:
            self._end(query, event)

    def await_termination(self, timeout_s: float | None) -> bool:
        """Wait until the query has ended and the checkpoint is given back; whether that came within
        the time."""
        return self._released.wait(timeout_s)

    @property
    def is_active(self) -> bool:
        """Whether the query has not ended."""
        return not self._released.is_set()

    def _end(self, query: StreamingQuery, event: EndEvent) -> None:
        def end() -> None:
            try:
                if isinstance(event, DrainAsked):
                    self._drain(query, self.checkpoint, self._terminated)
            except Exception as exc:  # why the query failed is told by who awaits its end
                logger.warning("the query did not drain: %s", describe_error(exc))
            else:
                if isinstance(event, DrainAsked):
                    return
            while not self._terminated.is_set():
                try:
                    query.stop()
                    return
                except Exception as exc:  # a batch that is busy for longer than Spark waits
                    logger.warning("the query did not stop: %s", describe_error(exc))
                self._terminated.wait(_STOP_AGAIN_S)

        # Spark takes its time for both, and neither heartbeats nor a second request may wait.
        threading.Thread(target=end, name=f"ending run {self.run_id}", daemon=True).start()

    def _await_end(self, query: StreamingQuery) -> None:
        error: BaseException | None = None
        try:
            query.awaitTermination()
        except BaseException as exc:
            error = exc
        asked = self._asked
        self._release(asked.error if isinstance(asked, RunFailed) else error)

    def _release(self, error: BaseException | None) -> None:
        with self._lock:
            self._terminated.set()
        self._keeper.stop()
        state = QueryState.STOPPED if error is None else QueryState.FAILED
        text = None if error is None else describe_error(error)
        steps: list[Callable[[], object]] = [
            self._tell_the_last,
            lambda: self._end_history(text),
            lambda: self._lease.release(state, error=text, cause=error),
        ]
        if self._temporary and error is None:
            steps.append(self.checkpoint.delete)
        for step in steps:  # each by itself: what fails must not leave the lease held
            try:
                step()
            except Exception as exc:
                logger.warning("the query did not end cleanly: %s", describe_error(exc))
        self.error, self.state, self.message = error, state, text or "Stopped"
        self._released.set()

    def _end_history(self, error: str | None) -> None:
        self._history.mark("stopped" if error is None else "failed", error or "as asked")
        self._history.close()

    def _tell_the_last(self) -> None:
        """What was committed since the last heartbeat."""
        self._lease.heartbeat(**self._look())
        if self._query is not None:
            self._save_progress(self._query)
