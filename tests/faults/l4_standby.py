"""L4 with a standby: two drivers on one query; the one that runs it is killed, or suspended until
the other has taken over, again and again.

Both are ``continuous run --standby``, as a user starts them: whoever comes first runs the query. A
suspended driver that wakes up must end without having written anything more. The query counts on
by itself (rate), into Parquet, exactly once.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

import psutil

from engine.checkpoint.checkpoint import Checkpoint
from tests.faults.l2_server import environment
from tests.faults.l4_processes import bury
from tests.faults.result import LevelResult
from tests.sink_files import committed
from tests.waiting import wait_until

KILLED, SUSPENDED = "driver killed, standby takes over", "driver suspended, standby takes over"
DEADLINE_S = 120.0
PARTITIONS, ROWS_PER_SECOND = 2, 200


def run(
    *, seed: int, faults: Sequence[str] = (KILLED, SUSPENDED), master: str = "local[2]"
) -> LevelResult:
    """Play the faults in random order."""
    result = LevelResult(f"L4 standby {master}", seeds=[seed])
    began_s = time.monotonic()
    order = list(faults)
    random.Random(seed).shuffle(order)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as left:
        pair = Pair(Path(folder), master, left)
        pair.begin()
        for kind in order:
            result.faults[kind] += 1
            result.restart_ms.append(pair.fail(kind, result))
        pair.drain(result)
        _judge(Path(folder), result)
    result.seconds = time.monotonic() - began_s
    return result


def _judge(folder: Path, result: LevelResult) -> None:
    """All numbers from 0 on, each once."""
    found = Counter(committed(folder / "out", "value"))
    result.records = found.total()
    result.lost = max(found, default=-1) + 1 - len(found)
    result.repeated = found.total() - len(found)


class Driver:
    """One process of ``continuous run --standby``."""

    def __init__(self, folder: Path, log: IO[bytes]) -> None:
        self._began = log.tell()
        self._log = Path(log.name)
        command = [sys.executable, "-m", "engine", "run", "--standby", "--json"]
        self.process = subprocess.Popen(
            [*command, str(folder / "query.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(),
        )

    @property
    def stands_by(self) -> bool:
        """It is ready to take over.

        :raises ChildProcessError: it has ended.
        """
        said = self.said
        if self.process.poll() is not None:
            raise ChildProcessError(f"a driver has ended: {said[-3_000:]}")
        return "standing by" in said

    @property
    def said(self) -> str:
        return self._log.read_bytes()[self._began :].decode(errors="replace")

    def below(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def kill(self) -> None:
        left = self.below()
        self.process.kill()
        self.process.wait()
        bury(left)


class Pair:
    """The driver that runs the query, and the one that waits.

    :param left: gets what is to be ended.
    """

    def __init__(self, folder: Path, master: str, left: ExitStack) -> None:
        self._folder, self._left = folder, left
        self._checkpoint = Checkpoint(str(folder / "checkpoint"))
        document = {
            "source": {
                "format": "rate",
                "options": {"rowsPerSecond": ROWS_PER_SECOND, "numPartitions": PARTITIONS},
            },
            "sink": {
                "format": "parquet",
                "options": {"path": str(folder / "out"), "leaseHeartbeatMs": 300},
            },
            "trigger": {"continuous": "200 milliseconds"},
            "checkpoint_location": str(folder / "checkpoint"),
            "conf": {"spark.master": master, "spark.driver.memory": "512m"},
        }
        (folder / "query.json").write_text(json.dumps(document))

    def begin(self) -> None:
        self._active = self._start()
        wait_until(lambda: self._has_come(2), "the query runs", DEADLINE_S)
        self._waiting = self._start()
        wait_until(lambda: self._waiting.stands_by, "the standby is ready", DEADLINE_S)

    def fail(self, kind: str, result: LevelResult) -> float:
        """Let the standby take over; how long that took, in milliseconds."""
        failing, successor = self._active, self._waiting
        before = self._checkpoint.committed_epoch()
        began_s = time.monotonic()
        left = failing.below()
        failing.process.send_signal(signal.SIGKILL if kind == KILLED else signal.SIGSTOP)
        self._active = successor
        # What the failed one has prepared is committed first, so an epoch more tells it.
        wait_until(
            lambda: self._holder() == successor.process.pid and self._has_come(before + 2),
            f"{kind}: the standby commits",
            DEADLINE_S,
        )
        took_ms = (time.monotonic() - began_s) * 1000
        if kind == SUSPENDED:
            failing.process.send_signal(signal.SIGCONT)
        code = failing.process.wait(DEADLINE_S)
        if kind == SUSPENDED and (code == 0 or "does not own the checkpoint" not in failing.said):
            result.blame(f"{kind}: it ended with {code}: {failing.said[-500:]}")
        bury(left)
        self._waiting = self._start()
        wait_until(lambda: self._waiting.stands_by, "the next standby is ready", DEADLINE_S)
        return took_ms

    def drain(self, result: LevelResult) -> None:
        """Ends both."""
        self._checkpoint.requests.ask("drain", "the fault tests")
        for driver in (self._active, self._waiting):
            with suppress(subprocess.TimeoutExpired):
                driver.process.wait(DEADLINE_S)
            if (code := driver.process.poll()) != 0:
                result.blame(f"drain: a driver ended with {code}: {driver.said[-2_000:]}")

    def _start(self) -> Driver:
        log = self._left.enter_context((self._folder / f"log-{time.monotonic_ns()}").open("ab"))
        driver = Driver(self._folder, log)
        self._left.callback(driver.kill)
        return driver

    def _has_come(self, epoch: int) -> bool:
        return self._checkpoint.committed_epoch() >= epoch

    def _holder(self) -> int | None:
        return self._checkpoint.status().pid
