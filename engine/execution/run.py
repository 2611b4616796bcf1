"""One run: one set of tasks, from their launch until the last one has left."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from engine.base.options import ANY_PORT, RESTART, WITHOUT_INTERVAL_MS
from engine.coordinator.coordinator import EpochCoordinator, Phase
from engine.coordinator.endpoint import Endpoint
from engine.coordinator.epoch_runner import CommittedEpoch, EpochRunner
from engine.coordinator.events import (
    Action,
    CloseEpoch,
    CommitEpoch,
    DrainAsked,
    EndRun,
    EpochCommitted,
    EpochElapsed,
    EpochLogged,
    EpochWanted,
    Event,
    RunFailed,
    TaskLost,
    TasksEnded,
    WireTasks,
)
from engine.errors import (
    ContinuousError,
    ProtocolError,
    TaskLostError,
)
from engine.execution.committer import CommittedTask, Committer, Reports, messages_of
from engine.execution.consequences import Consequences
from engine.execution.definition import QueryDefinition
from engine.execution.empty_epochs import EmptyEpochs
from engine.execution.handing_out import SourceHandingOut
from engine.execution.health import Stall, StallWatch
from engine.execution.launcher import LaunchedTasks
from engine.execution.query_start import QueryStart
from engine.execution.source_watch import SourceWatch
from engine.execution.start_watch import StartWatch
from engine.progress.report import EpochTimes
from engine.redaction.logs import log_failure, redact
from engine.sources.contract import HandingOut
from engine.task.spec import TaskSpec
from engine.wire.listening import host_and_port
from engine.wire.messages import (
    DriverMessage,
    EpochCommitMessage,
    EpochMarker,
    HandedOut,
    RecordsArrived,
    StateLoading,
    TaskFailed,
    Wiring,
)

logger = logging.getLogger(__name__)
_WATCH_S = 0.5
_LEFT_LOOK_S = 0.1
KILL_WAIT_S = 5.0
"""Spark kills the worker of a cancelled task after 2 s."""
COMMIT_WARNING_S = 10.0
"""An end that waits so long for a commit under way says so."""


class ContinuousRun:
    """Launches the tasks, ticks the epochs, commits them, and ends.

    :param definition: its interval is the length of an epoch; epochs end at multiples of it, as
        Spark's do, the first one at the first multiple after all tasks have started. 0: as fast as
        they commit.
    :param specs: one per task; this object fills in the address and the secret.
    :param source_changed: asked twice a second, by a thread of its own: whether the source's
        partitions have changed. The run then finishes its open epoch and ends.
    :param is_due: asked twice a second, by the run itself: whether it has to end like this for
        another reason. Does not wait for others.
    :param finding: by the number of a stream: what its source finds for its partitions.
    :ivar is_reconfiguring: the run ended, or is ending, because one of the two said so.
    :raises ConfigError: the launcher's address cannot be listened on.
    """

    def __init__(
        self,
        start: QueryStart,
        definition: QueryDefinition,
        specs: Sequence[TaskSpec],
        runner: EpochRunner,
        *,
        source_changed: Callable[[], bool],
        is_due: Callable[[], bool],
        finding: Mapping[int, HandingOut] | None = None,
    ) -> None:
        first, options, launcher = specs[0], definition.options, start.launcher
        self._launcher = launcher
        self._leaving = start.leaving
        self._tasks: LaunchedTasks | None = None
        self._runner = runner
        self._failure_level = logging.ERROR if definition.logs_failures else logging.DEBUG
        self._interval_ms = interval_ms = definition.epoch_interval_ms
        self._options = options
        self._clock, self._listener = start.clock, start.listener
        self._wanted = start.wanted
        self._source_watch = SourceWatch(
            source_changed,
            self._reconfigure,
            lambda error: self.tell(RunFailed(error)),
            start.asking,
            start.clock,
        )
        self._is_due = is_due
        self._handing_out = [
            SourceHandingOut(
                finds, partial(self._hand_out, stream), lambda error: self.tell(RunFailed(error))
            )
            for stream, finds in (finding or {}).items()
        ]
        self._first, self._run_id = first, first.run_id
        self._bounded = first.is_bounded
        self._restarts_on_stall = options.on_stall == RESTART
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._endpoint = Endpoint(
            launcher.host,
            self._inbox.put,
            bind_host=launcher.bind_host,
            ports=options.ports,
            tls=options.coordinator_tls,
            tasks=len(specs),
        )
        self._specs = [replace(spec, dialing=self._endpoint.dialing) for spec in specs]
        self.coordinator = EpochCoordinator(
            run_id=first.run_id,
            partitions=len(specs),
            first_epoch=first.first_epoch,
            backlog_max=options.backlog_max(interval_ms),
            bounded=self._bounded,
            read=[spec.numbers for spec in specs],
            places=[spec.place for spec in specs],
            keeps=[spec.kept is not None for spec in specs],
            watermarks=definition.watermarks(first.time.watermark_ms, first.time.marks),
            end_watermark_ms=first.time.end_watermark_ms,
        )
        self.is_reconfiguring = False
        self._committer = Committer(
            runner,
            [CommittedTask(spec.stage, spec.writes) for spec in specs],
            len(definition.streams),
            definition.sink.driver.commit_interval_ms,
            start.clock,
            start.wanted,
            self._on_committed,
            self._inbox.put,
        )
        self._stalls = StallWatch(interval_ms, options.stall_after_intervals)
        self._stall: Stall | None = None
        self._opened_ms: dict[int, int] = {}
        self._closed_ms: dict[int, int] = {}
        self._next_tick_s: float | None = None
        self._next_watch_s = 0.0
        self._start_watch: StartWatch | None = None
        self._waiting: str | None = None
        held = first.time.marks.is_held
        untold = [each.index for each in specs if each.kept is not None or (held and each.reading)]
        self._empty = EmptyEpochs(self._run_id, options.empty_epoch_interval_ms, untold)
        self._consequences = Consequences(start.clock)
        self._ended = False
        self._error: ContinuousError | None = None
        self._explaining = threading.Lock()
        self._tasks_error: ContinuousError | None = None

    def tell(self, event: Event) -> None:
        """Hand in an event from outside: drain, stop, a lost lease. From any thread."""
        self._inbox.put(event)

    @property
    def open_epoch(self) -> int:
        """The epoch that records arriving now belong to."""
        return self.coordinator.open_epoch

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller is the thread that commits: it must not wait for the run."""
        return self._committer.is_this_thread

    def run(self) -> ContinuousError | None:
        """Run until the end and return why it failed, or None if it ended as asked."""
        self._start_watch = StartWatch(
            self._options,
            self._launcher.supply,
            self.coordinator,
            host_and_port(*self._endpoint.dialing.address),
            self._clock.monotonic_s(),
        )
        try:
            self._tasks = self._launcher.launch(self._run_id, self._specs, self._on_tasks_end)
            while not self._ended:
                event = self._wait()
                if event is not None:
                    self._handle(event)
                self._tick()
                self._watch()
        except ContinuousError as exc:
            self._end(exc)
        except Exception as exc:
            log_failure(logger, "the coordinator failed")
            self._end(ProtocolError(f"The coordinator failed: {type(exc).__name__}: {exc}"))
        self._leave()
        return self._error

    # -- one turn of the loop -----------------------------------------------------------------

    def _wait(self) -> Event | None:
        timeout_s = _WATCH_S
        if self._next_tick_s is not None:
            until_tick_s = self._next_tick_s - self._clock.monotonic_s()
            timeout_s = min(max(until_tick_s, 0.0), timeout_s)
        try:
            return self._inbox.get(timeout=timeout_s) if timeout_s else self._inbox.get_nowait()
        except queue.Empty:
            return None

    def _handle(self, event: Event) -> None:
        if isinstance(event, RecordsArrived):
            if self._empty.arrived(event):
                self._hurry()
            return
        if isinstance(event, EpochWanted):
            self._hurry()
            return
        if isinstance(event, StateLoading):
            if self._start_watch is not None and event.run_id == self._run_id:
                self._start_watch.hear(event)
            return
        if self._consequences.keeps(event):
            return
        if isinstance(event, EpochCommitMessage) and self._empty.reported(event):
            self._hurry()
        self._log_failure(event)
        before = self.coordinator.phase
        actions = self.coordinator.handle(event)
        self.coordinator.check()
        if self.coordinator.phase is not before:
            self._enter(self.coordinator.phase)
        for action in actions:
            self._act(action)
        if self._interval_ms == 0 and isinstance(event, EpochCommitted | EpochLogged):
            self._schedule_tick()

    def _log_failure(self, event: Event) -> None:
        if isinstance(event, TaskFailed):
            level, told = self._failure_level, (event.partition, redact(event.trace))
            logger.log(level, "task %d failed:\n%s", *told, extra={"failure": event.error})

    def _enter(self, phase: Phase) -> None:
        if phase in (Phase.RUNNING, Phase.REPLAYING):
            # Records flow from now on: the start of the tasks is no part of the epoch.
            self._opened_ms[self.coordinator.logged + 1] = self._clock.now_ms()
        if phase is Phase.REPLAYING:
            self._note_end(self.coordinator.logged + 1)
        if phase is Phase.RUNNING or phase is Phase.REPLAYING:
            for each in self._handing_out:
                each.start()
        if phase is Phase.RUNNING:
            self._schedule_tick()
            self._source_watch.start()
        self._listener.on_phase(phase, reconfiguring=self.is_reconfiguring)

    def _hand_out(self, stream: int, found: Mapping[int, Any]) -> None:
        """:param found: by the number of a partition of the stream."""
        reading = [spec for spec in self._specs if spec.stage == stream]
        first = min(spec.numbers.start for spec in reading)
        messages: dict[int, DriverMessage] = {}
        for spec in reading:
            numbers = spec.numbers
            work = {each: found[each - first] for each in numbers if each - first in found}
            if work:
                messages[spec.index] = HandedOut(work)
        self._endpoint.hand_out(messages)

    def _tick(self) -> None:
        if (failed := self._consequences.due()) is not None and not self._ended:
            self._handle(failed)
        if self._next_tick_s is not None and self._clock.monotonic_s() >= self._next_tick_s:
            self._next_tick_s = None
            if self._interval_ms:
                self._schedule_tick()
            if not self._may_go_on():
                self._handle(EpochElapsed(self._clock.now_ms()))
                if not self._interval_ms and self._next_tick_s is None:  # a task may hang
                    self._next_tick_s = self._clock.monotonic_s() + WITHOUT_INTERVAL_MS / 1000

    def _may_go_on(self) -> bool:
        """Whether the open epoch is empty, and may stay open for longer than others."""
        if self.coordinator.phase is not Phase.RUNNING:
            return False
        epoch = self.coordinator.open_epoch
        left_ms = self._empty.left_ms(
            epoch,
            opened_ms=self._opened_ms.get(epoch, 0),
            now_ms=self._clock.now_ms(),
            watermark_due_ms=self.coordinator.watermark_due_ms,
        )
        if self._wanted.newest >= epoch or not left_ms:
            return False
        if not self._interval_ms:
            self._next_tick_s = self._clock.monotonic_s() + left_ms / 1000
        return True

    @property
    def _is_idle(self) -> bool:
        """Whether every epoch is committed, and the open one known to be empty."""
        coordinator = self.coordinator
        epoch = coordinator.open_epoch
        is_committed = coordinator.committed == epoch - 1
        return is_committed and coordinator.phase is Phase.RUNNING and self._empty.is_empty(epoch)

    def _hurry(self) -> None:
        """Look at once whether the open epoch still may go on; with an interval, at its next end,
        as for any epoch that is not empty."""
        if not self._interval_ms and self._next_tick_s is not None:
            self._schedule_tick()

    def _schedule_tick(self) -> None:
        # Aligned by the wall clock, awaited by the monotonic one: the former may jump meanwhile.
        interval_ms = self._interval_ms
        left_ms = interval_ms - self._clock.now_ms() % interval_ms if interval_ms else 0
        self._next_tick_s = self._clock.monotonic_s() + left_ms / 1000

    def _watch(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < self._next_watch_s:
            return  # each look goes over all partitions: too much to do after every message
        self._next_watch_s = now_s + _WATCH_S
        for partition in self._endpoint.silent(self._options.task_timeout_s):
            silence = f"it was silent for {self._options.task_timeout_s:g} s"
            self._handle(TaskLost(partition, silence))
        if self.coordinator.phase in (Phase.STARTING, Phase.WIRING):
            self._watch_start(now_s)
            return
        self._watch_health(now_s)
        self._committer.look()
        self._source_watch.look(now_s)
        if self.coordinator.phase is Phase.RUNNING and not self.is_reconfiguring and self._is_due():
            self._reconfigure()
        if self._is_idle:
            self._listener.on_idle()

    def _watch_start(self, now_s: float) -> None:
        assert self._tasks is not None
        assert self._start_watch is not None
        try:
            waiting = self._start_watch.look(now_s, self._tasks.unplaced)
        except TaskLostError as exc:
            self._handle(RunFailed(exc))
            return
        if waiting != self._waiting:
            self._waiting = waiting
            self._listener.on_waiting(waiting)

    def _watch_health(self, now_s: float) -> None:
        coordinator = self.coordinator
        stall = self._stalls.look(
            now_s, coordinator.logged, coordinator.missing, coordinator.missing_reducers
        )
        if stall == self._stall:
            return
        self._stall = stall
        self._listener.on_stall(stall)
        # Late tasks can be left behind. A sink that hangs in a commit cannot: the end of this run
        # would wait for it. A replayed epoch may be of any length: its end is given.
        can_restart = self.coordinator.phase is not Phase.REPLAYING
        if stall is not None and stall.is_of_tasks and can_restart and self._restarts_on_stall:
            self._handle(RunFailed(stall.error()))

    def _reconfigure(self) -> None:
        logger.info("new partitions or tables: finishing epoch %d", self.open_epoch)
        self.is_reconfiguring = True
        self._source_watch.stop()
        self.tell(DrainAsked())

    # -- actions ------------------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        if isinstance(action, CloseEpoch):
            self._note_end(action.epoch)
            self._opened_ms[action.epoch + 1] = self._closed_ms[action.epoch]
            self._endpoint.broadcast(
                EpochMarker(
                    action.epoch,
                    final=action.final,
                    committed=self.coordinator.committed,
                    next_watermark_ms=action.next_watermark_ms,
                    next_opened_ms=self._closed_ms[action.epoch],
                )
            )
        elif isinstance(action, WireTasks):
            self._endpoint.broadcast(Wiring(action.addresses))
        elif isinstance(action, CommitEpoch):
            opened_ms = self._opened_ms.get(action.epoch, 0)
            if action.epoch == self._first.first_epoch:  # what its tasks go by
                opened_ms = self._first.time.opened_ms
            self._committer.commit(action, opened_ms, replayed=self._bounded)
        elif isinstance(action, EndRun):
            self._end(action.error)

    def _note_end(self, epoch: int) -> None:
        self._closed_ms[epoch] = self._clock.now_ms()
        self._stalls.ended(epoch, self._clock.monotonic_s())

    def _on_committed(self, committed: CommittedEpoch, reports: Reports) -> None:
        now_ms = self._clock.now_ms()
        started_ms = self._opened_ms.pop(committed.epoch, now_ms)
        closed_ms = self._closed_ms.pop(committed.epoch, now_ms)
        self._listener.on_committed(committed, reports, EpochTimes(started_ms, closed_ms, now_ms))

    def _end(self, error: ContinuousError | None) -> None:
        if not self._ended or self._error is None:
            self._ended, self._error = True, error
            self._explain_loss()

    def _leave(self) -> None:
        """Dismiss the tasks, wait for a commit under way, drop what is not committed."""
        reason = "the query has failed" if self._error else "the query has ended"
        self._endpoint.dismiss(reason, self.coordinator.committed)
        for each in self._handing_out:
            each.stop()
        self._source_watch.stop()
        self._committer.finish(warning_s=COMMIT_WARNING_S)
        if self._tasks is None:
            self._endpoint.close()
        else:
            leaving = self._leaving.add(self._tasks, self._hang_up)
            # Tasks that have hung up read and write no more. How their job ends is not waited for:
            # a cluster takes its time to notice that a process died, and the next run need not
            # know.
            while not self._endpoint.await_left(_LEFT_LOOK_S) and leaving.is_alive():
                pass
        if self._options.ports != ANY_PORT:  # the next run listens on the same one
            self._endpoint.stop_listening()
        self._source_watch.await_stopped()
        for each in self._handing_out:
            each.await_stopped()
        try:
            self._hear_the_last()
        except Exception:
            log_failure(logger, "what was under way at the end was not heard")
        for epoch, messages in self._uncommitted():
            self._runner.abort(epoch, messages)

    def _hang_up(self) -> None:
        """Called when Spark's job has ended: it starts no more tasks in place of lost ones, which
        only this endpoint could send away. Tasks that are still connected may be writing, because
        Spark calls a job ended before its tasks are gone: they are given some time."""
        if not self._endpoint.await_left(KILL_WAIT_S):
            logger.warning("tasks of run %s are still connected: they hang", self._run_id)
        self._endpoint.close()

    def _hear_the_last(self) -> None:
        """What was under way when the run ended: a late report, or how the last commit went."""
        while True:
            try:
                event = self._inbox.get_nowait()
            except queue.Empty:
                return
            if self._consequences.keeps(event):  # who was to send, or to take, has left before
                continue
            self._log_failure(event)
            for action in self.coordinator.handle(event):
                self._act(action)

    def _on_tasks_end(self, error: ContinuousError | None) -> None:
        self._tasks_error = error
        self._inbox.put(TasksEnded(error))
        self._explain_loss()

    def _explain_loss(self) -> None:
        """Add why a task died to the error that says it is lost: its connection breaks at once, and
        the cluster tells the reason later."""
        with self._explaining:
            loss, reason = self._error, self._tasks_error
            if isinstance(loss, TaskLostError) and reason is not None and reason is not loss:
                self._tasks_error = None
                loss.message = f"{loss.message} {reason.message}"
                logger.warning("why the task is lost: %s", reason.message)

    def _uncommitted(self) -> list[tuple[int, list[Any]]]:
        # The epoch that is being committed may be prepared already: then the next start commits it,
        # and needs what an abort would remove.
        committing = self.coordinator.committing
        return [
            (epoch, messages_of((self._specs[task].writes, r) for task, r in reports.items()))
            for epoch, reports in sorted(self.coordinator.reports.items())
            if epoch != committing
        ]
