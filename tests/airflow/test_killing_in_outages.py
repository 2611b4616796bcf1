"""A killed task whose cluster, or storage, is away just then; and a kill that hangs."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_continuous.deploy.contract import (
    Backend,
    DriverState,
    DriverStatus,
    Handle,
)
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.tasks import killing
from airflow_provider_continuous.tasks.killing import (
    QueryOfTask,
    StartOfTask,
    TaskIdentity,
    insist,
)
from airflow_provider_continuous.triggers.supervise import QuerySupervisionTrigger
from engine.errors import CheckpointError
from tests.airflow.conftest import Says
from tests.airflow.live_checkpoint import LiveCheckpoint

TASK = TaskIdentity("a_dag", "a_run", "a_task")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killing, "AGAIN_S", 0.01)


def cluster_submission(answers: list[Any]) -> Any:
    """One whose cluster answers so, one after the other: whether it was asked to end, and else
    what is told of the driver."""

    class Cluster(Backend):
        name = "yarn"

        def submit(self, submission: Any, handle: Handle) -> Handle:
            raise NotImplementedError

        def find(self, handle: Handle) -> Handle:
            return handle

        def kill(self, handle: Handle, *, hard: bool = False) -> bool:
            return answers.pop(0) is True

        def status(self, handle: Handle) -> DriverStatus:
            told: DriverStatus = answers.pop(0)
            return told

    return SubmittedQuery("a-checkpoint", Handle("yarn", "x", 0), Cluster(), lambda _: None)


AWAY = DriverStatus(DriverState.UNKNOWN, "it does not answer")


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        ([False, AWAY, False, AWAY, True], True),
        ([False, AWAY, False, DriverStatus(DriverState.ENDED, "KILLED")], False),
        ([False, DriverStatus(DriverState.UNKNOWN, "it never tells", seen=False)], False),
    ],
)
def test_a_cluster_that_is_away_is_asked_again(
    live: LiveCheckpoint,
    airflow_says: Says,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[Any],
    ends: bool,
) -> None:
    airflow_says("failed")
    hook, ended = CheckpointHook(live.location), list[bool]()

    start = StartOfTask("stop", hook, cluster_submission(answers), TASK, logging.getLogger())

    insist(lambda: ended.append(start.end()), logging.getLogger())

    assert ended == [ends]
    assert answers == []


def test_a_task_that_is_cleared_meanwhile_keeps_its_submission(
    live: LiveCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = ["failed", "scheduled"]
    monkeypatch.setattr(killing, "task_state", lambda _: states.pop(0))
    answers = [False, AWAY, True]
    hook, ended = CheckpointHook(live.location), list[bool]()

    start = StartOfTask("stop", hook, cluster_submission(answers), TASK, logging.getLogger())

    insist(lambda: ended.append(start.end()), logging.getLogger())

    assert ended == [False]
    assert answers == [True], "the next attempt waits for it"


def test_storage_that_is_away_is_asked_again(
    live: LiveCheckpoint, airflow_says: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.hold("run-1")
    airflow_says("failed")
    status, away = CheckpointHook.status, [1, 2]

    def answers(hook: CheckpointHook) -> Any:
        if away:
            away.pop()
            raise CheckpointError("the storage is away")
        return status(hook)

    monkeypatch.setattr(CheckpointHook, "status", answers)
    query = QueryOfTask("drain", CheckpointHook(live.location), "run-1", TASK, logging.getLogger())

    insist(query.end, logging.getLogger())

    assert live.checkpoint.requests.pending("run-1") == "drain"


def test_a_kill_that_hangs_holds_no_thread_of_the_triggerer(
    live: LiveCheckpoint, airflow_says: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the pool's, which serves other storage all the same."""
    live.hold("run-1")
    airflow_says("failed")
    monkeypatch.setattr("airflow_provider_continuous.triggers.kill.ON_KILL_S", 0.1)
    hangs, answer = threading.Event(), threading.Event()
    threads: list[str] = []

    def ends(*_: Any) -> bool:
        threads.append(threading.current_thread().name)
        hangs.set()
        return answer.wait(120)

    monkeypatch.setattr(QueryOfTask, "end", ends)
    trigger = QuerySupervisionTrigger(
        live.location, run_id="run-1", on_kill_action="drain", poll_interval_s=0.01
    )
    trigger.task_instance = SimpleNamespace(  # type: ignore[assignment]
        dag_id="a_dag", run_id="a_run", task_id="a_task", map_index=2, try_number=1
    )
    trigger._looked_at = time.time()
    try:
        asyncio.run(trigger.on_kill())
        assert hangs.wait(120)
        assert threads == ["continuous-look"]
    finally:
        answer.set()
