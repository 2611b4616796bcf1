"""One run: one set of tasks, from their launch until the last one has left."""

from __future__ import annotations

import logging
import queue
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from engine.clock import Clock
from engine.coordinator.coordinator import EpochCoordinator, Phase
from engine.coordinator.endpoint import Endpoint
from engine.coordinator.events import (
    Action,
    CloseEpoch,
    CommitEpoch,
    CommitFailed,
    EndRun,
    EpochCommitted,
    EpochElapsed,
    Event,
    RunFailed,
    TaskLost,
    TasksEnded,
)
from engine.coordinator.runner import CommittedEpoch, EpochRunner
from engine.errors import (
    ContinuousError,
    NotEnoughSlotsError,
    ProtocolError,
    TaskLostError,
)
from engine.launcher import Launcher
from engine.messages import EpochCommitMessage, EpochMarker, TaskFailed
from engine.task.spec import TaskSpec

logger = logging.getLogger(__name__)
_WATCH_S = 0.5
SLOT_WAIT_S = 5.0
"""A launched task that has found no slot for so long finds none."""


@dataclass(frozen=True)
class EpochTimes:
    """Wall-clock times of an epoch in milliseconds."""

    started_ms: int
    closed_ms: int
    committed_ms: int


OnCommitted = Callable[[CommittedEpoch, Sequence[EpochCommitMessage], EpochTimes], None]


