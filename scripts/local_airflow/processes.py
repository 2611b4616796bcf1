"""A local Airflow of four processes.

Embedded defaults: SQLite, LocalExecutor, everything bound to 127.0.0.1.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil

from airflow_provider_continuous.deploy.driver_log import tail
from scripts.local_airflow.ports import free_ports
from scripts.local_airflow.rest import AirflowClient, wait_for

COMPONENTS = {
    "api-server": ["api-server"],
    # Their log servers would listen on every address, and the api-server reads the files anyway.
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
USER = "admin"
_STOP_S = 15.0


class StandaloneError(RuntimeError):
    """Airflow did not come up, or one of its processes has ended."""


class AirflowProcesses:
    """Airflow's four processes, started and stopped together; a context manager.

    :param home: Airflow's home: database, configuration, logs, secrets. Kept, and used again.
    :param dags_folder: the DAGs.
    :param port: of the web address; 0 takes a free one.
    :param paused: whether new DAGs are paused until somebody starts them.
    :param environment: more environment variables for the processes, and so for the tasks.
    :ivar client: while it is entered: logged in.
    """

    def __init__(
        self,
        home: Path,
        dags_folder: Path,
        port: int = 0,
        paused: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home.absolute()
        self.logs = self.home / "processes"
        self._dags_folder = dags_folder.absolute()
        self._port = port or free_ports(1)[0]
        self._paused = paused
        self._extra = dict(environment or {})
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.client: AirflowClient
        self.address = f"http://127.0.0.1:{self._port}"
        self.password = ""

    def start(self, timeout_s: float = 600.0) -> AirflowClient:
        """Bring the database up to date, start the processes, wait until all are healthy.

        :return: a client that is logged in; the caller closes it.
        :raises StandaloneError: the port is taken, or a process has ended; the message has the
            end of its log.
        :raises AirflowApiError: it did not become healthy in time.
        """
        if not _is_free(self._port):
            raise StandaloneError(f"Port {self._port} is taken by another program; choose another.")
        environment = self.environment()
        migrate = self._spawn("db", ["db", "migrate"], environment)
        if migrate.wait() != 0:
            raise StandaloneError(f"airflow db migrate failed:\n{tail(self.logs / 'db.log', 50)}")
        try:
            for component, command in COMPONENTS.items():
                self._running[component] = self._spawn(component, command, environment)
            client = AirflowClient(self.address, USER, self.password)
            wait_for(lambda: self._healthy(client), timeout_s, f"Airflow, logs in {self.logs}")
        except BaseException:
            self.stop()
            raise
        return client

    def stop(self) -> None:
        """End the processes and what they have started; queries, which are detached, go on."""
        # The api-server last: the others, and running tasks, say good-bye to it.
        newest_first = self.names()[::-1]
        for name in sorted(newest_first, key="api-server".__eq__):
            self.end(name)

    def launch(self, component: str, name: str | None = None) -> None:
        """Start one of :data:`COMPONENTS` again after its end, or one more of its kind.

        :param name: of the one more, for the other methods and its log.
        """
        name = name or component
        if name in self._running:
            raise StandaloneError(f"Airflow's {name} runs already; end it, or choose a name.")
        self._running[name] = self._spawn(name, COMPONENTS[component], self.environment())

    def end(self, name: str) -> None:
        """End one process, politely, and whatever is left of its children."""
        self._end(name, grace_s=_STOP_S)

    def kill(self, name: str) -> None:
        """Kill one process and its children at once, as when their machine is lost."""
        self._end(name, grace_s=0.0)

    def names(self) -> list[str]:
        """Return the names of the processes that were started and not ended."""
        return list(self._running)

    def family(self, name: str) -> list[psutil.Process]:
        """Return one process and its descendants; queries, which are detached, are none of them."""
        return _family(psutil.Process(self.pid(name)))

    def _end(self, name: str, grace_s: float) -> None:
        started = self._running.pop(name)
        if started.poll() is None:
            _end_family(psutil.Process(started.pid), grace_s)
            started.wait()

    def check(self) -> None:
        """Raise StandaloneError if a process has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                log = tail(self.logs / f"{name}.log", 50)
                raise StandaloneError(f"Airflow's {name} has ended ({process.returncode}):\n{log}")

    def pid(self, component: str) -> int:
        """Return the process id of a component, by its name."""
        return self._running[component].pid

    def __enter__(self) -> AirflowClient:
        self.client = self.start()
        return self.client

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self.stop()

    def _healthy(self, client: AirflowClient) -> bool:
        self.check()
        health = client.health()
        return len(health) == len(COMPONENTS) and set(health.values()) == {"healthy"}

    def _spawn(
        self, name: str, arguments: list[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            # A session of its own: Ctrl-C reaches us alone, and we end them in order.
            return subprocess.Popen(
                [sys.executable, "-m", "airflow", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def environment(self) -> dict[str, str]:
        """Return the environment of the processes."""
        kept = self._secrets()
        self.password = kept["password"]
        inherited = {name: v for name, v in os.environ.items() if not name.startswith("AIRFLOW__")}
        return {
            **inherited,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self._dags_folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "8",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": str(self._paused),
            "AIRFLOW__CORE__FERNET_KEY": kept["fernet_key"],
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            # So long a process waits for the others, instead of 5 s: then the api answers 500.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": (
                f"sqlite:///{self.home / 'airflow.db'}?timeout=30"
            ),
            "AIRFLOW__API_AUTH__JWT_SECRET": kept["jwt_secret"],
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self._port),
            "AIRFLOW__API__BASE_URL": self.address,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            # How late a worker's exit is noticed, and so how soon a deferred task may resume.
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            # Instead of 5 s, after which a task of a busy machine dies.
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "30",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            **self._extra,
        }

    def _secrets(self) -> dict[str, str]:
        """The keys and the password, made once per home."""
        self.home.mkdir(parents=True, exist_ok=True)
        path = self.home / "secrets.json"
        if not path.exists():
            made = {
                "password": secrets.token_urlsafe(12),
                "jwt_secret": secrets.token_urlsafe(32),
                "fernet_key": base64.urlsafe_b64encode(os.urandom(32)).decode(),
            }
            _write_private(self.home / "passwords.json", {USER: made["password"]})
            _write_private(path, made)
        kept: dict[str, str] = json.loads(path.read_text())
        return kept


def _write_private(path: Path, content: Mapping[str, str]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file)


def _end_family(parent: psutil.Process, grace_s: float) -> None:
    """End a process, politely if there is time, and whatever is left of its children."""
    try:
        family = _family(parent)
        if grace_s:
            parent.terminate()
    except psutil.NoSuchProcess:
        return
    if grace_s:
        psutil.wait_procs([parent], timeout=grace_s)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family, timeout=_STOP_S)


def _family(parent: psutil.Process) -> list[psutil.Process]:
    """A process and its descendants; one with a session of its own is a query: it outlives them."""
    session = os.getsid(parent.pid)
    return [parent, *(p for p in parent.children(recursive=True) if _session(p) == session)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _session(process: psutil.Process) -> int:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return -1
