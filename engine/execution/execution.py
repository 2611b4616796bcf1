"""The life of a query: attempts to run it, one after the other, until it ends.

All that can go wrong before a task runs is raised by :meth:`ContinuousExecution.start`. What goes
wrong later is answered by another attempt, from the last committed epoch, as far as the policy
grants one (:mod:`engine.execution.restart_budget`); otherwise it ends the query and is kept in
:attr:`ContinuousExecution.error`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from engine.base.clock import Clock, SystemClock
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.coordinator.coordinator import Phase
from engine.coordinator.epoch_runner import CommittedEpoch
from engine.coordinator.events import DrainAsked, StopAsked
from engine.errors import ContinuousError, NotEnoughSlotsError, SourceError, in_the_catalogue
from engine.execution.attempt import Attempt
from engine.execution.definition import QueryDefinition
from engine.execution.ending import EndRequest
from engine.execution.epoch_report import count_epoch, epoch_report, written_latency
from engine.execution.health import Stall
from engine.execution.kept_reports import KeptReports
from engine.execution.lag import has_reached, lags, total_lag
from engine.execution.launcher import Launcher
from engine.execution.query_start import QueryStart
from engine.execution.restart_budget import Blame, RestartPolicy, blame
from engine.execution.shares import Spread
from engine.execution.sharing import TaskSharing
from engine.execution.summarizing import SummaryKeeper
from engine.execution.wanted_epochs import WantedEpochs
from engine.progress.report import EpochTimes, QueryIdentity, Restarts
from engine.redaction.logs import log_failure
from engine.sources.contract import DataSourceContinuousReader, Offset
from engine.wire.messages import EpochCommitMessage

logger = logging.getLogger(__name__)
_PHASES = {
    Phase.STARTING: (QueryState.STARTING, "Waiting for the tasks to start"),
    Phase.WIRING: (QueryState.STARTING, "Waiting for the tasks to reach one another"),
    Phase.REPLAYING: (QueryState.STARTING, "Running an epoch again to its logged end"),
    Phase.RUNNING: (QueryState.RUNNING, "Running"),
    Phase.DRAINING: (QueryState.DRAINING, "Finishing the open epoch"),
}


class ContinuousExecution:
    """One start of a query. Not reusable.

    :param launcher: runs the tasks.
    :ivar has_run: whether all its tasks have ever run at once, since this start.
    """

    def __init__(
        self, definition: QueryDefinition, launcher: Launcher, clock: Clock | None = None
    ) -> None:
        self.definition = definition
        self.run_id = str(uuid.uuid4())
        self.query_id = ""
        self.state = QueryState.STARTING
        self.message = "Initializing sources"
        self.error: ContinuousError | None = None
        self.last_error: ContinuousError | None = None
        self.started_ms: int | None = None
        self.next_attempt_at_ms: int | None = None
        self.failing_since_ms: int | None = None
        self.committed_epoch = -1
        self._committed_offsets: tuple[Offset, ...] | None = None
        self._starts: tuple[Offset, ...] = ()
        self._summary = SummaryKeeper(definition.checkpoint, definition.name)
        self._launcher = launcher
        self._clock = clock or SystemClock()
        self._kept = KeptReports(definition.checkpoint, self._owns_checkpoint, self._clock)
        self._policy = RestartPolicy(definition.options, interval_ms=definition.epoch_interval_ms)
        self.has_run = False
        self._unstalled = self.state, self.message
        self._healthy_from_s: float | None = None
        """The last commit of this attempt, or when its tasks were all running; monotonic. While it
        is idle, the last look."""
        self._waiting_from_s: float | None = None
        """Since then this attempt waits for task slots; monotonic."""
        self._tables_read_s = self._clock.monotonic_s()
        self._dropped_by: ContinuousError | None = None
        """The failure that took back what was open, while nothing is committed since."""
        self._changed = threading.Condition()
        self._terminated = threading.Event()
        self._attempt: Attempt | None = None
        self._start: QueryStart | None = None
        self._ending = EndRequest(self._clock)
        self._wanted = WantedEpochs()

    @property
    def restarts(self) -> int:
        """How often the query was started again in place."""
        return self._policy.restarts

    # -- starting -------------------------------------------------------------------------------

    def start(self) -> None:
        """Check everything, recover, and launch the tasks.

        :raises ContinuousError: the query cannot start; nothing is left running.
        """
        definition = self.definition
        self.started_ms = self._clock.now_ms()
        try:
            if definition.sink.driver.validate is not None:
                definition.sink.driver.validate()
            self.query_id = definition.checkpoint.create_or_read_query_id(str(uuid.uuid4()))
            self._start = QueryStart(
                self.query_id,
                self.run_id,
                self._launcher,
                self._clock,
                listener=self,
                sharing=TaskSharing(
                    definition.options.partitions_per_task,
                    definition.options.slots_to_keep_free,
                    definition.sink.driver.task_slots,
                ),
                ending=self._ending,
                wanted=self._wanted,
                news=self._summary.news,
            )
            attempt = self._new_attempt()
            try:
                attempt.recover()
                lost = None if attempt.lease is None else attempt.lease.succeeds
                self._kept.history.started(_where(self.committed_epoch), lost)
            except BaseException as exc:
                attempt.release(QueryState.FAILED, _as_continuous_error(exc))
                raise
        except BaseException:
            self.definition.stop_sources()
            raise
        threading.Thread(
            target=self._execute,
            args=(attempt,),
            name=f"continuous execution {definition.name or self.query_id}",
            daemon=True,
        ).start()

    def _new_attempt(self, lease: Lease | None = None) -> Attempt:
        assert self._start is not None
        attempt = Attempt(self.definition, self._start, self._tables_read_s, lease)
        with self._changed:
            self._attempt = attempt
        return attempt

    def look(self) -> dict[str, Any]:
        """See :class:`engine.execution.query_start.StartListener`."""
        return {
            "state": self.state,
            "message": self.message,
            "epoch": self.committed_epoch,
            "restarts": self.restarts,
            "last_error": None if self.last_error is None else str(self.last_error),
            "error_class": in_the_catalogue(self.last_error),
            "next_attempt_at_ms": self.next_attempt_at_ms,
            "failing_since_ms": self.failing_since_ms,
            "summary": self._summary.look(self._clock.now_ms(), total_lag(lambda: self.lag)),
        }

    # -- running --------------------------------------------------------------------------------

    def _execute(self, attempt: Attempt) -> None:
        error: ContinuousError | None = None
        try:
            while True:
                self._healthy_from_s = self._waiting_from_s = None
                error = attempt.run()
                self._dropped_by = error or self._dropped_by
                if not isinstance(error, NotEnoughSlotsError):  # such a wait was in vain
                    self._end_waiting()
                if attempt.is_reconfiguring and attempt.is_refresh_due:
                    error = self._read_again()
                if error is None and not attempt.is_reconfiguring:
                    error = self._undrained
                    break
                if error is None:
                    self._kept.history.mark("reconfigured", self.message)
                    self._enter(QueryState.STARTING, "Going on from the last committed epoch")
                else:
                    delay_s = self._restart_delay_s(error)
                    if delay_s is None:
                        if self._ending.is_asked and blame(error) is Blame.SOURCE:
                            error = self._ending.error or self._undrained  # nothing is in doubt
                        break
                    attempt.keep_checkpoint()
                    if self._ending.wait(delay_s):
                        error = self._ending.error or self._undrained
                        break
                attempt = self._new_attempt(attempt.let_go())
        except BaseException as exc:
            log_failure(logger, "the query failed")
            error = _as_continuous_error(exc)
        finally:
            self._terminate(attempt, error)

    @property
    def _undrained(self) -> ContinuousError | None:
        """Why a drain could not commit what was open: it came during an outage."""
        return self._dropped_by if self._ending.is_drain else None

    def _read_again(self) -> ContinuousError | None:
        """Replace the tables that the streams are joined with; why it failed, if it did. The next
        attempt then goes on with the old ones, until they are due again."""
        assert self.definition.read_again is not None
        try:
            streams, stages = self.definition.read_again()
        except Exception as exc:
            error = SourceError(f"A table could not be read again: {type(exc).__name__}: {exc}")
            error.__cause__ = exc
            return error
        finally:
            self._tables_read_s = self._clock.monotonic_s()
        self.definition.stop_sources()
        self.definition = replace(self.definition, streams=streams, stages=stages)
        return None

    def _restart_delay_s(self, error: ContinuousError) -> float | None:
        """The pause before the next attempt; None if there will be none."""
        proven = self.committed_epoch >= 0
        never_ran = blame(error) is Blame.INFRASTRUCTURE and not self.has_run and not proven
        if self._ending.is_asked or never_ran:  # what has never worked is told at once
            return None
        now_s = self._clock.monotonic_s()
        ran_s = self._healthy_s(now_s)
        delay_s = self._policy.next_delay_s(error, now_s=now_s, proven=proven, ran_s=ran_s)
        if delay_s is None:
            return None
        now_ms = self._clock.now_ms()
        self.last_error = error
        self.failing_since_ms = self.failing_since_ms or now_ms
        self.next_attempt_at_ms = now_ms + round(delay_s * 1000)
        logger.warning("restart %d in %.1f s, after: %s", self.restarts, delay_s, error)
        self._kept.history.mark("restarted", error)
        self._enter(QueryState.RESTARTING, f"Restart {self.restarts} follows, after: {error}")
        return delay_s

    def _enter(self, state: QueryState, message: str) -> None:
        self.state, self.message = state, message

    # -- what the run tells ---------------------------------------------------------------------

    def on_recovered(self, committed_epoch: int) -> None:
        """See :class:`engine.execution.query_start.StartListener`."""
        with self._changed:
            if committed_epoch > self.committed_epoch:
                self._be_well()
            self.committed_epoch = committed_epoch
            self._summary.recovered(committed_epoch)
            if self._attempt is not None:
                self._committed_offsets = self._attempt.committed_offsets
                self._starts = self._attempt.starts
            self.next_attempt_at_ms = None
            self._changed.notify_all()

    def on_phase(self, phase: Phase, *, reconfiguring: bool) -> None:
        """See :class:`engine.execution.run_listener.RunListener`."""
        if phase is Phase.DRAINING and reconfiguring:
            self._enter(QueryState.RECONFIGURING, "Taking up new partitions, or tables")
        elif phase is not Phase.ENDED:
            if phase is Phase.RUNNING:
                self.has_run = True
                self._healthy_from_s = self._clock.monotonic_s()
                if self.failing_since_ms is not None:
                    # Only a commit shows that all is well: it does not wait for records.
                    self._wanted.want(self.committed_epoch + 1)
            self._enter(*_PHASES[phase])

    def on_waiting(self, what: str | None) -> None:
        """See :class:`engine.execution.run_listener.RunListener`."""
        logger.info("%s", what or "the task slots are there")
        if what is None:
            self._end_waiting()
            self._enter(*_PHASES[Phase.STARTING])
        else:
            if self._waiting_from_s is None:
                self._waiting_from_s = self._clock.monotonic_s()
            self._enter(QueryState.WAITING, what)

    def _end_waiting(self) -> None:
        if self._waiting_from_s is not None:
            self._policy.waited(self._clock.monotonic_s() - self._waiting_from_s)
            self._waiting_from_s = None

    def on_stall(self, stall: Stall | None) -> None:
        """See :class:`engine.execution.run_listener.RunListener`."""
        if stall is not None:
            logger.warning("%s", stall)
            if self.state is not QueryState.STALLED:
                self._unstalled = self.state, self.message
            self._enter(QueryState.STALLED, f"{stall}.")
        elif self.state is QueryState.STALLED:  # nothing else was asked for meanwhile
            self._enter(*self._unstalled)

    def on_committed(
        self,
        committed: CommittedEpoch,
        reports: Sequence[Sequence[EpochCommitMessage]],
        times: EpochTimes,
    ) -> None:
        """See :class:`engine.execution.run_listener.RunListener`."""
        name, sink = self.definition.name, self.definition.sink.description
        report = epoch_report(
            QueryIdentity(self.query_id, self.run_id, name, sink),
            self.definition,
            self._committed_offsets,
            committed,
            reports,
            times,
            Restarts(self.restarts, None if self.last_error is None else str(self.last_error)),
        )
        # Before those who wait hear of it: they may look at the metrics next.
        count_epoch(self.definition, report, reports, times)
        with self._changed:
            self.committed_epoch = committed.epoch
            self._committed_offsets = committed.offsets
            self._be_well()
            self.recent_progress.append(report)
            self._changed.notify_all()
        self._summary.committed(report, times.committed_ms, committed.next_watermark_ms)
        assert self._attempt is not None
        self._kept.save_soon(self._attempt.later, written_latency(self.definition, reports))

    def on_idle(self) -> None:
        """See :class:`engine.execution.run_listener.RunListener`."""
        with self._changed:
            if self.failing_since_ms is None:  # what hangs before its first record looks idle, too
                self._be_well()

    def _be_well(self) -> None:
        now_s = self._clock.monotonic_s()
        self.failing_since_ms = self._dropped_by = None
        self._policy.well(now_s=now_s, healthy_s=self._healthy_s(now_s))
        if self._healthy_from_s is not None:
            self._healthy_from_s = now_s

    def _healthy_s(self, now_s: float) -> float:
        return 0.0 if self._healthy_from_s is None else now_s - self._healthy_from_s

    def _owns_checkpoint(self) -> bool:
        return self._attempt is not None and self._attempt.owns_checkpoint()

    # -- ending ---------------------------------------------------------------------------------

    def drain(self) -> None:
        """Ask for the open epoch to be finished and committed; then the query ends."""
        self._ending.ask(DrainAsked())

    def stop(self) -> None:
        """Ask for the query to end now; records of the open epoch are read again next time."""
        self._ending.ask(StopAsked())

    def _terminate(self, attempt: Attempt, error: ContinuousError | None) -> None:
        state = QueryState.STOPPED if error is None else QueryState.FAILED
        steps: list[Callable[[], object]] = [
            self._leaving_gone,
            self.definition.stop_sources,
            lambda: self._kept.save_last(error),
            lambda: attempt.release(state, error),
        ]
        if self.definition.meter is not None:
            steps.append(self.definition.meter.close)
        if self.definition.temporary_checkpoint and error is None:
            steps.append(self._delete_checkpoint)
        for step in steps:  # each by itself: what fails must not leave the lease held
            try:
                step()
            except Exception:
                log_failure(logger, "the query did not end cleanly")
        with self._changed:
            self.error = error
            text = "Stopped" if error is None else f"Terminated with exception: {error}"
            self._enter(state, text)
            self._terminated.set()
            self._changed.notify_all()

    def _delete_checkpoint(self) -> None:
        """Unless an epoch is logged and not committed: then its rows are nowhere else."""
        checkpoint = self.definition.checkpoint
        if max(checkpoint.offsets.ids(), default=-1) > checkpoint.committed_epoch():
            logger.warning("%s is kept: its last epoch is not committed", checkpoint.url)
        else:
            checkpoint.delete()

    def _leaving_gone(self) -> None:
        if self._start is not None:
            self._start.leaving.await_gone()

    # -- looking --------------------------------------------------------------------------------

    @property
    def recent_progress(self) -> deque[dict[str, Any]]:
        """The last progress reports, oldest first."""
        return self._kept.recent

    @property
    def is_active(self) -> bool:
        """Whether the query has not ended yet."""
        return not self._terminated.is_set()

    def await_termination(self, timeout_s: float | None) -> bool:
        """Wait for the end; whether it came within the time. Returns at once inside of a commit of
        this query, which could only wait for itself."""
        return self._terminated.wait(0 if self._is_inside_commit else timeout_s)

    def await_epoch(self, epoch: int, timeout_s: float | None) -> bool:
        """Wait until ``epoch`` is committed, the query has ended, or the time is over; whether it
        is committed. Returns at once inside of a commit of this query."""
        with self._wanted.waiting(epoch), self._changed:
            self._changed.wait_for(
                lambda: self.committed_epoch >= epoch or self._terminated.is_set(),
                0 if self._is_inside_commit else timeout_s,
            )
            return self.committed_epoch >= epoch

    @property
    def spread(self) -> Spread:
        """Over how many tasks the query is spread; all 0 before it is known."""
        return Spread() if self._attempt is None else self._attempt.spread

    def await_all_available(self) -> None:
        """Wait until what is in the sources now is committed, or the query has ended. Of a source
        that cannot tell where it ends: the open epoch, which a record may just miss, and the next.
        """
        streams, epoch = self.definition.streams, self.open_epoch + 1
        with self._changed:
            starts = self._committed_offsets or self._starts
        ends = [
            stream.reader.latestOffset(start) for stream, start in zip(streams, starts, strict=True)
        ]
        if None in ends:
            self.await_epoch(epoch, None)
        readers = [stream.reader for stream in streams]
        # What is there may be no record: an epoch without any stays open.
        with self._wanted.waiting(epoch, for_all=True), self._changed:
            self._changed.wait_for(
                lambda: self._terminated.is_set() or self._has_committed(readers, ends),
                0 if self._is_inside_commit else None,
            )

    def _has_committed(
        self, readers: Sequence[DataSourceContinuousReader], ends: Sequence[Offset | None]
    ) -> bool:
        committed = self._committed_offsets or self._starts
        return len(committed) == len(ends) and all(
            end is None or has_reached(reader, offset, end)
            for reader, offset, end in zip(readers, committed, ends, strict=True)
        )

    @property
    def lag(self) -> list[Any]:
        """How far each source's committed offset is behind the end that it saw last, by partition,
        in the shape of the offset; None for one that has seen none."""
        with self._changed:
            committed = self._committed_offsets or self._starts
        return lags(self.definition.streams, committed)

    @property
    def generation(self) -> int | None:
        """That holds the checkpoint; None before there is one."""
        lease = None if self._attempt is None else self._attempt.lease
        return None if lease is None else lease.generation

    @property
    def open_epoch(self) -> int:
        """The epoch that records arriving now belong to."""
        with self._changed:
            open_epoch = None if self._attempt is None else self._attempt.open_epoch
            return self.committed_epoch + 1 if open_epoch is None else open_epoch

    @property
    def _is_inside_commit(self) -> bool:
        return self._attempt is not None and self._attempt.is_this_thread


def _where(committed_epoch: int) -> str:
    return "from the beginning" if committed_epoch < 0 else f"behind epoch {committed_epoch}"


def _as_continuous_error(error: BaseException) -> ContinuousError:
    if isinstance(error, ContinuousError):
        return error
    failure = ContinuousError(f"The query failed: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
