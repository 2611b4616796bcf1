"""An application that waits in a queue of YARN: one, and killed with its task. spark-submit is a
script, the ResourceManager a stand-in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import StartContinuousQueryOperator
from airflow_provider_continuous.tasks import killing
from scripts.local_airflow.rest import wait_for
from tests.airflow.manager_stand_in import StandIn, standing_in

APPLICATION = "application_1700000000000_0007"
APP = f"/ws/v1/cluster/apps/{APPLICATION}"
KILLED = ("PUT", f"{APP}/state", {"state": "KILLED"})


@pytest.fixture
def manager() -> Iterator[StandIn]:
    with standing_in() as server:

        def app(_: Any) -> Any:
            state = "KILLED" if KILLED in server.asked else "ACCEPTED"
            return {"app": {"id": APPLICATION, "state": state}}

        server.answers = {APP: app, f"{APP}/state": {"state": "KILLED"}}
        yield server


@pytest.fixture
def submissions(
    manager: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    connection: Callable[..., None],
) -> Path:
    """A line for each time that spark-submit was executed."""
    told, program = tmp_path / "told", tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {told}\necho "Submitted application {APPLICATION}"\n'
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    connection("continuous_default", "continuous", extra={"deploy-mode": "spark-submit"})
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": manager.address}
    connection("spark_default", "spark", host="yarn", extra=extra)
    return told


def accepted(submitted: SubmittedQuery) -> bool:
    status = submitted.look()
    assert status.state is DriverState.STARTING, status
    return "is ACCEPTED" in status.detail


def test_a_queued_application_is_submitted_once(submissions: Path, spec: dict[str, Any]) -> None:
    hook = ContinuousQueryHook()
    for _ in range(3):
        attempt = hook.submit(hook.specification(spec), "a_dag.start, a_run")
        wait_for(lambda attempt=attempt: accepted(attempt), 120, "the application", 0.05)

    assert attempt.handle.driver_id == APPLICATION
    assert len(submissions.read_text().splitlines()) == 1


def test_who_uploads_it_is_not_left_alone(
    submissions: Path, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id is told before its files are read; the worker's pod may end with the task."""
    program = submissions.parent / "bin" / "spark-submit"
    told, gate = submissions.parent / "read", submissions.parent / "gate"
    program.write_text(
        f"#!/bin/sh\necho 'Uploading .sparkStaging/{APPLICATION}/__spark_libs__.zip'\n"
        f"until test -e {gate}; do sleep 0.05; done\n"
        f'while test "$1" != --files; do shift; done\ncat "$2" > {told}\n'
    )
    hook = ContinuousQueryHook()
    submitted = hook.submit(hook.specification(spec))
    looks: list[bool] = []
    look = SubmittedQuery.look

    def opens_later(self: SubmittedQuery) -> Any:
        looks.append(self.spec_path.exists())
        if len(looks) == 3:
            gate.touch()
        return look(self)

    monkeypatch.setattr(SubmittedQuery, "look", opens_later)

    try:
        assert hook.started_within(submitted, 120, 0) is None
    finally:
        gate.touch()
        ended = submitted.process.wait(120)

    assert ended == 0
    assert json.loads(told.read_text())["name"] == spec["name"]
    assert all(looks)
    assert not submitted.spec_path.exists()


def test_the_submission_ends_while_it_is_looked_at(
    submissions: Path, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id was not there yet when it was looked for."""
    program, gate = submissions.parent / "bin" / "spark-submit", submissions.parent / "gate"
    program.write_text(
        f"#!/bin/sh\nuntil test -e {gate}; do sleep 0.05; done\n"
        f'echo "Submitted application {APPLICATION}"\n'
    )
    hook = ContinuousQueryHook()
    submitted = hook.submit(hook.specification(spec))
    asked = processes.status

    def ends_first(handle: Any) -> Any:
        gate.touch()
        submitted.process.wait(120)
        return asked(handle)

    monkeypatch.setattr(processes, "status", ends_first)
    try:
        assert accepted(submitted)
    finally:
        gate.touch()
        submitted.process.wait(120)


def test_a_start_that_is_too_late_takes_it_back(
    submissions: Path, manager: StandIn, spec: dict[str, Any]
) -> None:
    hook = ContinuousQueryHook()
    submitted = hook.submit(hook.specification(spec))
    wait_for(lambda: accepted(submitted), 120, "the application", 0.05)

    with pytest.raises(QueryStartError, match=r"hung for 0 s .*ACCEPTED"):
        hook.wait_until_started(submitted, 0)

    assert KILLED in manager.asked
    assert hook.on_its_way(spec["checkpoint_location"]) is None


@pytest.mark.parametrize(("state", "ends"), [("failed", True), ("running", False)])
def test_it_is_killed_with_its_task(
    submissions: Path,
    manager: StandIn,
    spec: dict[str, Any],
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    ends: bool,
) -> None:
    monkeypatch.setattr(killing, "task_state", lambda _: state)
    task = StartContinuousQueryOperator(task_id="start", spec=spec, on_kill_action="stop")

    def marked(hook: ContinuousQueryHook, submitted: SubmittedQuery, *_: float) -> Any:
        wait_for(lambda: accepted(submitted), 120, "the application", 0.05)
        task.on_kill()
        raise KeyboardInterrupt

    monkeypatch.setattr(ContinuousQueryHook, "started_within", marked)

    with pytest.raises(KeyboardInterrupt):
        task.execute(context)

    assert (KILLED in manager.asked) is ends
