"""L4, Kafka to Kafka exactly once: a real Spark whose processes are killed and stopped, one after
the other, between two topics of a real broker. What a reader of committed records sees in the end
is compared with what went in."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import psutil

from engine.checkpoint.checkpoint import Checkpoint
from tests.faults import l4_spark as kinds
from tests.faults.l4_driver import FAILED, KAFKA, KafkaEnds, Setup
from tests.faults.l4_processes import DEADLINE_S, Driver, bury, read_log
from tests.faults.result import LevelResult
from tests.faults.roads.kafka_topics import PARTITIONS, SETTINGS, all_of, feeding
from tests.servers.jars import NoJarsError
from tests.servers.kafka import running_kafka
from tests.waiting import wait_until

SOURCE, TARGET = "in", "out"


def run(
    faults: Sequence[str], *, master: str = kinds.LOCAL, seed: int = 1, stop_s: float = 2.0
) -> LevelResult:
    """Do these faults, kinds of :mod:`tests.faults.l4_spark`, in an order of the seed."""
    result = LevelResult(f"L4 Kafka {master}", seeds=[seed])
    folder, began_s = Path(tempfile.mkdtemp(prefix="faults-")), time.monotonic()
    try:
        with running_kafka(folder / "kafka", SETTINGS) as kafka:
            for topic in (SOURCE, TARGET):
                kafka.create_topic(topic, PARTITIONS)
            ends = KafkaEnds(kafka.bootstrap, SOURCE, TARGET)
            story = _KafkaStory(Setup(str(folder), master, kafka=ends), result, seed, stop_s)
            try:
                story.tell(faults)
            except Exception as exc:
                result.broken.append(f"{type(exc).__name__}: {exc}\n{read_log(folder)}")
            finally:
                story.end()
    except NoJarsError as exc:
        result.skipped = str(exc)
    finally:
        result.seconds = time.monotonic() - began_s
        shutil.rmtree(folder)
    return result


class Story(ABC):
    """One query, whose processes are killed and stopped, from its start to its drain.

    :param query: its name.
    """

    def __init__(
        self, setup: Setup, query: str, result: LevelResult, seed: int, stop_s: float
    ) -> None:
        self._setup, self._result = setup, result
        self._chance, self._stop_s = random.Random(seed), stop_s
        self._checkpoint = Checkpoint(str(setup.checkpoint(query)))
        self._driver: Driver | None = None
        self._zombies: list[Driver] = []
        self._acts: dict[str, Callable[[], None]] = {
            kinds.WORKER: lambda: os.kill(self._worker(), signal.SIGKILL),
            kinds.DAEMON: self._kill_daemon,
            kinds.EXECUTOR: lambda: self._pick(self.driver.executors()).kill(),
            kinds.STOPPED_WORKER: self._stop_worker,
            kinds.DRIVER: lambda: self._end(self.driver.pid),
            kinds.JVM: lambda: self._end(self.driver.jvm().pid),
            kinds.ZOMBIE: self._make_zombie,
        }

    @abstractmethod
    def feeding(self) -> AbstractContextManager[None]:
        """New records go into the source while the block runs."""

    @abstractmethod
    def went_in(self) -> Counter[Any]:
        """What there has to be in the end."""

    @abstractmethod
    def came_out(self) -> Counter[Any]:
        """And what there is."""

    def tell(self, faults: Sequence[str]) -> None:
        """Do these faults, in an order of the seed."""
        with self.feeding():
            self._start()
            for kind in self._chance.sample(faults, len(faults)):
                self._acts[kind]()
                self._result.faults[kind] += 1
                self._await_progress()
        went_in = self.went_in()
        self._setup.drain.touch()
        if (code := self.driver.await_end()) != 0:
            raise ChildProcessError(f"the drain ended with {code}")
        came_out = self.came_out()
        lost, repeated = went_in - came_out, came_out - went_in
        self._result.records = went_in.total()
        self._result.lost, self._result.repeated = lost.total(), repeated.total()
        for what, found in (("lost", lost), ("repeated", repeated)):
            if found:
                self._result.broken.append(f"{what}: {len(found)}: {sorted(found)[:5]}")

    def end(self) -> None:
        """Nothing is left running."""
        for driver in [*self._zombies, self._driver]:
            if driver is not None:
                driver.end()

    @property
    def driver(self) -> Driver:
        assert self._driver is not None
        return self._driver

    def _start(self) -> None:
        driver = self._driver = Driver(self._setup)
        wait_until(lambda: driver.has_started, "the query starts", DEADLINE_S)
        self._await_progress()

    def _await_progress(self) -> None:
        """Two commits, so that one of them has begun by now."""
        wanted = (self._checkpoint.commits.latest_id() or 0) + 2

        def has_come() -> bool:
            self.driver.check()
            return (self._checkpoint.commits.latest_id() or 0) >= wanted

        wait_until(has_come, "the query goes on", DEADLINE_S)

    # -- faults -----------------------------------------------------------------------------------

    def _pick(self, found: Sequence[psutil.Process]) -> psutil.Process:
        return self._chance.choice(list(found))

    def _worker(self) -> int:
        workers = wait_until(self.driver.workers, "there are workers", DEADLINE_S)
        return self._chance.choice(sorted(workers))

    def _kill_daemon(self) -> None:
        """And a worker: until one is missing, Spark does not miss the daemon."""
        worker = self._worker()
        self._pick(self.driver.daemons()).kill()
        os.kill(worker, signal.SIGKILL)

    def _stop_worker(self) -> None:
        pid = self._worker()
        os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(self._stop_s)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def _end(self, pid: int) -> None:
        """Kill the driver, or its JVM, and start another."""
        left = self.driver.below()
        os.kill(pid, signal.SIGKILL)
        self.driver.await_end()
        bury(left)
        self._start()

    def _make_zombie(self) -> None:
        """Stop a driver; when its lease has expired another one takes over; wake it up."""
        zombie = self.driver
        left = zombie.below()
        zombie.signal(signal.SIGSTOP)
        self._zombies.append(zombie)
        self._start()  # waits for the lease to expire
        zombie.signal(signal.SIGCONT)
        if (code := zombie.await_end()) != FAILED:
            self._result.broken.append(f"{kinds.ZOMBIE}: the stopped driver ended with {code}")
        bury(left)
        self._zombies.remove(zombie)


class _KafkaStory(Story):
    def __init__(self, setup: Setup, result: LevelResult, seed: int, stop_s: float) -> None:
        super().__init__(setup, KAFKA, result, seed, stop_s)
        assert setup.kafka is not None
        self._ends = setup.kafka

    def feeding(self) -> AbstractContextManager[None]:
        return feeding(self._ends.bootstrap, self._ends.source)

    def went_in(self) -> Counter[bytes]:
        return all_of(self._ends.bootstrap, self._ends.source)

    def came_out(self) -> Counter[bytes]:
        return all_of(self._ends.bootstrap, self._ends.target)
