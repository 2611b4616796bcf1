"""L4: a real Spark whose processes are killed and stopped, one after the other, while it runs.

The recovery of a killed Python worker is measured from just before ``kill -9`` to the moment at
which the first record of its partition reaches the writer in the worker that follows it: both
stamps are of the wall clock of this machine.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import psutil

from engine.checkpoint.checkpoint import Checkpoint
from tests.faults.l2_oracle import SinkReader, SourceFiles, compare_all, count
from tests.faults.l4_driver import BATCH, EACH, FAILED, FILES, PARTITIONS, Setup
from tests.faults.l4_processes import DEADLINE_S, Driver, bury, read_log, told_in
from tests.faults.l4_stamps import Stamps
from tests.faults.result import LevelResult, percentile
from tests.waiting import wait_until

LOCAL = "local[8]"
CLUSTER = "local-cluster[2,4,1024]"
WORKER = "kill -9, Python worker"
OTHER_WORKER = "kill -9, worker of a sink"
DAEMON = "kill -9, Python daemon and a worker"
DRIVER, JVM = "kill -9, driver", "kill -9, JVM"
EXECUTOR = "kill -9, executor"
STOPPED_WORKER = "worker stopped, goes on"
ZOMBIE = "driver stopped, replaced"
FEED_EVERY_S, FEED_ROWS = 0.02, 5


def run(
    faults: Sequence[str], *, master: str = LOCAL, seed: int = 1, stop_s: float = 2.0
) -> LevelResult:
    """Do these faults, in an order of the seed, and compare what went in with what came out.

    :param stop_s: for how long a worker is stopped.
    """
    result = LevelResult(f"L4 {master}", seeds=[seed])
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    story = _Story(Setup(str(folder), master), result, random.Random(seed), stop_s)
    with told_in(result, folder, story.end):
        story.tell(faults)
    return result


class _Story:
    def __init__(
        self, setup: Setup, result: LevelResult, chance: random.Random, stop_s: float
    ) -> None:
        self._setup, self._result, self._chance, self._stop_s = setup, result, chance, stop_s
        self._source = SourceFiles(setup.source, PARTITIONS[FILES])
        self._stamps = Stamps(setup.stamps, PARTITIONS[EACH])
        self._reader = SinkReader(setup.out, setup.checkpoint(FILES), self._source)
        self._over, self._fed = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._feed, name="feed"),
            threading.Thread(target=self._look, name="reader"),
        ]
        self._driver: Driver | None = None
        self._zombies: list[Driver] = []
        self._back_ms: dict[str, list[float]] = {}
        self._acts: dict[str, Callable[[], None]] = {
            WORKER: self._kill_worker,
            OTHER_WORKER: self._kill_other_worker,
            DAEMON: self._kill_daemon,
            EXECUTOR: self._kill_executor,
            STOPPED_WORKER: self._stop_worker,
            DRIVER: self._kill_driver,
            JVM: self._kill_jvm,
            ZOMBIE: self._make_zombie,
        }

    # -- the story --------------------------------------------------------------------------------

    def tell(self, faults: Sequence[str]) -> None:
        self._source.append(FEED_ROWS)
        for thread in self._threads:
            thread.start()
        self._start()
        for kind in self._chance.sample(faults, len(faults)):
            self._acts[kind]()
            self._result.faults[kind] += 1
            self._await_progress()
        self._fed.set()
        self._threads[0].join()
        self._drain()
        self._compare()

    def end(self) -> None:
        """Nothing is left running."""
        self._fed.set()
        self._over.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        for driver in [*self._zombies, self._driver]:
            if driver is not None:
                driver.end()

    @property
    def driver(self) -> Driver:
        assert self._driver is not None
        return self._driver

    def _start(self) -> None:
        driver = self._driver = Driver(self._setup)
        wait_until(lambda: driver.has_started, "the queries start", DEADLINE_S)
        self._await_progress()

    def _feed(self) -> None:
        while not self._fed.wait(FEED_EVERY_S):
            self._source.append(FEED_ROWS)

    def _look(self) -> None:
        """The concurrent reader."""
        while not self._over.wait(0.02):
            torn = self._reader.look()
            if torn:
                self._result.torn += 1
                self._result.broken.append(f"torn: {torn}")

    def _await_progress(self, more: int = 1) -> None:
        """All three queries have committed what is there now, and so many records more."""
        ends = {partition: end + more for partition, end in self._source.ends.items()}
        for query in (FILES, BATCH, EACH):
            wait_until(partial(self._has_committed, query, ends), f"{query} goes on", DEADLINE_S)
        self._stamps.read()

    def _has_committed(self, query: str, ends: dict[int, int]) -> bool:
        self.driver.check()
        offsets = Checkpoint(str(self._setup.checkpoint(query))).committed_offsets()
        if not offsets:
            return False
        now = self._source.ends_of(offsets[0])  # type: ignore[arg-type]
        return all(now[partition] >= end for partition, end in ends.items())

    # -- faults -----------------------------------------------------------------------------------

    def _kill_worker(self) -> None:
        partition = self._chance.choice(range(PARTITIONS[EACH]))
        wait_until(lambda: self._writes(partition), "a worker writes", DEADLINE_S)
        victim = self._stamps.last[partition].pid
        killed_ns = time.time_ns()
        os.kill(victim, signal.SIGKILL)
        end_s = time.monotonic() + DEADLINE_S
        arrival = self._stamps.await_arrival(
            lambda each: (
                each.at_ns > killed_ns and each.pid != victim and each.partition == partition
            ),
            lambda: time.monotonic() > end_s,
        )
        if arrival is None:
            raise TimeoutError(f"no record after the kill of worker {victim}")
        self._result.recovery_ms.append((arrival.at_ns - killed_ns) / 1e6)

    def _writes(self, partition: int) -> bool:
        self._stamps.read()
        last = self._stamps.last.get(partition)
        # Not only among the driver's children: the workers of a daemon that was killed live on.
        return last is not None and psutil.pid_exists(last.pid)

    def _kill_other_worker(self) -> None:
        self._stamps.read()
        known = {arrival.pid for arrival in self._stamps.last.values()}
        os.kill(self._chance.choice(sorted(set(self.driver.workers()) - known)), signal.SIGKILL)

    def _kill_daemon(self) -> None:
        """And a worker: until one is missing, Spark does not miss the daemon."""
        worker = self._chance.choice(sorted(self.driver.workers()))
        self._kill_one(self.driver.daemons())
        os.kill(worker, signal.SIGKILL)

    def _kill_executor(self) -> None:
        """And wait for another one, which takes a cluster as long as it takes to start a JVM."""
        before = {each.pid for each in self.driver.executors()}
        self._kill_one(self.driver.executors())

        def is_replaced() -> bool:
            now = {each.pid for each in self.driver.executors()}
            return now != before and len(now) == len(before)

        wait_until(is_replaced, "another executor starts", DEADLINE_S)

    def _kill_one(self, found: list[psutil.Process]) -> None:
        self._chance.choice(found).send_signal(signal.SIGKILL)

    def _stop_worker(self) -> None:
        pid = self._chance.choice(sorted(self.driver.workers()))
        os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(self._stop_s)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def _kill_driver(self) -> None:
        left, began_s = self.driver.below(), time.monotonic()
        self.driver.signal(signal.SIGKILL)
        self._start_again(DRIVER, left, began_s)

    def _kill_jvm(self) -> None:
        left, began_s = self.driver.below(), time.monotonic()
        self.driver.jvm().send_signal(signal.SIGKILL)
        self.driver.await_end()
        if "Spark has ended" not in read_log(self._setup.root):
            self._result.broken.append(f"{JVM}: {read_log(self._setup.root)}")
        self._start_again(JVM, left, began_s)

    def _start_again(self, kind: str, left: list, began_s: float) -> None:  # type: ignore[type-arg]
        code = self.driver.await_end()
        if kind == JVM and code != FAILED:
            self._result.broken.append(f"{kind}: the driver ended with {code}")
        orphans = bury(left)
        if orphans:
            self._result.broken.append(f"{kind}: these did not end: {orphans}")
        self._start()
        self._back_ms.setdefault(kind, []).append((time.monotonic() - began_s) * 1000)

    def _make_zombie(self) -> None:
        """Stop a driver; when its leases have expired another one takes over; wake it up."""
        zombie = self.driver
        left = zombie.below()
        zombie.signal(signal.SIGSTOP)
        self._zombies.append(zombie)
        self._start()  # waits for the leases to expire
        zombie.signal(signal.SIGCONT)
        code = zombie.await_end()
        if code != FAILED:
            self._result.broken.append(f"{ZOMBIE}: the stopped driver ended with {code}")
        bury(left)
        self._zombies.remove(zombie)

    # -- the end ----------------------------------------------------------------------------------

    def _drain(self) -> None:
        self._await_progress(more=0)
        self._setup.drain.touch()
        code = self.driver.await_end()
        if code != 0:
            raise ChildProcessError(f"the drain ended with {code}")
        self._over.set()
        self._threads[1].join()
        self._driver = None

    def _compare(self) -> None:
        result, ends = self._result, self._source.ends
        torn = self._reader.look()
        if torn:
            result.torn += 1
            result.broken.append(f"torn: {torn}")
        compare_all(result, self._setup.out, ends, FILES)
        count(result, self._rows_of_batches(), ends, BATCH)
        self._stamps.read()
        once = {p: Counter(seen.keys()) for p, seen in self._stamps.counts.items()}
        count(result, once, ends, EACH)  # at least once: that a record comes twice is no fault
        again = sum(seen.total() - len(seen) for seen in self._stamps.counts.values())
        result.outcomes["records again, at least once"] = again
        result.outcomes["looks of the reader"] = self._reader.looks
        for kind, times in self._back_ms.items():
            result.outcomes[f"ms until all is back: {kind}"] = round(percentile(times, 50) or 0)
        for query in (FILES, BATCH, EACH):
            self._look_for_zombies(query)

    def _rows_of_batches(self) -> dict[int, Counter[int]]:
        counts: dict[int, Counter[int]] = {p: Counter() for p in self._source.ends}
        newest = dict.fromkeys(counts, -1)
        with closing(sqlite3.connect(self._setup.database)) as connection:
            for p, seq in connection.execute("SELECT p, s FROM records ORDER BY epoch, rowid"):
                counts[p][seq] += 1
                if seq < newest[p]:
                    self._result.broken.append(f"{BATCH}: record {seq} of {p} out of order")
                newest[p] = seq
        return counts

    def _look_for_zombies(self, query: str) -> None:
        """An epoch prepared by an older generation than the one before it."""
        log = Checkpoint(str(self._setup.checkpoint(query))).prepared_heads
        newest = -1
        for epoch in log.ids():
            entry = log.get(epoch)
            assert entry is not None
            if entry.generation < newest:
                self._result.zombie_writes += 1
                self._result.broken.append(f"zombie: {query} epoch {epoch}: {entry.generation}")
            newest = max(newest, entry.generation)
