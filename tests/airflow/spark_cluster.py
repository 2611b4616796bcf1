"""A real standalone cluster: a master and its workers, in processes of their own, on loopback or
on hosts that a test has made."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import psutil
import pyspark

from engine.spark.class_archive import OPTIONS
from engine.spark.session import prepare_environment
from scripts.local_airflow.rest import wait_for
from tests.servers.jvm import QUICK

_DEPLOY = "org.apache.spark.deploy"
_STOP_S = 20.0


class Place(Protocol):
    """Where a process runs, and by which address others reach it there."""

    @property
    def address(self) -> str: ...

    def command(self, words: list[str]) -> list[str]:
        """The command line that runs there what these words run here."""


class Loopback:
    """This machine."""

    address = "127.0.0.1"

    def command(self, words: list[str]) -> list[str]:
        return words


LOOPBACK = Loopback()


class SparkCluster:
    """A context manager; everything it has started, executors too, is gone at its end.

    :param folder: for logs, and the work folders of drivers and executors.
    :param cores: of each worker.
    :param workers: how many.
    :param master_at: where the master runs; the workers run at ``workers_at``, one each, or all on
        loopback.
    :param settings: of master and workers, ``spark.worker.timeout`` for example.
    :ivar master: the cluster's URL, ``spark://127.0.0.1:PORT``.
    :ivar web: the address of the master's web page.
    """

    def __init__(
        self,
        folder: Path,
        cores: int = 2,
        workers: int = 1,
        *,
        master_at: Place = LOOPBACK,
        workers_at: Sequence[Place] = (),
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._folder, self._cores = folder, cores
        self._master_at = master_at
        self._workers_at = list(workers_at) or [LOOPBACK] * workers
        self._settings = dict(settings or {})
        self._processes: list[subprocess.Popen[bytes]] = []
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self.master = self.web = ""

    def __enter__(self) -> SparkCluster:
        self._folder.mkdir(parents=True)
        try:
            self.start_master()
            for place in self._workers_at:
                self.start_worker(place)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def work(self) -> Path:
        """A folder per driver and per application, with their logs."""
        return self._folder / "work"

    def start_master(self) -> None:
        """Start a master; again after :meth:`kill_master`, at the address of before, with what that
        one knew."""
        host, _, port = self.master.removeprefix("spark://").rpartition(":")
        _, _, web = self.web.rpartition(":")
        arguments = [
            "--host",
            host or bracketed(self._master_at.address),
            "--port",
            port or "0",
            "--webui-port",
            web or "0",
        ]
        self._master, log = self._start("master.Master", self._master_at, *arguments)
        self.master = self._read(log, r"Starting Spark master at (spark://\S+)")
        self.web = self._read(log, r"MasterWebUI.* started at (http://\S+)")

    def start_worker(self, place: Place = LOOPBACK) -> None:
        """Start one more worker."""
        host = bracketed(place.address)
        size = ["--cores", str(self._cores), "--memory", "2g", "--host", host]
        arguments = ["--webui-port", "0", *size, "--work-dir", str(self.work), self.master]
        worker, log = self._start("worker.Worker", place, *arguments)
        self._workers.append(worker)
        self._read(log, r"(Successfully registered with master)")

    def kill_master(self) -> None:
        """As a crash would."""
        assert self._master is not None
        self._master.kill()
        self._master.wait()

    def kill_worker_of(self, process: psutil.Process) -> None:
        """As a crash would: the worker that has started this process."""
        parents = {parent.pid for parent in process.parents()}
        (worker,) = (each for each in self._workers if each.pid in parents)
        self._workers.remove(worker)
        worker.kill()
        worker.wait()

    @contextmanager
    def suspended_workers(self) -> Iterator[None]:
        """Until the end of the block no worker starts an executor, or tells that one has ended."""
        for worker in self._workers:
            worker.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for worker in self._workers:
                worker.send_signal(signal.SIGCONT)

    def children(self) -> list[psutil.Process]:
        """Return the drivers and executors that run now. Spark's script that starts a worker may
        leave it a shell that has ended, and which a JVM does not bury."""
        family = [
            each
            for worker in self._workers
            for each in psutil.Process(worker.pid).children(recursive=True)
        ]
        return [each for each in family if runs(each)]

    def applications(self) -> int:
        """Return how many applications have had an executor so far."""
        return len(list(self.work.glob("app-*")))

    def driver_logs(self) -> str:
        """Return what the drivers on the cluster have written."""
        return "\n".join(path.read_text() for path in self.work.glob("driver-*/std*"))

    def _start(
        self, name: str, place: Place, *arguments: str
    ) -> tuple[subprocess.Popen[bytes], Path]:
        prepare_environment()
        home = Path(pyspark.__file__).parent
        log = self._folder / f"{len(self._processes)}-{name}.log"
        settings = {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": self._folder / "recovery",
            **self._settings,
        }
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": place.address,
            "SPARK_DAEMON_MEMORY": "256m",
            # Drivers and executors inherit it from their worker, and load the same classes.
            "JAVA_TOOL_OPTIONS": os.environ.get(OPTIONS, " ".join(QUICK)),
            "SPARK_DAEMON_JAVA_OPTS": " ".join(
                f"-D{key}={value}" for key, value in settings.items()
            ),
        }
        with log.open("wb") as output:
            command = [str(home / "bin" / "spark-class"), f"{_DEPLOY}.{name}"]
            started = subprocess.Popen(
                place.command([*command, *arguments]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        self._processes.append(started)
        return started, log

    def _read(self, log: Path, pattern: str) -> str:
        def told() -> Any:
            if self._processes[-1].poll() is not None:
                raise RuntimeError(f"Spark has ended:\n{log.read_text()}")
            return re.search(pattern, log.read_text())

        found: re.Match[str] = wait_for(told, 240, f"{pattern!r} in {log}")
        return found.group(1)

    def _stop(self) -> None:
        family: list[psutil.Process] = []
        for process in reversed(self._processes):
            with suppress(psutil.NoSuchProcess):
                family += psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for left in family:
            with suppress(psutil.NoSuchProcess):
                left.kill()
        psutil.wait_procs(family, timeout=_STOP_S)


def bracketed(address: str) -> str:
    """As Spark wants a host to be written."""
    return f"[{address}]" if ":" in address else address


def runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
