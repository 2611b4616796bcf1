"""The processes of a driver: found, killed, stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import psutil

from engine.spark.session import WARM_DAEMON
from tests.faults.l2_server import environment
from tests.faults.result import LevelResult

DEADLINE_S = 300.0
DAEMON = WARM_DAEMON["spark.python.daemon.module"]


class Told(Protocol):
    """What a driver's module is told."""

    @property
    def root(self) -> Path:
        """The folder that everything is in; the module makes a file ``started-PID`` there."""

    def to_json(self) -> str:
        """The module's only argument."""


class Driver:
    """A driver's process and those below it.

    :param module: runs there.
    """

    def __init__(self, setup: Told, module: str = "tests.faults.l4_driver") -> None:
        self._log = (setup.root / "driver.log").open("ab")
        command = [sys.executable, "-m", module, setup.to_json()]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=environment(),
        )
        self._started = setup.root / f"started-{self.pid}"
        self._workers: set[psutil.Process] = set()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_started(self) -> bool:
        """Its queries have.

        :raises ChildProcessError: it has ended before.
        """
        self.check()
        return self._started.exists()

    def check(self) -> None:
        """:raises ChildProcessError: it has ended."""
        if self._process.poll() is not None:
            raise ChildProcessError(f"the driver has ended with {self._process.returncode}")

    def await_end(self, deadline_s: float = DEADLINE_S) -> int:
        """Its exit code.

        :raises subprocess.TimeoutExpired: it does not end.
        """
        code = self._process.wait(deadline_s)
        self._log.close()
        return code

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self) -> None:
        """Nothing of it is left running."""
        left = self.below()
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.await_end()
        bury(left)

    def below(self) -> list[psutil.Process]:
        """All processes below it."""
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def jvm(self) -> psutil.Process:
        return next(each for each in self.below() if _is(each, "SparkSubmit"))

    def executors(self) -> list[psutil.Process]:
        return [each for each in self.below() if _is(each, "CoarseGrainedExecutorBackend")]

    def daemons(self) -> list[psutil.Process]:
        """Python daemons; each was started by a JVM."""
        return [each for each in self.below() if _is(each, DAEMON) and not _is_worker(each)]

    def workers(self) -> list[int]:
        """Python workers; also those that were seen below a daemon which was killed since: they
        live on and Spark goes on with them."""
        self._workers.update(
            each for each in self.below() if _is(each, DAEMON) and _is_worker(each)
        )
        self._workers = {each for each in self._workers if each.is_running()}
        return [each.pid for each in self._workers]


@contextmanager
def told_in(result: LevelResult, folder: Path, end: Callable[[], None]) -> Iterator[None]:
    """What goes wrong in the block is told, with the end of the log; behind it nothing is left.

    :param folder: everything is in there.
    :param end: ends what is running.
    """
    began_s = time.monotonic()
    try:
        yield
    except Exception as exc:
        result.broken.append(f"{type(exc).__name__}: {exc}\n{read_log(folder)}")
    finally:
        end()
        result.seconds = time.monotonic() - began_s
        shutil.rmtree(folder)


def bury(left: list[psutil.Process]) -> list[str]:
    """Wait for the processes that a dead one has left to end by themselves; which did not, and were
    killed."""
    _, alive = psutil.wait_procs(left, timeout=DEADLINE_S)
    named = []
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            named.append(" ".join(process.cmdline())[-60:])
            process.send_signal(signal.SIGKILL)
    return named


def _is(process: psutil.Process, word: str) -> bool:
    with suppress(psutil.Error):
        return any(part.endswith(word) for part in process.cmdline()[1:] if "=" not in part)
    return False


def _is_worker(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        parent = process.parent()
        return parent is not None and _is(parent, DAEMON)
    return False


def read_log(folder: Path) -> str:
    """The end of what the drivers have said."""
    path = folder / "driver.log"
    return path.read_text(errors="replace")[-3_000:] if path.exists() else ""
