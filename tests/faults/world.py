"""A simulated query: drivers, tasks and messages, moved one step at a time by whoever holds it.

The drivers' coordinator, runner, restart table, logs, lease and retention are the engine's own, on
a disk that loses what was not synchronised. Only what moves them (threads, sockets, timers) is
replaced, by the methods of :class:`World`.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from engine.base import durable
from engine.checkpoint import process as process_module
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.process import Process as ProcessIdentity
from engine.checkpoint.retention import prune
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.coordinator import events
from engine.coordinator.coordinator import Phase
from engine.errors import ConcurrentRunError, ContinuousError, SinkError, SourceError
from engine.wire.messages import EpochCommitMessage, TaskFailed, TaskStarted
from tests.faults.parts import (
    UNREADABLE,
    FilesSink,
    KeyedSink,
    LakeSink,
    PlainSink,
    Record,
    Source,
    TransactionalSink,
)
from tests.faults.processes import SINK, Fuse, Machine, Process
from tests.faults.query import CHECKPOINT, HEARTBEAT_MS, Driver, Task

VISIBLE = re.compile(r"/(offsets|commits|prepared|_spark_metadata)/[0-9]")
SINKS = ("table", "table that tells", "plain", "files")
TRANSACTIONS = "transactions"
TOGETHER = "together"
"""Sinks, too; the seeds of before play what they played."""


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
        # Spark prepares nothing: its last epoch would come to a broker twice.
        self.begun_by_spark = chance.random() < 0.2 and sink != TRANSACTIONS
        self.waits = Random(f"{seed}, what is committed together")
        self.puts_off = True
        self.retain = chance.choice([2, 3, 100])
        self.backlog_max = chance.randint(1, 4)
        self.machine.hides_processes = chance.random() < 0.2
        kind = sink or chance.choice(SINKS)
        self.rewindable = chance.random() < 0.4
        self.source = Source(self.machine, self.partitions, forgets=not self.rewindable)
        # A chance of its own: the seeds of before play what they played.
        at_the_end = Random(f"{seed}, where the source begins").random() < 0.2
        self.source.begins_at_the_end = at_the_end and not self.begun_by_spark
        self.began: tuple[int, ...] | None = None
        """Where the first tasks began: from there on nothing may be lost."""
        self.sink: Any = (
            FilesSink(self.machine)
            if kind == "files"
            else PlainSink(self.machine)
            if kind == "plain"
            else TransactionalSink(self.machine, Random(f"{seed}, what times out"))
            if kind == TRANSACTIONS
            else LakeSink(self.machine, Random(f"{seed}, what does not fit"))
            if kind == TOGETHER
            else KeyedSink(self.machine, tells=kind == "table that tells")
        )
        self.sink.newest_generation = self.newest_claim
        self.machine.weather.on_delay = self._beat_meanwhile
        self.beaten_s, self.beating = 0.0, False
        self.hosts = ["a", "a", "b"]
        self.fuses: Sequence[str] = ()
        self.drivers: list[Driver] = []
        self.inbox: list[Any] = []
        self.markers: list[tuple[Task, events.CloseEpoch]] = []
        self.cut: set[tuple[str, int]] = set()
        self.whole: set[tuple[int, ...]] = {(0,) * self.partitions}
        self.glimpses: list[Counter[Record]] = []
        self.zombie_writes = 0
        self.torn = 0
        self.broken: list[str] = []

    @contextmanager
    def installed(self) -> Iterator[World]:
        """The world's disk and processes are the engine's while this lasts."""
        with self.restarted():
            self.machine.disk.mkdir(CHECKPOINT)
            self.machine.disk.mkdir("/out")
            durable.sync_folder(Path("/"))
            if self.begun_by_spark:
                self._leave_to_us()
            yield self

    @contextmanager
    def restarted(self) -> Iterator[None]:
        """The same, with what is on the disk already."""
        machine = self.machine
        with (
            mock.patch.object(durable, "system", machine.disk),
            mock.patch.object(durable, "_kept", set()),
            mock.patch.object(ProcessIdentity, "current", machine.identity),
            mock.patch.object(process_module, "_place", return_value="simulated"),
            mock.patch.object(process_module, "_start_ticks", machine.start_ticks),
            mock.patch.object(process_module, "_may_exist", machine.may_exist),
            mock.patch.object(socket, "gethostname", machine.hostname),
        ):
            try:
                yield
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
        well = self._well()
        number = len(self.drivers)
        driver = Driver(self, f"run {number}", self.chance.choice(self.hosts))
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

    def _well(self) -> list[Driver]:
        """The runs that nobody may take the checkpoint from."""
        well = [
            each for each in self.awake_drivers() if not each.ended and not self.is_fenced(each)
        ]
        # Else a run that took it while it slept has died between its claim and the rest.
        return well if well and well[0].generation == self.newest_claim() else []

    def rewind(self, fuse: Fuse | None = None, to_epoch: int | None = None) -> Process:
        """Somebody takes the query back to an epoch, or to any. Refused while a run is well."""
        process = Process(self.machine, "rewind", "b")
        checkpoint = Checkpoint(LocalStorage(CHECKPOINT), clock=self.machine.clock)
        epochs, well, done = checkpoint.epochs(), self._well(), False

        def operate() -> None:
            nonlocal done
            sink = self.sink.binding().driver.rewindable
            target = self.chance.choice(epochs) if to_epoch is None else to_epoch
            checkpoint.rewind(target, sink=sink, accept_repeats=True)
            done = True

        if not epochs:
            return process
        with suppress(ContinuousError):
            process.run(operate, fuse)
        if done:
            self.machine.faults["rewind"] += 1
            if well:
                self.broken.append("a rewind took the checkpoint of a run that was well")
        return process

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

    def epoch(self, driver: Driver, records: int) -> None:
        """A whole epoch, up to its commit: all that was said is heard."""
        self._hear_all()
        for task in driver.tasks:
            self.read(task, records)
        self.elapse(driver)
        while self.markers:
            self.mark(0)
        for task in driver.tasks:
            self.report(task)
        self._hear_all()

    def _hear_all(self) -> None:
        while self.inbox:
            self.deliver(0)

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
        elif driver.has_logged and self.waits.random() < 0.5:
            driver.run(driver.publish, fuse)

    def read(self, task: Task, count: int) -> None:
        """A task reads."""
        if task.awake and not task.ended and task.driver.alive:
            try:
                task.run(lambda: task.read(count))
            except OSError as exc:  # as engine.task.loop says it
                self.fail_task(task, SourceError(f"the source failed: {exc}"))
            except ContinuousError as exc:
                if not self.is_fenced(task.driver):
                    self.broken.append(f"lost: {exc}")
                self.lose_task(task)

    def report(self, task: Task, fuse: Fuse | None = None) -> None:
        """A task whose epoch is over writes it."""
        if task.awake and not task.ended and task.may_report:
            try:
                task.run(task.report, fuse)
            except (ContinuousError, OSError) as exc:
                if self.machine.weather.down == SINK:
                    self.fail_task(task, SinkError(f"the sink failed: {exc}"))
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
        connection = (message.run_id, message.partition)
        if listening and message.run_id not in [driver.run_id for driver in listening]:
            self.cut.add(connection)  # others got it: its own run hears nothing that follows
        for driver in listening:
            if driver.run_id != message.run_id:
                self.machine.faults["message of an older run"] += 1
                self._tell(driver, message)
            elif connection not in self.cut:
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

    def fail_task(self, task: Task, error: ContinuousError) -> None:
        """A task dies, and can still say why."""
        task.die()
        if task in task.driver.tasks:
            self._tell(task.driver, TaskFailed(task.driver.run_id, task.index, error, ""))

    def hang_up(self, driver: Driver) -> None:
        """The driver closes the connections of an attempt. Its tasks may go on, unheard."""
        self.inbox = [each for each in self.inbox if each.run_id != driver.run_id]
        self.markers = [each for each in self.markers if each[0].driver is not driver]
        self.cut = {each for each in self.cut if each[0] != driver.run_id}

    def beat(self) -> None:
        """All runs that are awake renew their lease."""
        for driver in self.awake_drivers():
            if driver is not self.machine.current and not driver.ended:
                driver.run(driver.heartbeat)

    def _beat_meanwhile(self) -> None:
        """A call to the storage takes its time: the keepers of all leases do not wait for it."""
        now_s, current = self.machine.clock.monotonic_s(), self.machine.current
        if self.beating or now_s - self.beaten_s < HEARTBEAT_MS / 1000:
            return
        self.beating, self.beaten_s = True, now_s
        try:
            if isinstance(current, Driver) and current.keeps_lease:
                current.heartbeat()
            self.beat()
        finally:
            self.beating = False

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

    def newest_claim(self) -> int:
        claims = Checkpoint(LocalStorage(CHECKPOINT)).storage.list("control/generations")
        return max((int(file.name) for file in claims if file.name.isdigit()), default=-1)

    def is_fenced(self, process: Process) -> bool:
        """Whether a newer run has the lease."""
        mine = process.generation
        return mine is not None and any(
            other.generation is not None and other.generation > mine for other in self.drivers
        )

    def _watch(self, process: Process, call: str, path: str) -> None:
        # A checksum beside an entry says nothing that the entry does not say.
        log_entry = call in ("link", "replace") and VISIBLE.search(path)
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
        self.machine.weather.delay_s = 0.0
        if isinstance(self.sink, TransactionalSink):
            self.sink.times_out = False
        if isinstance(self.sink, LakeSink):
            self.sink.changes = False
        self._run_to_the_end()
        self.glimpse()
        if self.broken or not self.glimpses:
            return
        self.compare()

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
            self.drain(driver)
            if driver.error is None:
                return
        self.broken.append(f"stuck: {type(driver.error).__name__}: {driver.error}")

    def drain(self, driver: Driver) -> None:
        """Run a query to the end of its source."""
        for _ in range(10_000):
            self._hear_all()
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

    def compare(self) -> None:
        """What the last reader saw with what there was."""
        began = self.began or (0,) * self.partitions
        expected = Counter(
            (p, seq)
            for p, count in enumerate(self.source.feed.available)
            for seq in range(began[p], count)
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
        if self.sink.repeats_allowed or not self.sink.shows_whole_epochs:
            return
        for seen in self.glimpses:
            counts = list(self.began or (0,) * self.partitions)
            for partition, _ in seen:
                counts[partition] += 1
            if tuple(counts) not in self.whole:
                self.torn += 1
                self.broken.append(f"torn: a reader saw {counts}, which is no end of an epoch")
