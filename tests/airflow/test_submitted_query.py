"""What becomes of a submitted query, with real processes: ``stand_in.py`` instead of the driver, a
shell script instead of spark-submit."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery, is_run_of
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.checkpoint.query_state import QueryState
from engine.errors import ConfigError
from scripts.local_airflow.rest import wait_for
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.submitting import Submitting

STAND_IN = Path(__file__).with_name("stand_in.py")
DRIVER = f'{sys.executable} {STAND_IN} run "$spec"'


def of_session(session: int) -> list[int]:
    """The processes of a session that run."""
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            if os.getsid(process.pid) == session and process.info["status"] != "zombie":
                found.append(process.pid)
        except ProcessLookupError:
            continue
    return found


def test_the_driver_is_a_child_of_the_client(submitting: Submitting, spec: dict[str, Any]) -> None:
    hook = submitting.does(f"{DRIVER}; exit $?", "client")
    submitted = hook.submit(hook.specification(spec))

    status = hook.wait_until_started(submitted, 120)

    assert status.pid != submitted.process.pid
    assert submitted.runs(status)
    assert not submitted.spec_path.exists()
    handle = Handle.read(json.loads(json.dumps(submitted.handle.to_dict())))
    assert handle == submitted.handle
    assert handle.run_id == status.run_id
    assert is_run_of(handle, status)
    unknown = replace(handle, run_id=None)
    assert is_run_of(unknown, status)
    assert not is_run_of(replace(unknown, pid=os.getpid()), status)
    assert not is_run_of(replace(unknown, host="elsewhere"), status)
    assert not is_run_of(replace(handle, run_id="another"), status)
    assert is_run_of(replace(handle, pid=os.getpid()), status)
    hook.drain(submitted.checkpoint_location, by="a test")
    assert submitted.process.wait(120) == 0
    assert submitted.runs(hook.status(submitted.checkpoint_location))


def test_the_run_of_somebody_else_is_not_taken_for_ours(
    submitting: Submitting, spec: dict[str, Any], tmp_path: Path
) -> None:
    live = LiveCheckpoint(spec["checkpoint_location"])
    spec["conf"] = {"lease_gate": str(tmp_path / "gate")}
    hook = submitting.does(f"{DRIVER}; exit $?", "client")
    submitted = hook.submit(hook.specification(spec))
    live.hold("of somebody else")
    (tmp_path / "gate").touch()

    with pytest.raises(QueryStartError, match=r"(?s)exit code 1.*is held by run of somebody else"):
        hook.wait_until_started(submitted, 120)


@pytest.mark.parametrize(("exit_code", "error"), [(1, QueryStartError), (2, ConfigError)])
def test_a_driver_that_ends_early(
    submitting: Submitting, spec: dict[str, Any], exit_code: int, error: type[Exception]
) -> None:
    """The client passes its driver's exit code on; 2 is the engine's word for what cannot run."""
    hook = submitting.does(f"echo no such topic; exit {exit_code}", "client")
    submitted = hook.submit(hook.specification(spec))

    with pytest.raises(error, match=rf"(?s)ended with exit code {exit_code}.*no such topic"):
        hook.wait_until_started(submitted, 120)


def test_a_client_that_hangs_leaves_no_process(
    submitting: Submitting, spec: dict[str, Any]
) -> None:
    hook = submitting.does("sleep 1000; exit 0", "client")
    submitted = hook.submit(hook.specification(spec))
    wait_for(lambda: len(of_session(submitted.process.pid)) == 2, 120, "the child", 0.05)

    with pytest.raises(QueryStartError, match="hung for 1 s"):
        hook.wait_until_started(submitted, 1)

    # The child is the system's by then, and may be seen for a moment.
    wait_for(lambda: of_session(submitted.process.pid) == [], 120, "the end of the child", 0.05)
    assert submitted.process.returncode == -signal.SIGTERM


def test_a_driver_on_the_cluster_outlives_its_submission(
    submitting: Submitting, spec: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints" / "numbers.logs"
    script = (
        f"cp {folder}/*.spec.json elsewhere.json\nspec=elsewhere.json\n"
        f"setsid {DRIVER} >/dev/null 2>&1 &\nexit 0"
    )
    hook = submitting.does(script, "cluster")
    submitted = hook.submit(hook.specification(spec))
    assert submitted.process.wait(120) == 0

    status = hook.wait_until_started(submitted, 120)

    assert submitted.runs(status)
    assert not submitted.spec_path.exists()
    hook.drain(submitted.checkpoint_location, by="a test")
    wait_for(lambda: hook.find(submitted.checkpoint_location) is None, 120, "the end", 0.05)
    assert hook.status(submitted.checkpoint_location).state is QueryState.STOPPED


def test_a_submission_that_fails(submitting: Submitting, spec: dict[str, Any]) -> None:
    hook = submitting.does("echo the queue is full; exit 2", "cluster")
    submitted = hook.submit(hook.specification(spec))

    with pytest.raises(QueryStartError, match=r"(?s)exit code 2.*the queue is full"):
        hook.wait_until_started(submitted, 120)


def test_an_application_that_does_not_come(submitting: Submitting, spec: dict[str, Any]) -> None:
    hook = submitting.does("echo accepted; exit 0", "cluster")
    submitted = hook.submit(hook.specification(spec))
    assert submitted.process.wait(120) == 0

    with pytest.raises(QueryStartError, match=r"(?s)hung for 1 s.*accepted"):
        hook.wait_until_started(submitted, 1)


def test_the_run_before_is_not_ours(submitting: Submitting, spec: dict[str, Any]) -> None:
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold("before")
    live.end(QueryState.STOPPED)
    hook = submitting.does("exit 0", "cluster")

    submitted = hook.submit(hook.specification(spec))

    assert submitted.process.wait(120) == 0
    assert not submitted.runs(hook.status(spec["checkpoint_location"]))
    submitted.forget_secrets()


def test_the_dag_of_the_documentation(
    submitting: Submitting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, context: Any
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "airflow" / "deploy-modes.md").read_text()
    (code,) = re.findall(r"```python\n(from airflow\.sdk.*?)```", page, re.DOTALL)
    location = str(tmp_path / "numbers")
    defined: dict[str, Any] = {}
    exec(code.replace("{{ var.value.checkpoint }}", location), defined)
    submitting.does(f"{DRIVER}; exit $?", "client")
    submitted = []
    really_submit = ContinuousQueryHook.submit

    def submit(hook: ContinuousQueryHook, *given: Any) -> SubmittedQuery:
        submitted.append(really_submit(hook, *given))
        return submitted[-1]

    monkeypatch.setattr(ContinuousQueryHook, "submit", submit)

    returned = {}
    for task in defined["numbers_on_a_cluster"]().topological_sort():
        task.deferrable = False
        returned[task.task_id] = task.execute(context)

    assert [query.process.wait(120) for query in submitted] == [0]
    assert list(returned) == ["start", "wait", "drain"]
    assert returned["wait"]["epoch"] == 2
    assert returned["drain"]["state"] == "STOPPED"
    assert returned["drain"]["run_id"] == returned["start"]["run_id"]
