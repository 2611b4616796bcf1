"""Drivers and tasks of the simulated query.

A driver's coordinator, runner, restart table, logs and lease are the engine's own. What moves them
here does what engine.execution.execution, engine.execution.run and engine.task.loop do with
threads and sockets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.first_offsets import first_offset
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rewind import finish_rewind, sink_context
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.coordinator import events
from engine.coordinator.coordinator import EpochCoordinator
from engine.coordinator.epoch_runner import CommittedEpoch, EpochRunner, QueryEnds
from engine.coordinator.restart_table import RestartPlan
from engine.errors import (
    CheckpointError,
    ContinuousError,
    PreparedEpochLostError,
    SinkUnavailableError,
    SourceError,
    TaskLostError,
)
from engine.execution.attempt import _blaming
from engine.execution.restart_budget import RestartPolicy
from engine.execution.survey import plan_restart
from engine.progress.counters import EpochCounters
from engine.sinks.epoch_context import EpochContext
from engine.wire.messages import EpochCommitMessage, TaskStarted
from tests.faults.parts import Record, batch_of
from tests.faults.processes import EXECUTORS, Process

if TYPE_CHECKING:
    from tests.faults.world import World

HEARTBEAT_MS = 1_000
CHECKPOINT = "/checkpoint"


class Task(Process):
    """One partition of one run."""

    def __init__(self, driver: Driver, index: int, seq: int, epoch: int, end: int | None) -> None:
        super().__init__(driver.machine, f"task {index} of {driver.name}", driver.host)
        self.driver, self.index, self.seq, self.epoch, self.end = driver, index, seq, epoch, end
        self.done = False
        """The sink has what it reads already."""
        self.rows: list[Record] = []
        self.closed_epoch, self.final_epoch = -1, None
        self.ended = False

    def read(self, count: int) -> None:
        """Read up to so many records, unless the epoch is over."""
        world = self.driver.world
        if self.closed_epoch >= self.epoch:
            return
        count = count if self.end is None else min(count, self.end - self.seq)
        rows = world.source.take(self.index, self.seq, count)
        self.rows += [] if self.done else rows
        self.seq += len(rows)

    @property
    def may_report(self) -> bool:
        if self.end is not None:
            return self.seq >= self.end
        return self.closed_epoch >= self.epoch

    def report(self) -> None:
        """Write the epoch's records to the sink, and tell the driver."""
        driver = self.driver
        EpochContext.set(
            EpochContext(
                driver.query_id, driver.run_id, driver.lease.generation, self.index, self.epoch
            )
        )
        batches = iter([batch_of(self.rows)] if self.rows else [])
        try:
            message = driver.binding.writer.write(self.epoch, batches)
        finally:
            EpochContext.set(None)
        offsets = ([self.index, self.seq],)
        if self in driver.tasks or not driver.alive:  # else its attempt has hung up
            driver.world.send_report(
                EpochCommitMessage(
                    driver.run_id, self.index, self.epoch, offsets, message, EpochCounters()
                )
            )
        self.rows = []
        if self.end is not None or self.epoch == self.final_epoch:
            self.ended = True
        self.epoch += 1


