"""L5: Kafka to Kafka, exactly once, through one real broker.

The engine runs on threads in a process of its own, of which whatever comes to mind befalls one
after the other: it is killed at a named place or at any time; it is suspended until another has
taken over, and woken up; it stays away until its transactions have timed out, some of an epoch's
perhaps when others are committed; a task fails; the broker is killed or suspended. Meanwhile
records go into the topic that it reads. Then a last process goes on to the end, and what a
``read_committed`` consumer sees is compared with what went in. Each world has topics of its own.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import confluent_kafka
import pyarrow as pa

from engine.base import failpoints
from engine.base.options import EngineOptions
from engine.checkpoint.checkpoint import Checkpoint
from engine.clients import kafka_transactions
from engine.clients.kafka_transactions import KafkaTransactions
from engine.execution.definition import QueryDefinition, StreamBinding
from engine.execution.execution import ContinuousExecution
from engine.execution.launcher import ThreadLauncher
from engine.expressions.schemas import to_arrow
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.query.binding import bind_writer
from engine.query.handle import ContinuousQuery
from engine.sinks.contract import SinkBinding, TaskWriter
from engine.sinks.kafka.data_source import KafkaSink
from engine.sources.kafka.data_source import KafkaDataSource
from tests.faults.kafka_mutants import MUTANTS
from tests.faults.result import LevelResult
from tests.servers.jars import NoJarsError
from tests.servers.kafka import Kafka, running_kafka
from tests.waiting import wait_until

LEVEL = "L5 Kafka to Kafka"
PARTITIONS = 2
FAULTS_A_WORLD = 25
FAULTS_A_MUTANT = 6
WORLDS_MAX = 6
FEED_EVERY_S = 0.01
INTERVAL_MS = 50
TRANSACTION_MS = 20_000
"""Longer than the broker takes to start: it drops the markers of transactions that it aborts before
it knows the leaders of their partitions, and what was aborted is then seen as committed."""
HEARTBEAT_MS = 100
LEASE_S = 15 * HEARTBEAT_MS / 1000
"""By then the lease of a driver that is suspended has expired."""
GONE_S = 2.0 + TRANSACTION_MS / 1000
"""By then the broker has aborted what is not ended."""
DEADLINE_S = 60.0
_AT = (
    "prepare.before", "prepare.after", "walCommit.after", "commitSink.before", "commitSink.after",
    "commitOffsets.after", "report.before", "report.after", "setAside.before", "setAside.after",
    "claim.after", "lost.after", "transactions.told",
)  # fmt: skip
_BETWEEN = ("prepare.after", "walCommit.after", "commitSink.before", "transactions.told")
"""Where transactions stay open."""
KILLED, ANY_TIME = "killed at a place", "killed at any time"
ABORTED, TIMED_OUT = "transactions aborted meanwhile", "transactions timed out"
FAILED, ZOMBIE = "a task failed", "suspended and replaced"
BROKER_KILLED, BROKER_SUSPENDED = "broker killed", "broker suspended"
_CHANCES: Final = {
    KILLED: 45, ANY_TIME: 10, ABORTED: 19, TIMED_OUT: 1, FAILED: 10, ZOMBIE: 5, BROKER_KILLED: 5,
    BROKER_SUSPENDED: 5,
}  # fmt: skip
_forks = multiprocessing.get_context("forkserver")


def run(seed: int, faults: int, *, mutants: bool = False) -> LevelResult:
    """So many faults; and each mutant until it is caught."""
    result = LevelResult(LEVEL, seeds=[seed])
    chance = Random(seed)
    _forks.set_forkserver_preload([__name__])
    folder = Path(tempfile.mkdtemp(prefix="continuous-faults-"))
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
    try:
        with running_kafka(folder / "kafka", settings) as kafka:
            for number in range(-(-faults // FAULTS_A_WORLD)):
                world = _World(kafka, folder / str(number), result, chance)
                world.play(min(FAULTS_A_WORLD, faults - number * FAULTS_A_WORLD))
            for mutant in MUTANTS if mutants else ():
                result.mutants[mutant] = _hunt(mutant, kafka, folder, chance)
    except NoJarsError as exc:
        result.skipped = str(exc)
    finally:
        shutil.rmtree(folder)
    return result


def _hunt(mutant: str, kafka: Kafka, folder: Path, chance: Random) -> str | None:
    """Play with a mutant until it is caught; how, or None."""
    for number in range(WORLDS_MAX):
        result = LevelResult("")
        name = f"m{list(MUTANTS).index(mutant)}-{number}"
        _World(kafka, folder / name, result, chance, mutant).play(FAULTS_A_MUTANT)
        if result.broken:
            return result.broken[0].partition(": ")[2][:110]
    return None


class _World:
    def __init__(
        self, kafka: Kafka, folder: Path, result: LevelResult, chance: Random, mutant: str = ""
    ) -> None:
        folder.mkdir()
        self._kafka, self._result, self._chance = kafka, result, chance
        name = folder.name
        self._setup = Setup(str(folder), kafka.bootstrap, f"in-{name}", f"out-{name}", mutant)
        self._acts: dict[str, Callable[[], None]] = {
            KILLED: lambda: self._kill_at(chance.choice(_AT)),
            ANY_TIME: self._kill,
            ABORTED: lambda: self._stay_away(self._abort_some),
            TIMED_OUT: lambda: self._stay_away(lambda: _pause(GONE_S)),
            FAILED: self._fail,
            ZOMBIE: self._replace,
            BROKER_KILLED: self._kill_broker,
            BROKER_SUSPENDED: self._suspend_broker,
        }

    def play(self, faults: int) -> None:
        setup = self._setup
        for topic in (setup.source, setup.sink):
            self._kafka.create_topic(topic, PARTITIONS)
        try:
            with _feeding(setup):
                self._driver = Driver(setup)
                self._await_commit()
                for kind in self._chance.choices(list(_CHANCES), _CHANCES.values(), k=faults):
                    self._acts[kind]()
                    self._result.faults[kind] += 1
            self._await_commit()
            setup.drain.touch()
            self._driver.await_end()
            # Else readers would wait until they time out.
            left = self._end_open(lambda: True)
            self._result.outcomes["transactions left open by a drain"] += left
            self._compare()
        except Exception as exc:
            self._result.broken.append(f"{setup.folder}: {type(exc).__name__}: {exc}")
        finally:
            self._driver.kill()

    # -- faults -----------------------------------------------------------------------------------

    def _kill_at(self, place: str) -> None:
        self._restart(f"{place}:{self._chance.choice((1, 2, 5))}:kill")
        # A place that this process does not come to: it is killed some time.
        self._driver.await_death(self._chance.uniform(1.0, 3.0))
        self._restart()
        self._await_commit()

    def _kill(self) -> None:
        _pause(self._chance.uniform(0.0, 0.3))
        self._restart()
        self._await_commit()

    def _stay_away(self, meanwhile: Callable[[], None]) -> None:
        self._restart(f"{self._chance.choice(_BETWEEN)}:{self._chance.choice((1, 2, 3))}:kill")
        self._driver.await_death(5.0)
        self._driver.kill()
        meanwhile()
        self._restart()
        self._await_commit()

    def _abort_some(self) -> None:
        """As the broker does in time: each of them, or some."""
        share = self._chance.choice((0.5, 1.0))
        self._end_open(lambda: self._chance.random() < share)

    def _end_open(self, which: Callable[[], bool]) -> int:
        """Abort transactions of the query that are open; how many."""
        transactions = KafkaTransactions({"bootstrap.servers": self._kafka.bootstrap})
        query_id = Checkpoint(str(Path(self._setup.folder) / "checkpoint")).query_id()
        found = transactions.describe(transactions.ids(f"continuous-{query_id}-"))
        doomed = [id for id, each in found.items() if each.is_open and which()]
        transactions.fence(doomed)
        transactions.close()
        return len(doomed)

    def _fail(self) -> None:
        self._driver.signal(signal.SIGUSR1)
        self._await_commit()

    def _replace(self) -> None:
        zombie = self._driver
        zombie.signal(signal.SIGSTOP)
        _pause(LEASE_S)
        self._driver = Driver(self._setup)
        self._await_commit()
        zombie.signal(signal.SIGCONT)
        zombie.await_end()
        self._await_commit()

    def _kill_broker(self) -> None:
        self._kafka.process.kill()
        self._kafka.start()
        self._await_commit()

    def _suspend_broker(self) -> None:
        self._kafka.process.suspend()
        _pause(self._chance.uniform(0.5, 4.0))
        self._kafka.process.resume()
        self._await_commit()

    def _restart(self, armed: str = "") -> None:
        self._driver.kill()
        self._driver = Driver(self._setup, armed)

    def _await_commit(self) -> None:
        """Two, so that one of them has begun by now."""
        checkpoint = Checkpoint(str(Path(self._setup.folder) / "checkpoint"))
        wanted = (checkpoint.commits.latest_id() or 0) + 2

        def has_come() -> bool:
            self._driver.check()
            return (checkpoint.commits.latest_id() or 0) >= wanted

        wait_until(has_come, "the query goes on", DEADLINE_S)

    # -- the end ----------------------------------------------------------------------------------

    def _compare(self) -> None:
        went_in = _all_of(self._setup, self._setup.source)
        came_out = _all_of(self._setup, self._setup.sink)
        self._result.records += went_in.total()
        for kind, found in (("lost", went_in - came_out), ("repeated", came_out - went_in)):
            if found:
                some = sorted(found)[:5]
                self._result.broken.append(f"{self._setup.folder}: {kind}: {len(found)}: {some}")
        self._result.lost += (went_in - came_out).total()
        self._result.repeated += (came_out - went_in).total()


def _pause(seconds: float) -> None:
    """A fault has to last for a while."""
    threading.Event().wait(seconds)


def _all_of(setup: Setup, topic: str) -> Counter[bytes]:
    """The values of all records that are committed."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": setup.bootstrap,
            "group.id": "faults",
            "isolation.level": "read_committed",
            "enable.partition.eof": "true",
        }
    )
    at = [
        confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)
        for partition in range(PARTITIONS)
    ]
    consumer.assign(at)
    found: Counter[bytes] = Counter()
    ended: set[int] = set()
    deadline_s = time.monotonic() + DEADLINE_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline_s, f"{topic} cannot be read to its end"
        for message in consumer.consume(1_000, 0.2):
            if message.error() is None:
                found[message.value()] += 1
            elif message.error().name() == "_PARTITION_EOF":
                ended.add(message.partition())
    consumer.close()
    return found


