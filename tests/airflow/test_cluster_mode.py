"""Drivers on YARN while spark-submit submits them: the id is told before YARN knows it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.contract import DriverState, Handle
from airflow_provider_continuous.deploy.managers.yarn import Yarn
from airflow_provider_continuous.deploy.options import SubmitOptions
from airflow_provider_continuous.deploy.spark_submit import ClusterMode
from engine.checkpoint.process import Process
from tests.airflow.manager_stand_in import StandIn, standing_in

APPLICATION = "application_1700000000000_0007"
APP = f"/ws/v1/cluster/apps/{APPLICATION}"


@pytest.fixture
def server() -> Iterator[StandIn]:
    with standing_in() as server:
        yield server


def mode(server: StandIn) -> ClusterMode:
    cluster: Any = SimpleNamespace(manager="yarn")
    return ClusterMode(cluster, SubmitOptions(), Yarn(server.address))


def submitting(tmp_path: Path, script: str) -> Handle:
    """A submission whose spark-submit is this script."""
    log = tmp_path / "query.log"
    log.write_text(f"INFO Client: Uploading ... .sparkStaging/{APPLICATION}/query.spec.json\n")
    here = Process.current()
    handle = Handle("yarn", "continuous-abc", 3, log=str(log), host=here.host)
    return processes.start(["sh", "-c", script], handle, {"PATH": os.environ["PATH"]})


def ended(handle: Handle) -> None:
    own = processes.child(handle)
    assert own is not None
    own.wait(60)


def test_an_application_that_is_uploaded_is_on_its_way(server: StandIn, tmp_path: Path) -> None:
    server.answers[APP] = 404
    backend = mode(server)
    handle = submitting(tmp_path, "exec sleep 600")
    try:
        handle = backend.find(handle)
        assert handle.driver_id == APPLICATION
        assert backend.status(handle).state is DriverState.STARTING
    finally:
        assert handle.pid is not None
        os.kill(handle.pid, signal.SIGKILL)
        ended(handle)
    assert backend.status(handle).state is DriverState.ENDED


@pytest.mark.parametrize(
    ("answer", "expected"), [("ACCEPTED", DriverState.STARTING), (404, DriverState.ENDED)]
)
def test_yarn_tells_what_became_of_a_submission_that_failed(
    server: StandIn, tmp_path: Path, answer: Any, expected: DriverState
) -> None:
    """spark-submit may end with an error behind a submission that has come through."""
    told = {"app": {"state": answer, "finalStatus": "UNDEFINED"}}
    server.answers[APP] = told if isinstance(answer, str) else answer
    backend = mode(server)
    handle = submitting(tmp_path, "exit 3")
    ended(handle)
    status = backend.status(backend.find(handle))
    assert status.state is expected
    assert status.exit_code == (3 if expected is DriverState.ENDED else None)


@pytest.mark.parametrize(
    ("age_s", "expected"), [(0, DriverState.UNKNOWN), (3600, DriverState.ENDED)]
)
def test_of_another_machines_submission_nothing_is_presumed_for_a_time(
    server: StandIn, tmp_path: Path, age_s: float, expected: DriverState
) -> None:
    server.answers[APP] = 404
    handle = submitting(tmp_path, "exit 0")
    ended(handle)
    elsewhere = replace(
        handle, host="another", driver_id=APPLICATION, submitted_at=time.time() - age_s
    )
    assert mode(server).status(elsewhere).state is expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(503, DriverState.UNKNOWN), (401, DriverState.ENDED), (403, DriverState.ENDED)],
)
def test_yarn_may_not_answer_as_a_submission_fails(
    server: StandIn, tmp_path: Path, answer: int, expected: DriverState
) -> None:
    """Away for a time, it may have an application that comes to run. Whom it never answers has but
    the exit code."""
    server.answers[APP] = answer
    backend = mode(server)
    handle = submitting(tmp_path, "exit 3")
    ended(handle)

    assert backend.status(backend.find(handle)).state is expected

    server.answers[APP] = {"app": {"state": "ACCEPTED", "finalStatus": "UNDEFINED"}}
    assert backend.status(backend.find(handle)).state is DriverState.STARTING


def test_without_an_address_the_exit_code_tells(tmp_path: Path) -> None:
    cluster: Any = SimpleNamespace(manager="yarn")
    backend = ClusterMode(cluster, SubmitOptions(), Yarn(None))
    handle = submitting(tmp_path, "exit 3")
    ended(handle)

    assert backend.status(backend.find(handle)).state is DriverState.ENDED


def test_who_is_stopped_before_there_is_an_application_was_asked(
    server: StandIn, tmp_path: Path
) -> None:
    server.answers[APP] = 404
    backend = mode(server)
    handle = backend.find(submitting(tmp_path, "exec sleep 600"))

    assert backend.kill(handle)

    ended(handle)
    assert backend.status(handle).state is DriverState.ENDED


def test_an_application_that_was_killed_is_over_whoever_still_submits(
    server: StandIn, tmp_path: Path
) -> None:
    """Its submitter had no time to note the process."""
    server.answers[APP] = {"app": {"state": "KILLED", "finalStatus": "KILLED"}}
    here = Process.current()
    handle = Handle(
        "yarn", "continuous-abc", 3, host=here.host, submitter=(here.pid, here.started),
        driver_id=APPLICATION,
    )  # fmt: skip
    assert mode(server).status(handle).state is DriverState.ENDED
