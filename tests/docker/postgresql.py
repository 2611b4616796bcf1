"""A PostgreSQL for the tests, made of the programs of this machine, with a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from airflow_provider_continuous.rest import wait_for

PROGRAMS = ("initdb", "postgres", "psql", "pg_isready")


def missing() -> str:
    """Why PostgreSQL cannot be used here; empty if it can."""
    programs = [name for name in PROGRAMS if find_program(name) is None]
    drivers = [name for name in ("psycopg2", "asyncpg") if find_spec(name) is None]
    return f"missing: {', '.join(programs + drivers)}" if programs or drivers else ""


def find_program(name: str) -> str | None:
    """The path of a program; Debian keeps the server's outside of the PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join(map(str, [*folders, os.environ["PATH"]])))


class PostgreSQL:
    """A server as the image of PostgreSQL makes it from its environment variables.

    :param environment: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="postgresql-"))
        self._data = self._root / "data"
        # It refuses to run as root, as the container's does.
        self._user: str | None = None
        if os.geteuid() == 0:
            self._user = _unprivileged_user()
            shutil.chown(self._root, self._user)
        self._environment = environment
        self.log = self._root / "log"

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Make a cluster and its database, then run ``command``."""
        said = self._environment
        password = self._root / "password"
        password.write_text(said["POSTGRES_PASSWORD"])
        password.chmod(0o644)  # for this user; the folder is closed to all others
        superuser = ["--username", said["POSTGRES_USER"], "--pwfile", str(password)]
        self._run(
            "initdb",
            *superuser,
            "--auth",
            "scram-sha-256",
            "--encoding",
            "UTF8",
            "-D",
            str(self._data),
        )
        program, *words = command
        process = self._spawn(program, *words, "-D", str(self._data), "-k", str(self._root))
        wait_for(lambda: self._is_ready(process), 60, f"PostgreSQL, log {self.log}")
        self._run(
            "psql", "-h", str(self._root), "-U", said["POSTGRES_USER"], "-d", "postgres",
            "-c", f'CREATE DATABASE "{said["POSTGRES_DB"]}"',
        )  # fmt: skip
        return process

    def remove(self) -> None:
        """Remove its folder, after its end."""
        shutil.rmtree(self._root)

    def _is_ready(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, self.log.read_text()
        check = [str(find_program("pg_isready")), "-q", "-h", str(self._root)]
        return subprocess.run(check).returncode == 0

    def _run(self, program: str, *words: str) -> None:
        code = self._spawn(program, *words).wait(120)
        assert code == 0, self.log.read_text()

    def _spawn(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [str(find_program(program)), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PGPASSWORD": self._environment["POSTGRES_PASSWORD"], "LC_ALL": "C"},
                cwd=self._root,
                user=self._user,
                start_new_session=True,
            )


def _unprivileged_user() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)
