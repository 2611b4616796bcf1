"""Where a driver on the worker's machine would end with the worker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy import worker_end
from airflow_provider_continuous.deploy.worker_end import ends_with_worker
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.errors import ConfigError

WORKER = "/usr/bin/python3 /home/airflow/.local/bin/airflow celery worker"
CELERY = "[celeryd: celery@host:MainProcess] -active- (celery worker)"
"""What that worker calls itself once it runs: Airflow brings setproctitle along."""


def machine(proc: Path, *commands: str, group: str = "0::/") -> int:
    """Processes, each the parent of the next; return the last one's pid."""
    for pid, command in enumerate(commands, start=1):
        folder = proc / str(pid)
        folder.mkdir(parents=True)
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
        name = b"(a (b) \xc3)"  # the kernel cuts it, in the middle of a character, too
        (folder / "stat").write_bytes(b"%d %b S %d %d %d 0" % (pid, name, pid - 1, pid, pid))
        (folder / "cgroup").write_bytes(os.fsencode(f"12:cpu:/\n{group}\n"))
    return len(commands)


@pytest.mark.parametrize(
    "commands",
    [
        (WORKER, "airflow task supervisor"),
        ("sh -c airflow standalone", WORKER, "airflow task supervisor"),
        ("/usr/bin/dumb-init -- /entrypoint celery worker", WORKER, "airflow task supervisor"),
        ("/sbin/docker-init -- airflow scheduler", WORKER),
        (CELERY, "[celeryd: celery@host:ForkPoolWorker-1]", "airflow task supervisor"),
        ("/usr/bin/tini -- /start-the-worker", CELERY, "airflow task supervisor"),
    ],
)
def test_a_container_of_airflow(tmp_path: Path, commands: tuple[str, ...]) -> None:
    pid = machine(tmp_path, *commands)

    assert ends_with_worker({}, tmp_path, pid) == (
        "it is in a container whose first process is Airflow"
    )


@pytest.mark.parametrize(
    "commands",
    [
        ("/sbin/init", WORKER, "airflow task supervisor"),
        ("/usr/lib/systemd/systemd --switched-root", WORKER),
        ("sleep infinity", "bash", WORKER),
        ("tini -- sleep infinity", "bash", WORKER),
        ("sh -c cd airflow-provider && make test", "python -m pytest"),
        (),
    ],
)
def test_anywhere_else(tmp_path: Path, commands: tuple[str, ...]) -> None:
    pid = machine(tmp_path, *commands)

    assert ends_with_worker({}, tmp_path, pid or 7) is None


@pytest.mark.parametrize("told", ["True", "true", "1"])
def test_a_pod_of_a_task(tmp_path: Path, told: str) -> None:
    where = ends_with_worker({"AIRFLOW_IS_K8S_EXECUTOR_POD": told}, tmp_path, 1)

    assert where == "it runs in the pod of a task (KubernetesExecutor)"


@pytest.mark.parametrize("worker", [WORKER, CELERY])
@pytest.mark.parametrize(
    ("group", "kill_mode", "main", "ends"),
    [
        ("0::/system.slice/airflow-worker.service", "control-group", 2, True),
        ("0::/system.slice/airflow-worker.service", "mixed", 2, True),
        ("0::/system.slice/airflow-worker.service", "process", 2, False),
        ("1:name=systemd:/system.slice/airflow-worker.service", "control-group", 2, True),
        ("0::/user.slice/user-1.slice/user@1.service/app.slice/a.service", "mixed", 2, True),
        ("0::/system.slice/k\udcf6ln.service", "control-group", 2, True),
        ("0::/user.slice/user-1.slice/session-3.scope", "control-group", 2, False),
        ("0::/system.slice/ci-runner.service", "control-group", 1, False),
    ],
)
def test_a_unit_of_systemd(
    tmp_path: Path, group: str, kill_mode: str, main: int, ends: bool, worker: str
) -> None:
    pid = machine(tmp_path, "/sbin/init", worker, "airflow task supervisor", group=group)
    asked = []

    def unit(name: str, of_user: bool) -> tuple[str, int]:
        asked.append((name, of_user))
        return kill_mode, main

    where = ends_with_worker({}, tmp_path, pid, unit)

    assert (where is not None) is ends
    if ends:
        assert where == f"systemd ends everything of its unit {asked[0][0]} (KillMode={kill_mode})"
        assert asked == [(group.rpartition("/")[2], "user@" in group)]


def test_a_unit_that_nobody_tells_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    pid = machine(tmp_path, "/sbin/init", WORKER, group="0::/system.slice/airflow.service")

    assert ends_with_worker({}, tmp_path, pid) is None


def test_what_systemctl_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "systemctl"
    program.write_text('#!/bin/sh\necho MainPID=2\necho KillMode=control-group\necho "$@" >&2\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(worker_end, "_SYSTEMD_S", 120.0)

    assert worker_end._ask_systemd("airflow.service", True) == ("control-group", 2)


@pytest.mark.parametrize("mode", ["local", "client"])
def test_a_query_is_refused_there(
    connection: Any, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch, mode: str, stand_in: Any
) -> None:
    extra = {"deploy-mode": "local" if mode == "local" else "spark-submit"}
    connection("continuous_default", "continuous", extra=extra)
    connection("spark_default", "spark", host="yarn", extra={"deploy-mode": "client"})
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")
    hook = ContinuousQueryHook()

    with pytest.raises(ConfigError, match=r"(?s)end with Airflow's worker.*cluster mode"):
        hook.submit(hook.specification(spec))

    assert not Path(spec["checkpoint_location"]).exists(), "nothing was noted"


def test_it_may_be_wanted(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch, stand_in: Any
) -> None:
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")
    monkeypatch.setenv("AIRFLOW__CONTINUOUS__END_WITH_WORKER", "True")
    hook = ContinuousQueryHook()

    submitted = hook.submit(hook.specification(spec))

    hook.wait_until_started(submitted, 120)
    submitted.process.terminate()
    assert submitted.process.wait(120) == 0
