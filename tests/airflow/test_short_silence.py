"""A machine that pauses for some seconds: its run looks LOST, comes back, does as it is asked."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import TaskDeferred
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.notifications.query import ContinuousQueryNotifier
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StopContinuousQueryOperator,
)
from airflow_provider_continuous.tasks import killing
from airflow_provider_continuous.tasks.killing import QueryOfTask, TaskIdentity
from airflow_provider_continuous.tasks.users import Users
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.query import (
    QueryEndedTrigger,
    QueryRescaledTrigger,
    QueryRunningTrigger,
)
from airflow_provider_continuous.triggers.supervise import HealthyEpochsTrigger
from engine.checkpoint.process import Process
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

OPERATORS = [(DrainContinuousQueryOperator, "drain"), (StopContinuousQueryOperator, "stop")]
OF_TASK: dict[str, Any] = {"run_id": "run-1", "on_kill_action": "detach"}
WAITS: list[Callable[[str], CheckpointTrigger]] = [
    lambda location: QueryEndedTrigger(location, "run-1"),
    lambda location: QueryRescaledTrigger(location, "run-1", 0),
    lambda location: QueryRunningTrigger(location, **OF_TASK),
    lambda location: HealthyEpochsTrigger(location, after_epoch=0, epochs=1, **OF_TASK),
]
EVERY_WAIT = pytest.mark.parametrize("wait", WAITS, ids=["end", "rescale", "start", "health"])


@pytest.fixture
def paused(live: LiveCheckpoint) -> LiveCheckpoint:
    live.hold("run-1")
    live.commit(0)
    live.lose(silent_s=20)
    assert live.checkpoint.status().state is QueryState.LOST
    return live


def dies(live: LiveCheckpoint) -> None:
    """Make the run that of a process of this machine which has ended."""
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    place = Process.current().started.rpartition("/")[0]
    ticks = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    child.communicate(b"\n")
    lease = Path(live.location) / "control" / "lease"
    told = {"pid": child.pid, "process_started": f"{place}/{ticks}"}
    lease.write_text(json.dumps({**json.loads(lease.read_text()), **told}))


@EVERY_WAIT
def test_it_is_borne(paused: LiveCheckpoint, wait: Any) -> None:
    trigger = wait(paused.location)
    assert trigger.observe() is None

    paused.lose(silent_s=120)
    assert trigger.observe()["state"] == "LOST"


@EVERY_WAIT
def test_a_process_that_has_died_is_over_at_once(paused: LiveCheckpoint, wait: Any) -> None:
    dies(paused)

    assert wait(paused.location).observe()["state"] == "LOST"


@pytest.mark.parametrize(("operator", "asks"), OPERATORS)
def test_it_is_asked_and_awaited(
    paused: LiveCheckpoint, context: Any, operator: Any, asks: str
) -> None:
    task = operator(task_id="end", checkpoint_location=paused.location, deferrable=True)
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    assert paused.checkpoint.requests.pending("run-1") == asks

    paused.end(QueryState.STOPPED)
    event = caught.value.trigger.observe()  # type: ignore[attr-defined]
    assert task.execute_complete(context, event)["state"] == "STOPPED"


@pytest.mark.parametrize(("operator", "asks"), OPERATORS)
def test_it_is_left_to_others(
    paused: LiveCheckpoint, context: Any, monkeypatch: Any, operator: Any, asks: str
) -> None:
    monkeypatch.setattr(Users, "others", lambda _: ["a_dag, another"])
    Users(paused.checkpoint.storage, "a_dag", "a_run").enter()

    task = operator(task_id="end", checkpoint_location=paused.location)
    assert task.execute(context)["left_to"] == ["a_dag, another"]
    assert paused.checkpoint.requests.pending("run-1") is None


def test_a_callback_asks_it(paused: LiveCheckpoint, context: Any) -> None:
    ContinuousQueryNotifier(checkpoint_location=paused.location, ask="stop")(context)

    assert paused.checkpoint.requests.pending("run-1") == "stop"


def test_a_killed_task_asks_it(
    paused: LiveCheckpoint, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killing, "task_state", lambda _: "failed")
    hook, task = CheckpointHook(paused.location), TaskIdentity.of(context["ti"])

    assert QueryOfTask("stop", hook, "run-1", task, logging.getLogger()).end()
    assert paused.checkpoint.requests.pending("run-1") == "stop"


def test_a_run_that_was_replaced_does_not_go_on(paused: LiveCheckpoint) -> None:
    hook = CheckpointHook(paused.location)
    status = hook.status()
    assert hook.may_go_on(status)
    dies(paused)
    paused.hold("run-2")

    assert not hook.may_go_on(status)
