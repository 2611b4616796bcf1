"""A real standalone cluster on loopback: one master, one worker, in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import pyspark

from engine.spark.session import prepare_environment
from local_airflow.rest import wait_for

_DEPLOY = "org.apache.spark.deploy"
_STOP_S = 20.0


class SparkCluster:
    """A context manager; everything it has started, executors too, is gone at its end.

    :param folder: for logs, and the work folders of drivers and executors.
    :param cores: of the worker.
    :ivar master: the cluster's URL, ``spark://127.0.0.1:PORT``.
    :ivar web: the address of the master's web page.
    """

    def __init__(self, folder: Path, cores: int = 2) -> None:
        self._folder, self._cores = folder, cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = self.web = ""

    def __enter__(self) -> SparkCluster:
        self._folder.mkdir(parents=True)
        try:
            log = self._start("master.Master", "--host", "127.0.0.1", "--port", "0")
            self.master = self._read(log, r"Starting Spark master at (spark://\S+)")
            self.web = self._read(log, r"MasterWebUI.* started at (http://\S+)")
            cores = ["--cores", str(self._cores), "--memory", "2g", "--host", "127.0.0.1"]
            log = self._start("worker.Worker", *cores, "--work-dir", str(self.work), self.master)
            self._read(log, r"(Successfully registered with master)")
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

    def children(self) -> list[psutil.Process]:
        """Return the drivers and executors that run now. Spark's script that starts a worker may
        leave it a shell that has ended, and which a JVM does not bury."""
        worker = psutil.Process(self._processes[1].pid)
        return [each for each in worker.children(recursive=True) if _runs(each)]

    def applications(self) -> int:
        """Return how many applications have had an executor so far."""
        return len(list(self.work.glob("app-*")))

    def driver_logs(self) -> str:
        """Return what the drivers on the cluster have written."""
        return "\n".join(path.read_text() for path in self.work.glob("driver-*/std*"))

    def _start(self, name: str, *arguments: str) -> Path:
        prepare_environment()
        home = Path(pyspark.__file__).parent
        log = self._folder / f"{name}.log"
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with log.open("wb") as output:
            command = [str(home / "bin" / "spark-class"), f"{_DEPLOY}.{name}", "--webui-port", "0"]
            started = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        self._processes.append(started)
        return log

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


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
