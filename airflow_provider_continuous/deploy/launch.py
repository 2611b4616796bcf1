"""Start a process that outlives the task which starts it.

A task's process group is signalled when Airflow ends the task, and its standard streams are
sockets to the supervisor: the query gets a session, a standard input and a log of its own, and
no other file descriptor.
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

_AIRFLOW_SETTINGS = ("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_", "_AIRFLOW")


def launch_detached(
    arguments: list[str], log_path: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own.

    :param arguments: the command, without secrets: anyone on the machine can read it.
    :param log_path: created with its folder, readable by its owner only; takes standard output and
        error.
    :param environment: the whole environment; by default :func:`query_environment`.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=True,
            env=query_environment() if environment is None else environment,
        )
    finally:
        os.close(descriptor)


def query_environment(*, other_python: bool = False) -> dict[str, str]:
    """Return the task's environment without Airflow's own settings, some of which are secrets.

    What the task could import, such as modules beside the DAG file, the process can import too.

    :param other_python: the process is of another Python, which has its own packages.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_AIRFLOW_SETTINGS)
    }
    environment["PYTHONPATH"] = os.pathsep.join(
        path for path in sys.path if path and not (other_python and _is_of_this_python(path))
    )
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def _is_of_this_python(path: str) -> bool:
    """Whether a folder of the path holds the standard library or installed packages."""
    known = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    known += [*site.getsitepackages(), site.getusersitepackages()]
    archive = "python{}{}.zip".format(*sys.version_info)
    return Path(path).name == archive or any(Path(path).is_relative_to(each) for each in known)
