"""RunContinuousQueryOperator, with real processes (``stand_in.py``)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.errors import QueryEndedError, QueryFailedError
from airflow_provider_continuous.operators.query import (
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.triggers.supervise import QuerySupervisionTrigger
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.supervising import deferred, supervisor
from tests.waiting import wait_until

Run = Callable[..., RunContinuousQueryOperator]
NONE = "{{ none }}"
"""A template that a DAG of native objects renders to None."""


@pytest.fixture
def supervise(submitted: list[SubmittedQuery], spec: dict[str, Any]) -> Run:
    def make(**arguments: Any) -> RunContinuousQueryOperator:
        return supervisor(spec, **{"deferrable": False, **arguments})

    return make


def checkpoint_of(spec: dict[str, Any]) -> Checkpoint:
    return Checkpoint(spec["checkpoint_location"])


@pytest.mark.parametrize(
    ("at_end", "state"), [("drain", "STOPPED"), ("stop", "STOPPED"), ("detach", "RUNNING")]
)
def test_until_an_epoch(
    supervise: Run,
    submitted: list[SubmittedQuery],
    spec: dict[str, Any],
    context: Any,
    at_end: Any,
    state: str,
) -> None:
    result = supervise(until_epoch="3", at_end=at_end).execute(context)

    assert (result["reason"], result["state"], result["restarts"]) == ("epoch", state, 0)
    assert result["epoch"] >= 3
    assert result["run_id"] == checkpoint_of(spec).status().run_id
    assert checkpoint_of(spec).status().state.value == state
    assert len(submitted) == 1


@pytest.mark.parametrize(
    "end",
    [
        {"run_for": 0.3},
        {"run_for": timedelta(milliseconds=300), "until": "2099-01-01T00:00:00Z"},
        {"until": "2026-01-01 00:00:00+00:00"},
        {"until": datetime.now(timezone.utc)},
    ],
)
def test_until_a_time(supervise: Run, context: Any, end: dict[str, Any]) -> None:
    result = supervise(**end).execute(context)

    assert (result["reason"], result["state"]) == ("time", "STOPPED")


def test_run_for_counts_from_the_first_attempt(supervise: Run, context: Any) -> None:
    first = deferred(supervise(run_for=3600, deferrable=True), context)
    context["ti"].try_number = 2

    second = deferred(supervise(run_for=3600, deferrable=True), context)

    assert first.deadline == second.deadline


def test_a_retry_adopts(supervise: Run, submitted: list[SubmittedQuery], context: Any) -> None:
    first = deferred(supervise(deferrable=True), context)
    context["ti"].try_number = 2

    second = deferred(supervise(deferrable=True), context)

    assert first.run_id == second.run_id
    assert len(submitted) == 1


def test_a_cleared_task_adopts(
    supervise: Run, submitted: list[SubmittedQuery], context: Any
) -> None:
    first = deferred(supervise(deferrable=True), context)
    context["ti"].try_number, context["ti"].max_tries = 2, 3

    assert deferred(supervise(deferrable=True), context).run_id == first.run_id
    assert len(submitted) == 1


def test_a_killed_query_is_started_again(
    supervise: Run, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    task = supervise(deferrable=True)
    before = deferred(task, context)
    submitted[0].process.kill()
    submitted[0].process.wait()
    event = before.wait()
    assert (event["outcome"], event["state"]) == ("ended", "LOST")

    with pytest.raises(TaskDeferred) as caught:
        supervise(deferrable=True).supervised(context, event)

    after = caught.value.trigger
    assert isinstance(after, QuerySupervisionTrigger)
    assert after.run_id != before.run_id
    assert len(submitted) == 2
    status = checkpoint_of(spec).status()
    assert (status.run_id, status.pid) == (after.run_id, submitted[1].process.pid)


@pytest.mark.parametrize("dies", ["before", "behind"])
def test_a_detached_query_is_looked_after_by_the_next_run(
    supervise: Run,
    submitted: list[SubmittedQuery],
    spec: dict[str, Any],
    context: Any,
    capsys: pytest.CaptureFixture[str],
    dies: str,
) -> None:
    first = supervise(until_epoch=1, at_end="detach").execute(context)
    other = {**context, "task_state_store": type(context["task_state_store"])()}

    def kill() -> None:
        submitted[0].process.kill()
        submitted[0].process.wait()

    if dies == "before":
        kill()
    trigger = deferred(supervise(deferrable=True), other)
    assert (trigger.run_id != first["run_id"]) is (dies == "before")
    assert trigger.log_path == submitted[-1].handle.log
    if dies == "behind":
        checkpoint = checkpoint_of(spec)
        epoch = checkpoint.committed_epoch() + 2
        wait_until(lambda: checkpoint.committed_epoch() > epoch, "further epochs")
        capsys.readouterr()
        kill()
        with pytest.raises(TaskDeferred):
            supervise(deferrable=True).supervised(other, trigger.wait())
        assert f"committed {epoch} " in capsys.readouterr().out
    assert len(submitted) == 2


def test_somebody_else_was_faster(
    supervise: Run, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    """The query died, and before the task is resumed it runs again."""
    before = deferred(supervise(deferrable=True), context)
    submitted[0].process.kill()
    submitted[0].process.wait()
    event = before.wait()
    other = {**context, "task_state_store": type(context["task_state_store"])()}
    by_other = StartContinuousQueryOperator(
        task_id="start", spec=spec, deferrable=False, poll_interval=0.05
    ).execute(other)

    with pytest.raises(TaskDeferred) as caught:
        supervise(deferrable=True).supervised(context, event)

    assert caught.value.trigger.run_id == by_other["run_id"]
    assert len(submitted) == 2


def test_a_query_that_always_dies_fails_the_task_with_its_error(
    supervise: Run, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    spec["conf"] = {"stand_in": "fail"}

    with pytest.raises(
        QueryFailedError, match=r"(?s)FAILED .*after 2 restarts.*the sink is full.*its log"
    ):
        supervise(restarts=2).execute(context)

    assert len(submitted) == 3
    assert [query.process.wait() for query in submitted] == [2, 2, 2]


def test_no_restarts(
    supervise: Run, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    spec["conf"] = {"stand_in": "fail"}

    with pytest.raises(QueryFailedError, match="after 0 restarts"):
        supervise(restarts=0).execute(context)

    assert len(submitted) == 1


def test_restarts_are_counted_through_retries(
    supervise: Run, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    spec["conf"] = {"stand_in": "fail"}
    for _ in range(2):
        with pytest.raises(QueryFailedError, match="after 1 restart by"):
            supervise(restarts=1).execute(context)
        context["ti"].try_number = 2

    assert len(submitted) == 3


def test_a_query_that_somebody_drains_is_a_success(
    supervise: Run, spec: dict[str, Any], context: Any
) -> None:
    trigger = deferred(supervise(deferrable=True), context)
    checkpoint_of(spec).requests.ask("drain", by="a test", run_id=trigger.run_id)

    result = supervise().supervised(context, trigger.wait())

    assert (result["reason"], result["state"]) == ("ended", "STOPPED")


def test_a_restart_by_another_task_is_adopted(
    supervise: Run, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    trigger = deferred(supervise(deferrable=True, takeover_grace=60), context)
    checkpoint_of(spec).requests.ask("drain", by="a test", run_id=trigger.run_id)
    submitted[0].process.wait()
    assert trigger.observe() is None, "somebody may start it again"
    other = {**context, "task_state_store": type(context["task_state_store"])()}
    by_other = StartContinuousQueryOperator(
        task_id="start", spec=spec, deferrable=False, poll_interval=0.05
    ).execute(other)

    event = trigger.observe()

    assert event is not None
    assert (event["outcome"], event["run_id"]) == ("replaced", by_other["run_id"])
    with pytest.raises(TaskDeferred) as caught:
        supervise(deferrable=True).supervised(context, event)
    assert caught.value.trigger.run_id == by_other["run_id"]
    assert len(submitted) == 2


def test_the_pause_before_a_restart_doubles(
    supervise: Run, spec: dict[str, Any], context: Any
) -> None:
    spec["conf"] = {"stand_in": "fail"}
    options = {"deferrable": True, "restart_delay": 20.0, "restart_delay_max": 30.0}
    first = deferred(supervise(**options), context)
    first.restart_delay_s = 0.0

    with pytest.raises(TaskDeferred) as caught:
        supervise(**options).supervised(context, first.wait())

    assert caught.value.trigger.restart_delay_s == 30.0


def test_a_query_that_fails_while_it_drains_at_the_end(
    supervise: Run, spec: dict[str, Any], context: Any
) -> None:
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold()
    live.commit(0)

    def drains() -> None:
        wait_until(lambda: live.checkpoint.requests.pending("run-1") == "drain", "the request", 120)
        live.end(QueryState.FAILED, "the sink is full")

    query = threading.Thread(target=drains)
    query.start()

    with pytest.raises(QueryEndedError, match="came to its end, and is FAILED at epoch 0: the"):
        supervise(until_epoch=0).execute(context)

    query.join()
    assert live.checkpoint.requests.pending("run-1") == "drain"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"until": "tomorrow"}, "until is 'tomorrow', and not a time"),
        ({"until": "2026-01-01T00:00:00"}, "not a time with its zone"),
        ({"until_epoch": "x"}, "until_epoch is 'x'"),
        ({"until_epoch": NONE}, "until_epoch is None"),
        ({"until": NONE}, "until is None"),
    ],
)
def test_bad_input_fails_before_anything_starts(
    supervise: Run,
    submitted: list[SubmittedQuery],
    context: Any,
    arguments: dict[str, Any],
    problem: str,
) -> None:
    task = supervise(**arguments)
    for name, value in arguments.items():
        setattr(task, name, None if value == NONE else value)

    with pytest.raises(AirflowFailException, match=problem):
        task.execute(context)

    assert submitted == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"at_end": "leave"}, "at_end is 'leave'"),
        ({"on_kill_action": "leave"}, "on_kill_action is 'leave'"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RunContinuousQueryOperator(task_id="run", spec={}, **arguments)


def test_the_deadline_does_not_move(supervise: Run, context: Any) -> None:
    task = supervise(run_for=1000, deferrable=True)

    trigger = deferred(task, context)

    assert trigger.deadline is not None
    assert trigger.deadline <= time.time() + 1000
