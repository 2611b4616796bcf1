"""Whether a process of its own session still ends when Airflow's worker does.

- A pod of the KubernetesExecutor ends with its task.
- A container ends with its first process: with the worker, where that is Airflow.
- A systemd unit ends all processes of its control group (``KillMode=control-group``, the default,
  and ``mixed``).

What cannot be told counts as no.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from airflow_provider_continuous import configuration
from engine.errors import ConfigError

_AIRFLOW = re.compile(r"(^|[\s/])airflow(\s|$)|^\[celeryd: ")
"""Celery's worker gives itself a title that does not name Airflow; above a task it is Airflow's."""
_CONTAINER_INITS = {"tini", "dumb-init", "docker-init", "catatonit"}
_TAKES_ALL = {"control-group", "mixed"}
_SYSTEMD_S = 5.0

Unit = tuple[str, int]
"""How a unit ends, and its main process."""


def check_outlives_worker() -> None:
    """Refuse to start a driver here that would end with the worker.

    :raises ConfigError: it would, and ``[continuous] end_with_worker`` is not set.
    """
    if configuration.end_with_worker():
        return
    where = ends_with_worker(os.environ)
    if where is not None:
        raise ConfigError(
            f"A driver on this machine would end with Airflow's worker: {where}.",
            hint="Let the query run elsewhere: deploy mode spark-submit with a Spark connection in "
            "cluster mode. Under systemd, KillMode=process spares it. Or set [continuous] "
            "end_with_worker: then the query ends with the worker, and "
            "RunContinuousQueryOperator starts it again.",
        )


def ends_with_worker(
    environ: Mapping[str, str],
    proc: Path = Path("/proc"),
    pid: int | None = None,
    unit: Callable[[str, bool], Unit | None] | None = None,
) -> str | None:
    """Return why a process would end with the worker; None if it would not.

    :param proc: where the system tells about processes.
    :param pid: of the task; None: this process.
    :param unit: asks systemd about a unit, of a user if the second argument is true.
    """
    if environ.get("AIRFLOW_IS_K8S_EXECUTOR_POD", "").lower() in ("true", "1"):
        return "it runs in the pod of a task (KubernetesExecutor)"
    above = _ancestors(proc, os.getpid() if pid is None else pid)
    first = above.get(1, "")
    program = Path(first.split(" ", 1)[0]).name
    below_first = list(above.values())[-2] if len(above) > 1 else ""
    if _AIRFLOW.search(first) or (program in _CONTAINER_INITS and _AIRFLOW.search(below_first)):
        return "it is in a container whose first process is Airflow"
    path = _control_group(proc, os.getpid() if pid is None else pid)
    name = path.rpartition("/")[2]
    if not name.endswith(".service"):
        return None
    told = (unit or _ask_systemd)(name, "/user@" in path)
    if told is None or told[0] not in _TAKES_ALL or not _AIRFLOW.search(above.get(told[1], "")):
        return None
    return f"systemd ends everything of its unit {name} (KillMode={told[0]})"


def _ancestors(proc: Path, pid: int) -> dict[int, str]:
    """The command lines of a process and of those above it, the first process last."""
    found: dict[int, str] = {}
    while pid > 0 and pid not in found:
        try:
            command = (proc / f"{pid}/cmdline").read_bytes().decode(errors="replace")
            fields = (proc / f"{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            break
        found[pid] = command.replace("\0", " ").strip()
        pid = int(fields[1])
    return found


def _control_group(proc: Path, pid: int) -> str:
    try:
        lines = os.fsdecode((proc / f"{pid}/cgroup").read_bytes()).split("\n")
    except OSError:
        return ""
    paths = [
        path
        for _, controllers, path in (line.split(":", 2) for line in lines if line)
        if controllers in ("", "name=systemd")
    ]
    return max(paths, key=len, default="")


def _ask_systemd(name: str, of_user: bool) -> Unit | None:
    command = ["systemctl", *(["--user"] if of_user else []), "show"]
    try:
        shown = subprocess.run(
            [*command, "-p", "KillMode", "-p", "MainPID", name],
            capture_output=True,
            text=True,
            timeout=_SYSTEMD_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        told = dict(line.split("=", 1) for line in shown.stdout.split())
        return told["KillMode"], int(told["MainPID"])
    except (OSError, LookupError, ValueError, subprocess.SubprocessError):
        return None