class Driver(Process):
    """One run of the query, as engine.execution.execution and engine.execution.run move it."""

    lease: Lease
    runner: EpochRunner
    coordinator: EpochCoordinator

    def __init__(self, world: World, name: str, host: str) -> None:
        super().__init__(world.machine, name, host)
        self.world = world
        self.run_id = name
        self.checkpoint = Checkpoint(LocalStorage(CHECKPOINT), clock=world.machine.clock)
        self.binding = world.sink.binding()
        self.tasks: list[Task] = []
        self.to_commit: events.CommitEpoch | None = None
        self.query_id = ""
        self.started = self.ended = False
        self.error: ContinuousError | None = None
        self.fenced_writes = 0
        self.policy = RestartPolicy(EngineOptions(), chance=world.chance.random)
        self.committed_s: list[float] = []

    def start(self) -> None:
        checkpoint = self.checkpoint
        self.query_id = checkpoint.create_or_read_query_id("the query")
        self.lease = Lease.acquire(
            checkpoint,
            run_id=self.run_id,
            heartbeat_interval_ms=HEARTBEAT_MS,
            clock=self.machine.clock,
        )
        self.generation = self.lease.generation
        try:
            self.recover()
        except ContinuousError as exc:
            if not self.started:  # else another attempt follows
                self.lease.release(QueryState.FAILED, error=str(exc))
            raise
        self.started = True

    def start_again(self) -> None:
        """The next attempt, in place.

        :raises ContinuousError: it cannot begin.
        """
        self.world.hang_up(self)
        self.tasks, self.to_commit = [], None
        self.start()
        self.ended, self.error = False, None

    @property
    def healthy_s(self) -> float:
        """For how long this attempt has committed."""
        return (self.committed_s[-1] - self.committed_s[0]) if self.committed_s else 0.0

    def restart_delay_s(self, error: ContinuousError) -> float | None:
        """What the engine's policy says."""
        self.committed_s = []
        now_s = self.machine.clock.monotonic_s()
        return self.policy.next_delay_s(error, now_s=now_s, proven=True)

    @property
    def keeps_lease(self) -> bool:
        """Whether its keeper could renew the lease now."""
        return self.started and not self.ended and not self.lease._lock.locked()

    def recover(self) -> None:
        world, checkpoint = self.world, self.checkpoint
        with _blaming(SinkUnavailableError, "the sink could not recover"):
            plan = self._settle()
        if plan.start_from is None:
            with _blaming(SourceError, "the source cannot tell where it begins"):
                self.position = first_offset(checkpoint.storage, 0, world.source.initialOffset)
        else:
            offsets = checkpoint.committed_offsets(plan.start_from)
            if offsets is None:  # as in an attempt: another run has purged it meanwhile
                raise CheckpointError(f"epoch {plan.start_from} is gone")
            (self.position,) = offsets
        until = None
        if plan.replay is not None:
            entry = checkpoint.offsets.get(plan.replay)
            assert entry is not None
            (until,) = entry.offsets
        self.launch(plan.first_epoch, until, plan.done)

    def _settle(self) -> RestartPlan:
        """Finish what earlier runs have begun."""
        world, checkpoint = self.world, self.checkpoint
        ends = QueryEnds(self.query_id, [world.source], self.binding)
        self.runner = EpochRunner(checkpoint, self.lease, ends, min_epochs_to_retain=world.retain)
        self._bind(checkpoint)
        if finish_rewind(checkpoint, self.lease, self.binding.driver.rewindable):
            self._bind(checkpoint)
        while True:
            plan = plan_restart(checkpoint, self.binding, self.lease.check)
            try:
                self.runner.commit_again(plan.recommit, plan.skip_sink_commit)
            except PreparedEpochLostError:
                continue
            return plan

    def _bind(self, checkpoint: Checkpoint) -> None:
        if self.binding.driver.bind is not None:
            self.binding.driver.bind(sink_context(checkpoint, self.lease))

    def launch(
        self,
        first_epoch: int,
        until: dict[str, int] | None,
        done: frozenset[str] = frozenset(),
    ) -> None:
        with _blaming(SourceError, "the source cannot tell its partitions"):
            parts = self.world.source.partitions(self.position)
        if self.world.began is None and self.world.source.begins_at_the_end:
            self.world.began = tuple(seq for _, seq in parts)
            self.world.whole.add(self.world.began)
        if self.binding.driver.fence_tasks is not None:
            with _blaming(SinkUnavailableError, "the sink cannot shut out earlier tasks"):
                self.binding.driver.fence_tasks()
        if self.machine.weather.down == EXECUTORS:
            raise TaskLostError("no task has started: the executors are gone")
        self.coordinator = EpochCoordinator(
            run_id=self.run_id,
            partitions=len(parts),
            first_epoch=first_epoch,
            backlog_max=self.world.backlog_max,
            bounded=until is not None,
        )
        self.tasks = [
            Task(self, index, seq, first_epoch, None if until is None else until[str(index)])
            for index, seq in parts
        ]
        self.runner.tasks = [(f"0/{task.index}",) for task in self.tasks]
        for task in self.tasks:
            task.done = f"0/{task.index}" in done
            self.world.inbox.append(TaskStarted(self.run_id, task.index, self.host, task.pid))

    def handle(self, event: events.Event) -> None:
        if self.ended:
            return
        actions = self.coordinator.handle(event)
        self.coordinator.check()
        for action in actions:
            if isinstance(action, events.CloseEpoch):
                self._look_at_backlog(action)
                for task in self.tasks:
                    self.world.markers.append((task, action))
            elif isinstance(action, events.CommitEpoch):
                self.to_commit = action
            else:
                self.error = action.error
                self.ended = True

    def _look_at_backlog(self, action: events.CloseEpoch) -> None:
        coordinator = self.coordinator
        reports = coordinator.reports.values()
        complete = sum(len(each) == coordinator.partitions for each in reports)
        if complete >= 2 and not action.final:
            self.world.broken.append(f"backlog: epoch {action.epoch} ended behind {complete} whole")

    @property
    def has_logged(self) -> bool:
        """Whether the sink has yet to be told of something."""
        return bool(self.runner._logged)

    def commit(self) -> None:
        """The commit that the coordinator has ordered."""
        action = self.to_commit
        assert action is not None
        self.world.whole.add(tuple(seq for _, seq in (each.offsets[0] for each in action.reports)))
        together = self.binding.driver.commit_together is not None
        waits = together and not action.final and self.world.waits.random() < 0.6
        waits = waits and self.world.puts_off
        offsets = [[report.offsets[0] for report in action.reports]]
        messages = [report.writer_message for report in action.reports]
        replayed = self.coordinator.final_epoch == action.epoch and self._bounded
        with self._committing(action.epoch):
            if waits:
                self.runner.log(action.epoch, offsets, messages, replayed=replayed)
                self.to_commit = None
                self.handle(events.EpochLogged(action.epoch))
            else:
                self._heard(self.runner.commit(action.epoch, offsets, messages, replayed=replayed))

    def publish(self) -> None:
        """The sink is told of what is logged."""
        with self._committing(self.coordinator.logged):
            self._heard(self.runner.publish())

    @contextmanager
    def _committing(self, epoch: int) -> Iterator[None]:
        try:
            yield
        except ContinuousError as exc:
            self.to_commit = None
            self.handle(events.CommitFailed(epoch, exc))

    def _heard(self, committed: Sequence[CommittedEpoch]) -> None:
        self.to_commit = None
        (self.position,) = committed[-1].offsets
        now_s = self.machine.clock.monotonic_s()
        since_s = self.committed_s[-1] if self.committed_s else now_s
        self.policy.well(now_s=now_s, healthy_s=now_s - since_s)
        self.committed_s = [*self.committed_s[:1], now_s]
        self.handle(events.EpochCommitted(committed[-1].epoch))

    def heartbeat(self) -> None:
        try:
            self.lease.heartbeat(state=QueryState.RUNNING, epoch=self.coordinator.committed)
        except CheckpointError:
            pass  # as engine.execution.lease_keeper: the storage may recover
        except ContinuousError as exc:
            self.handle(events.RunFailed(exc))

    def leave(self) -> None:
        """What follows the end of a run: a replay is followed by the stream itself."""
        if self.wind_up():
            return
        try:
            state = QueryState.STOPPED if self.error is None else QueryState.FAILED
            self.lease.release(state, error=None if self.error is None else str(self.error))
        except ContinuousError:
            pass  # as engine.execution.execution, which only logs it
        self.alive = False

    def wind_up(self) -> bool:
        """End an attempt; whether the stream itself has followed a replay."""
        if self.to_commit is not None:
            self.commit()
        coordinator = self.coordinator
        for epoch, reports in sorted(coordinator.reports.items()):
            if epoch != coordinator.committing:
                messages = [report.writer_message for report in reports.values()]
                self.runner.abort(epoch, messages)
        if self._bounded and self.error is None and coordinator.committed >= self._final:
            self.ended = False
            self.launch(coordinator.committed + 1, None)
            return True
        return False

    @property
    def _bounded(self) -> bool:
        return bool(self.tasks) and self.tasks[0].end is not None

    @property
    def _final(self) -> int:
        final = self.coordinator.final_epoch
        assert final is not None
        return final
