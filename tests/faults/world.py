"""A simulated query: drivers, tasks and messages, moved one step at a time by whoever holds it.

The drivers' coordinator, runner, restart table, logs, lease and retention are the engine's own, on
a disk that loses what was not synchronised. Only what moves them (threads, sockets, timers) is
replaced, by the methods of :class:`World`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from engine import durable
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.commit_log import CommitEntry
from engine.checkpoint.lease import Lease
from engine.checkpoint.local_storage import LocalStorage
from engine.checkpoint.offset_log import OffsetEntry
from engine.checkpoint.process import Process as ProcessIdentity
from engine.checkpoint.retention import prune
from engine.coordinator import events
from engine.coordinator.coordinator import EpochCoordinator, Phase
from engine.coordinator.runner import EpochRunner
from engine.errors import CheckpointError, ConcurrentRunError, ContinuousError
from engine.messages import EpochCommitMessage, EpochCounters, TaskStarted
from engine.recovery import plan_restart
from engine.states import QueryState
from engine.task.context import EpochContext
from tests.faults.parts import (
    UNREADABLE,
    FilesSink,
    KeyedSink,
    PlainSink,
    Record,
    Source,
    batch_of,
)
from tests.faults.processes import Fuse, Machine, Process

HEARTBEAT_MS = 1_000
CHECKPOINT = "/checkpoint"
VISIBLE = ("/offsets/", "/commits/", "/prepared/", "/_spark_metadata/")
SINKS = ("table", "table that tells", "plain", "files")


class Task(Process):
    """One partition of one run."""

    def __init__(self, driver: Driver, index: int, seq: int, epoch: int, end: int | None) -> None:
        super().__init__(driver.machine, f"task {index} of {driver.name}", driver.host)
        self.driver, self.index, self.seq, self.epoch, self.end = driver, index, seq, epoch, end
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
        self.rows += rows
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
        message = driver.binding.write(batches)
        offset = [self.index, self.seq]
        driver.world.send_report(
            EpochCommitMessage(
                driver.run_id, self.index, self.epoch, offset, message, EpochCounters()
            )
        )
        self.rows = []
        if self.end is not None or self.epoch == self.final_epoch:
            self.ended = True
        self.epoch += 1


class Driver(Process):
    """One run of the query, as engine.execution and engine.run move it."""

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
            self.lease.release(QueryState.FAILED, error=str(exc))
            raise
        self.started = True

    def recover(self) -> None:
        world, checkpoint = self.world, self.checkpoint
        self.runner = EpochRunner(
            checkpoint=checkpoint,
            lease=self.lease,
            sources=[world.source],
            sink=self.binding.writer,
            message_modules=self.binding.message_modules,
            min_epochs_to_retain=world.retain,
        )
        plan = plan_restart(checkpoint, self.binding)
        for epoch in plan.recommit:
            self.runner.commit_again(epoch, sink_has_it=epoch in plan.skip_sink_commit)
        if plan.start_from is None:
            self.position = world.source.initialOffset()
        else:
            offsets = checkpoint.committed_offsets(plan.start_from)
            if offsets is None:  # as engine.execution: another run has purged it meanwhile
                raise CheckpointError(f"epoch {plan.start_from} is gone")
            (self.position,) = offsets
        until = None
        if plan.replay is not None:
            entry = checkpoint.offsets.get(plan.replay)
            assert entry is not None
            (until,) = entry.offsets
        self.launch(plan.first_epoch, until)

    def launch(self, first_epoch: int, until: dict[str, int] | None) -> None:
        parts = self.world.source.partitions(self.position)
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
        for task in self.tasks:
            self.world.inbox.append(TaskStarted(self.run_id, task.index, self.host, task.pid))

    def handle(self, event: events.Event) -> None:
        if self.ended:
            return
        actions = self.coordinator.handle(event)
        self.coordinator.check()
        for action in actions:
            if isinstance(action, events.CloseEpoch):
                for task in self.tasks:
                    self.world.markers.append((task, action))
            elif isinstance(action, events.CommitEpoch):
                self.to_commit = action
            else:
                self.error = action.error
                self.ended = True

    def commit(self) -> None:
        """The commit that the coordinator has ordered."""
        action = self.to_commit
        assert action is not None
        self.world.whole.add(tuple(seq for _, seq in (each.offset for each in action.reports)))
        try:
            committed = self.runner.commit(
                action.epoch,
                [[report.offset for report in action.reports]],
                [report.writer_message for report in action.reports],
                replayed=self.coordinator.final_epoch == action.epoch and self._bounded,
            )
            (self.position,) = committed.offsets
        except ContinuousError as exc:
            self.to_commit = None
            self.handle(events.CommitFailed(action.epoch, exc))
        else:
            self.to_commit = None
            self.handle(events.EpochCommitted(action.epoch))

    def heartbeat(self) -> None:
        try:
            self.lease.heartbeat(state=QueryState.RUNNING, epoch=self.coordinator.committed)
        except CheckpointError:
            pass  # as engine.keeper: the storage may recover
        except ContinuousError as exc:
            self.handle(events.RunFailed(exc))

    def leave(self) -> None:
        """What follows the end of a run: a replay is followed by the stream itself."""
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
            return
        try:
            state = QueryState.STOPPED if self.error is None else QueryState.FAILED
            self.lease.release(state, error=None if self.error is None else str(self.error))
        except ContinuousError:
            pass  # as engine.execution, which only logs it
        self.alive = False

    @property
    def _bounded(self) -> bool:
        return bool(self.tasks) and self.tasks[0].end is not None

    @property
    def _final(self) -> int:
        final = self.coordinator.final_epoch
        assert final is not None
        return final


class World:
    """See the module. Every method is one move; :meth:`finish` ends it and says what was broken.

    :param seed: of all chances.
    """

    def __init__(self, seed: int, sink: str | None = None) -> None:
        self.seed = seed
        self.chance = chance = Random(seed)
        self.machine = Machine(chance)
        self.machine.clock.on_sleep = self.beat
        self.machine.watchers.append(self._watch)
        self.partitions = chance.randint(1, 3)
        self.begun_by_spark = chance.random() < 0.2
        self.retain = chance.choice([2, 3, 100])
        self.backlog_max = chance.randint(1, 4)
        self.source = Source(self.partitions)
        kind = sink or chance.choice(SINKS)
        self.sink: Any = (
            FilesSink(self.machine)
            if kind == "files"
            else PlainSink(self.machine)
            if kind == "plain"
            else KeyedSink(self.machine, tells=kind == "table that tells")
        )
        self.fuses: Sequence[str] = ()
        self.drivers: list[Driver] = []
        self.inbox: list[Any] = []
        self.markers: list[tuple[Task, events.CloseEpoch]] = []
        self.whole: set[tuple[int, ...]] = {(0,) * self.partitions}
        self.glimpses: list[Counter[Record]] = []
        self.zombie_writes = 0
        self.torn = 0
        self.broken: list[str] = []

    @contextmanager
    def installed(self) -> Iterator[World]:
        """The world's disk and processes are the engine's while this lasts."""
        machine = self.machine
        with (
            mock.patch.object(durable, "system", machine.disk),
            mock.patch.object(durable, "_kept", set()),
            mock.patch.object(ProcessIdentity, "current", machine.identity),
            mock.patch.object(
                ProcessIdentity, "is_running", lambda identity: machine.is_running(identity)
            ),
        ):
            machine.disk.mkdir(CHECKPOINT)
            machine.disk.mkdir("/out")
            durable.sync_folder(Path("/"))
            if self.begun_by_spark:
                self._leave_to_us()
            try:
                yield self
            finally:
                for process in machine.processes:
                    process.die()

    def _leave_to_us(self) -> None:
        """A checkpoint as Spark leaves one that was killed: the last epoch is logged, its records
        are perhaps in the sink, and nothing is prepared."""
        checkpoint = Checkpoint(LocalStorage(CHECKPOINT))
        checkpoint.create_or_read_query_id("the query")
        known = self.chance.random() < 0.5
        ends = [0] * self.partitions
        for epoch in range(2):
            begins, ends = ends, [seq + self.chance.randint(0, 3) for seq in ends]
            self.source.feed.available = list(ends)
            entry = OffsetEntry(({str(p): seq for p, seq in enumerate(ends)},))
            checkpoint.offsets.add(epoch, entry)
            self.whole.add(tuple(ends))
            if epoch == 0 or known:
                self.sink.has(
                    epoch,
                    [
                        [(p, seq) for seq in range(begin, end)]
                        for p, (begin, end) in enumerate(zip(begins, ends, strict=True))
                    ],
                )
            if epoch == 0:
                checkpoint.commits.add(epoch, CommitEntry())

    # -- moves --------------------------------------------------------------------------------

    def start_driver(self, fuse: Fuse | None = None) -> Driver:
        """A run that tries to take the checkpoint. Refused while another one is well."""
        well = [
            each for each in self.awake_drivers() if not each.ended and not self.is_fenced(each)
        ]
        number = len(self.drivers)
        driver = Driver(self, f"run {number}", self.chance.choice(["a", "a", "b"]))
        self.drivers.append(driver)
        try:
            driver.run(driver.start, fuse)
        except ConcurrentRunError as exc:
            driver.error, driver.alive = exc, False
            if well:
                self.machine.faults["second driver"] += 1
        except ContinuousError as exc:
            driver.error, driver.alive = exc, False
        if driver.started and any(each.alive and not each.ended for each in well):
            self.broken.append(f"{driver.name} took the checkpoint of a run that was well")
        return driver

    def current(self) -> Driver | None:
        """The newest run that goes on."""
        for driver in reversed(self.drivers):
            if driver.alive and driver.started:
                return driver
        return None

    def awake_drivers(self) -> list[Driver]:
        return [each for each in self.drivers if each.started and each.awake]

    def elapse(self, driver: Driver) -> None:
        """The epoch's time is over."""
        self._tell(driver, events.EpochElapsed())

    def ask(self, driver: Driver, event: events.Event) -> None:
        """Drain or stop."""
        self._tell(driver, event)

    def _tell(self, driver: Driver, event: events.Event) -> None:
        if driver.started and driver.awake and not driver.ended:
            driver.run(lambda: driver.handle(event))

    def carry_out(self, driver: Driver, fuse: Fuse | None = None) -> None:
        """The driver's commit, or its leave-taking."""
        if not driver.awake or not driver.started:
            return
        if driver.ended:
            driver.run(driver.leave, fuse)
        elif driver.to_commit is not None:
            driver.run(driver.commit, fuse)

    def read(self, task: Task, count: int) -> None:
        """A task reads."""
        if task.awake and not task.ended and task.driver.alive:
            try:
                task.run(lambda: task.read(count))
            except ContinuousError as exc:
                if not self.is_fenced(task.driver):
                    self.broken.append(f"lost: {exc}")
                self.lose_task(task)

    def report(self, task: Task, fuse: Fuse | None = None) -> None:
        """A task whose epoch is over writes it."""
        if task.awake and not task.ended and task.may_report:
            try:
                task.run(task.report, fuse)
            except (ContinuousError, OSError):
                task.alive = False
            if not task.alive:
                self.lose_task(task)

    def send_report(self, message: EpochCommitMessage) -> None:
        self.inbox.append(message)

    def deliver(self, index: int, *, repeat: bool = False) -> None:
        """One of the messages on their way arrives, whichever run listens now."""
        message = self.inbox[index]
        for earlier, other in enumerate(self.inbox):  # a connection begins with its first message
            started = isinstance(other, TaskStarted)
            if started and (other.run_id, other.partition) == (message.run_id, message.partition):
                index, message = earlier, other
                break
        if not repeat:
            del self.inbox[index]
        if repeat and not isinstance(message, EpochCommitMessage):
            return
        listening = self.awake_drivers()
        if repeat:
            self.machine.faults["message repeated"] += 1
        for driver in listening:
            if driver.run_id != message.run_id:
                self.machine.faults["message of an older run"] += 1
            self._tell(driver, message)
        if not listening and not repeat:
            self.inbox.append(message)

    def mark(self, index: int) -> None:
        """One of the markers on their way arrives."""
        task, action = self.markers.pop(index)
        task.closed_epoch = max(task.closed_epoch, action.epoch)
        if action.final:
            task.final_epoch = action.epoch

    def lose_task(self, task: Task) -> None:
        """A task dies; its driver notices."""
        task.die()
        driver = task.driver
        if task in driver.tasks:
            self._tell(driver, events.TaskLost(task.index, "it was killed"))

    def beat(self) -> None:
        """All runs that are awake renew their lease."""
        for driver in self.awake_drivers():
            if driver is not self.machine.current and not driver.ended:
                driver.run(driver.heartbeat)

    def pass_time(self, seconds: float) -> None:
        """Time goes by; runs that are awake renew their lease meanwhile."""
        for _ in range(min(int(seconds), 30)):
            self.machine.clock.advance(1.0)
            self.beat()

    def prune(self, keep: int, fuse: Fuse | None = None) -> None:
        """Somebody tidies the checkpoint up."""
        process = Process(self.machine, "prune", "a")
        checkpoint = Checkpoint(LocalStorage(CHECKPOINT), clock=self.machine.clock)
        clock = self.machine.clock
        with suppress(ContinuousError):
            process.run(lambda: prune(checkpoint, keep_epochs=keep, clock=clock), fuse)

    def glimpse(self) -> None:
        """A reader looks at the sink."""
        try:
            self.glimpses.append(self.sink.seen())
        except UNREADABLE as exc:
            self.torn += 1
            self.broken.append(f"torn: a reader got {type(exc).__name__}: {exc}")

    # -- what must hold -----------------------------------------------------------------------

    def is_fenced(self, process: Process) -> bool:
        """Whether a newer run has the lease."""
        mine = process.generation
        return mine is not None and any(
            other.generation is not None and other.generation > mine for other in self.drivers
        )

    def _watch(self, process: Process, call: str, path: str) -> None:
        log_entry = call in ("link", "replace") and any(part in path for part in VISIBLE)
        if not isinstance(process, Driver) or not (log_entry or call == "sink"):
            return
        shows = not self._exists(path) if log_entry else "/" in path
        if shows and self.is_fenced(process):
            process.fenced_writes += 1
            # One write may have been under way when the run was put to sleep, after its check.
            if process.fenced_writes > 1:
                self.zombie_writes += 1

    def _exists(self, path: str) -> bool:
        try:
            self.machine.disk.stat(path)
        except OSError:
            return False
        return True

    def finish(self) -> None:
        """Let the faults end, and the query run to the end of its source; then compare."""
        for process in list(self.machine.processes):
            if process.alive and not process.awake:
                self.wake(process)
        for driver in self.drivers:
            driver.die()
        self._run_to_the_end()
        self.glimpse()
        if self.broken or not self.glimpses:
            return
        self._compare()

    def wake(self, process: Process) -> None:
        try:
            process.wake()
        except ContinuousError as exc:
            process.alive = False
            if isinstance(process, Driver):
                process.error = exc

    def _run_to_the_end(self) -> None:
        for _ in range(4):
            # The lease of a run that died on another host runs on for a while.
            self.machine.clock.advance(11 * HEARTBEAT_MS / 1000)
            driver = self.start_driver()
            if not driver.started:
                continue
            self._drain(driver)
            if driver.error is None:
                return
        self.broken.append(f"stuck: {type(driver.error).__name__}: {driver.error}")

    def _drain(self, driver: Driver) -> None:
        for _ in range(10_000):
            while self.inbox:
                self.deliver(0)
            while self.markers:
                self.mark(0)
            for task in driver.tasks:
                self.read(task, 1_000_000)
                self.report(task)
            self.carry_out(driver)
            if not driver.alive:
                return
            if not self.inbox and driver.coordinator.phase is Phase.RUNNING:
                self.ask(driver, events.DrainAsked())
        driver.error = ContinuousError("the drain does not end")

    def _compare(self) -> None:
        expected = Counter(
            (p, seq) for p, count in enumerate(self.source.feed.available) for seq in range(count)
        )
        seen = self.glimpses[-1]
        lost = expected - seen
        repeated = seen - expected
        if lost:
            self.broken.append(f"lost: {sorted(lost)[:5]} and in all {lost.total()}")
        if repeated and not self.sink.repeats_allowed:
            self.broken.append(f"repeated: {sorted(repeated)[:5]} and in all {repeated.total()}")
        self._compare_glimpses()
        if self.zombie_writes:
            self.broken.append(f"zombie: {self.zombie_writes} writes of a fenced run")

    def _compare_glimpses(self) -> None:
        """Each look of a reader must have shown whole epochs."""
        if self.sink.repeats_allowed:
            return
        for seen in self.glimpses:
            counts = [0] * self.partitions
            for partition, _ in seen:
                counts[partition] += 1
            if tuple(counts) not in self.whole:
                self.torn += 1
                self.broken.append(f"torn: a reader saw {counts}, which is no end of an epoch")