@contextmanager
def _feeding(setup: Setup) -> Iterator[None]:
    """A record for each partition, again and again."""
    stop = threading.Event()

    def feed() -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": setup.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        number = 0
        while not stop.wait(FEED_EVERY_S):
            for partition in range(PARTITIONS):
                producer.produce(setup.source, f"{partition} {number}", partition=partition)
            producer.poll(0)
            number += 1
        assert producer.flush(DEADLINE_S) == 0

    thread = threading.Thread(target=feed, name="feed")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


# -- the process that faults befall ---------------------------------------------------------------


@dataclass(frozen=True)
class Setup:
    """What it needs to know."""

    folder: str
    bootstrap: str
    source: str
    sink: str
    mutant: str = ""

    @property
    def drain(self) -> Path:
        """The query drains when this file is there."""
        return Path(self.folder) / "drain"


class Driver:
    """See above.

    :param armed: where it is killed: :mod:`engine.base.failpoints`.
    """

    def __init__(self, setup: Setup, armed: str = "") -> None:
        self._said = Path(setup.folder) / f"said-{time.monotonic_ns()}"
        self._process = _forks.Process(target=_run, args=(setup, armed, str(self._said)))
        self._process.start()

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def check(self) -> None:
        """:raises ChildProcessError: it has ended."""
        if not self._process.is_alive():
            raise ChildProcessError(f"the driver has ended: {self._says()}")

    def await_death(self, seconds: float) -> None:
        """Or until the time is over."""
        self._process.join(seconds)

    def await_end(self) -> None:
        """:raises ChildProcessError: it does not end."""
        self._process.join(DEADLINE_S)
        if self._process.is_alive():
            raise ChildProcessError(f"the driver does not end: {self._says()}")

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def _says(self) -> str:
        return self._said.read_text()[-2_000:] if self._said.exists() else "nothing"