class ContinuousRun:
    """Launches the tasks, ticks the epochs, commits them, and ends.

    :param specs: one per task; this object fills in the address and the secret.
    :param interval_ms: length of an epoch; epochs end at multiples of it, as Spark's do, the first
        one at the first multiple after all tasks have started. 0: as fast as they commit.
    :param on_committed: called after each commit, on the committing thread.
    :param on_phase: called when the run enters another phase.
    """

    def __init__(
        self,
        *,
        launcher: Launcher,
        runner: EpochRunner,
        specs: Sequence[TaskSpec],
        interval_ms: int,
        backlog_max: int,
        task_start_timeout_s: float,
        task_timeout_s: float,
        clock: Clock,
        on_committed: OnCommitted,
        on_phase: Callable[[Phase], None],
    ) -> None:
        first = specs[0]
        self._launcher = launcher
        self._runner = runner
        self._interval_ms = interval_ms
        self._task_start_timeout_s = task_start_timeout_s
        self._task_timeout_s = task_timeout_s
        self._clock = clock
        self._on_committed = on_committed
        self._on_phase = on_phase
        self._run_id = first.run_id
        self._bounded = first.until is not None
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        secret = secrets.token_bytes(32)
        self._endpoint = Endpoint(launcher.host, secret, self._inbox.put)
        self._specs = [
            replace(spec, address=self._endpoint.address, secret=secret) for spec in specs
        ]
        self.coordinator = EpochCoordinator(
            run_id=first.run_id,
            partitions=len(specs),
            first_epoch=first.first_epoch,
            backlog_max=backlog_max,
            bounded=self._bounded,
        )
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="epoch-commit")
        self._opened_ms = {first.first_epoch: clock.now_ms()}
        self._closed_ms: dict[int, int] = {}
        self._next_tick_s: float | None = None
        self._ended = False
        self._error: ContinuousError | None = None

    def tell(self, event: Event) -> None:
        """Hand in an event from outside: drain, stop, a lost lease. From any thread."""
        self._inbox.put(event)

    @property
    def missing_tasks(self) -> int:
        """How many tasks have not started yet."""
        return self.coordinator.partitions - len(self.coordinator.started)

    def run(self) -> ContinuousError | None:
        """Run until the end and return why it failed, or None if it ended as asked."""
        start_deadline_s = self._clock.monotonic_s() + self._task_start_timeout_s
        try:
            self._launcher.launch(
                self._run_id, self._specs, lambda error: self._inbox.put(TasksEnded(error))
            )
            while not self._ended:
                event = self._wait()
                if event is not None:
                    self._handle(event)
                self._tick()
                self._watch(start_deadline_s)
        except ContinuousError as exc:
            self._end(exc)
        except Exception as exc:
            logger.exception("the coordinator failed")
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
        if isinstance(event, TaskFailed):
            logger.error("task of partition %d failed:\n%s", event.partition, event.trace)
        before = self.coordinator.phase
        actions = self.coordinator.handle(event)
        self.coordinator.check()
        if self.coordinator.phase is not before:
            self._on_phase(self.coordinator.phase)
            if self.coordinator.phase is Phase.RUNNING:
                self._schedule_tick()
        for action in actions:
            self._act(action)
        if self._interval_ms == 0 and isinstance(event, EpochCommitted):
            self._schedule_tick()

    def _tick(self) -> None:
        if self._next_tick_s is not None and self._clock.monotonic_s() >= self._next_tick_s:
            self._next_tick_s = None
            if self._interval_ms:
                self._schedule_tick()
            self._handle(EpochElapsed())

    def _schedule_tick(self) -> None:
        # Aligned by the wall clock, awaited by the monotonic one: the former may jump meanwhile.
        interval_ms = self._interval_ms
        left_ms = interval_ms - self._clock.now_ms() % interval_ms if interval_ms else 0
        self._next_tick_s = self._clock.monotonic_s() + left_ms / 1000

    def _watch(self, start_deadline_s: float) -> None:
        if self.coordinator.phase is Phase.STARTING:
            now_s = self._clock.monotonic_s()
            if now_s > start_deadline_s - self._task_start_timeout_s + SLOT_WAIT_S:
                self._watch_slots()
            if now_s > start_deadline_s:
                started, wanted = len(self.coordinator.started), self.coordinator.partitions
                error = TaskLostError(
                    f"Only {started} of {wanted} tasks have started within "
                    f"{self._task_start_timeout_s:g} s.",
                    hint=f"The query needs {wanted} free task slots, and executors that reach "
                    f"{self._endpoint.address[0]}:{self._endpoint.address[1]}.",
                )
                self._handle(RunFailed(error))
            return
        for partition in self._endpoint.silent(self._task_timeout_s):
            self._handle(TaskLost(partition, f"it was silent for {self._task_timeout_s:g} s"))

    def _watch_slots(self) -> None:
        slots, waiting = self._launcher.slots(), self._launcher.unplaced(self._run_id)
        if slots is not None and waiting and not self._ended:
            self._handle(
                RunFailed(
                    NotEnoughSlotsError(
                        f"{waiting} of the query's {self.coordinator.partitions} tasks have found "
                        f"no free slot among {slots.total} within {SLOT_WAIT_S:g} s.",
                        hint="Stop other jobs, add cores, or reduce the source's partitions.",
                    )
                )
            )

    # -- actions ------------------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        if isinstance(action, CloseEpoch):
            now_ms = self._clock.now_ms()
            self._closed_ms[action.epoch] = self._opened_ms[action.epoch + 1] = now_ms
            self._endpoint.broadcast(EpochMarker(action.epoch, final=action.final))
        elif isinstance(action, CommitEpoch):
            self._committer.submit(self._commit, action)
        elif isinstance(action, EndRun):
            self._end(action.error)

    def _commit(self, action: CommitEpoch) -> None:
        epoch, reports = action.epoch, action.reports
        try:
            committed = self._runner.commit(
                epoch,
                [report.offset for report in reports],
                [report.writer_message for report in reports],
                replayed=self._bounded,
            )
            now_ms = self._clock.now_ms()
            started_ms = self._opened_ms.pop(epoch, now_ms)
            closed_ms = self._closed_ms.pop(epoch, now_ms)
            self._on_committed(committed, reports, EpochTimes(started_ms, closed_ms, now_ms))
        except ContinuousError as exc:
            self._inbox.put(CommitFailed(epoch, exc))
        except BaseException as exc:  # SystemExit of a user's function, too: nobody else hears it
            logger.exception("the commit of epoch %d failed", epoch)
            error = ProtocolError(
                f"The commit of epoch {epoch} failed: {type(exc).__name__}: {exc}", epoch=epoch
            )
            self._inbox.put(CommitFailed(epoch, error))
        else:
            self._inbox.put(EpochCommitted(epoch))

    def _end(self, error: ContinuousError | None) -> None:
        if not self._ended:
            self._ended, self._error = True, error

    def _leave(self) -> None:
        """Dismiss the tasks, wait for a commit under way, drop what is not committed."""
        reason = "the query has failed" if self._error else "the query has ended"
        self._endpoint.dismiss(reason)
        self._committer.shutdown(wait=True)
        try:
            self._launcher.cancel(self._run_id, reason)
        except Exception:
            logger.exception("the tasks were not cancelled cleanly")
        finally:
            self._endpoint.close()
        for epoch, messages in self._uncommitted():
            self._runner.abort(epoch, messages)

    def _uncommitted(self) -> list[tuple[int, list[Any]]]:
        # What is (or may be) prepared belongs to the next start, which finishes it.
        committing = self.coordinator.committing
        return [
            (epoch, [report.writer_message for report in reports.values()])
            for epoch, reports in sorted(self.coordinator.reports.items())
            if epoch != committing
        ]