def _run(setup: Setup, armed: str, said: str) -> None:
    logging.disable(logging.CRITICAL)
    if setup.mutant:
        MUTANTS[setup.mutant]()
    failpoints.arm(armed)
    # One after the other, so that a process can be killed between two of an epoch.
    kafka_transactions.AT_ONCE = 1  # type: ignore[misc]
    failing = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: failing.set())
    execution = ContinuousExecution(_definition(setup, failing), ThreadLauncher())
    with Path(said).open("w", buffering=1) as out:
        try:
            execution.start()
            query = ContinuousQuery(execution, str)
            pause = threading.Event()
            while query.isActive and not setup.drain.exists():
                pause.wait(0.02)
            if setup.drain.exists():
                query.processAllAvailable()
                query.drain(DEADLINE_S)
            out.write(json.dumps({"error": str(query.exception())}))
        except Exception as exc:
            out.write(f"{type(exc).__name__}: {exc}")


def _definition(setup: Setup, failing: threading.Event) -> QueryDefinition:
    source = KafkaDataSource(
        {
            "kafka.bootstrap.servers": setup.bootstrap,
            "subscribe": setup.source,
            "startingOffsets": "earliest",
        }
    )
    sink = KafkaSink(
        {
            "kafka.bootstrap.servers": setup.bootstrap,
            "topic": setup.sink,
            "delivery": "exactly-once",
            "kafka.transaction.timeout.ms": str(TRANSACTION_MS),
        }
    )
    schema = to_arrow(source.schema(), "source kafka")
    return QueryDefinition(
        name=None,
        streams=(
            StreamBinding(
                Pipeline(SourceRelation("kafka", {}, schema), (), schema),
                source.continuousReader(source.schema()),
                "kafka",
            ),
        ),
        sink=_with_failures(
            bind_writer(sink.streamWriter(source.schema(), overwrite=False), "kafka"), failing
        ),
        checkpoint=Checkpoint(str(Path(setup.folder) / "checkpoint")),
        epoch_interval_ms=INTERVAL_MS,
        options=EngineOptions(lease_heartbeat_ms=HEARTBEAT_MS, restart_delay_ms=10),
    )


def _with_failures(sink: SinkBinding, failing: threading.Event) -> SinkBinding:
    return replace(sink, writer=_Failing(sink.writer, failing))


class _Failing(TaskWriter):
    """A writer whose task fails between two batches when it is told so."""

    def __init__(self, writer: TaskWriter, failing: threading.Event) -> None:
        self._writer, self._failing = writer, failing
        self.open, self.committed = writer.open, writer.committed  # type: ignore[method-assign]
        self.aborted, self.close = writer.aborted, writer.close  # type: ignore[method-assign]

    def __copy__(self) -> _Failing:
        from copy import copy

        return _Failing(copy(self._writer), self._failing)

    def write(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Any:
        return self._writer.write(epoch, self._failing_between(batches))

    def _failing_between(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if self._failing.is_set():
                self._failing.clear()
                raise OSError("the task has failed")
