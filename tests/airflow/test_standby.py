"""A task that keeps a standby for its query, with real processes (``stand_in.py``)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.deploy.contract import DriverState
from airflow_provider_continuous.deploy.deployment import Deployment
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.deploy.standbys import STANDBYS, handle_of_run
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    RunContinuousQueryOperator,
    StopContinuousQueryOperator,
)
from airflow_provider_continuous.plugins.driver_logs import log_tail
from airflow_provider_continuous.tasks import killing
from airflow_provider_continuous.tasks.killing import QueryOfTask, TaskIdentity
from airflow_provider_continuous.triggers.supervise import QuerySupervisionTrigger
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import StandingBy, standing_by
from engine.errors import ConfigError
from tests.airflow.supervising import deferred, supervisor, trigger_of
from tests.waiting import wait_until

Run = Callable[..., RunContinuousQueryOperator]


@pytest.fixture
def standbys(
    monkeypatch: pytest.MonkeyPatch, submitted: list[SubmittedQuery]
) -> Iterator[list[SubmittedQuery]]:
    """Every standby that was started; none is left at the end."""
    started: list[SubmittedQuery] = []
    really_submit = Deployment.submit

    def submit(deployment: Deployment, *given: Any) -> SubmittedQuery:
        found = really_submit(deployment, *given)
        if found.own and found.handle.stands_by and found.handle.number == len(started):
            started.append(found)
        return found

    monkeypatch.setattr(Deployment, "submit", submit)
    yield started
    for standby in started:
        standby.process.kill()
        standby.process.wait()


@pytest.fixture
def supervise(standbys: list[SubmittedQuery], spec: dict[str, Any]) -> Run:
    def make(**arguments: Any) -> RunContinuousQueryOperator:
        return supervisor(spec, **{"deferrable": True, "standby": True, **arguments})

    return make


@pytest.fixture
def checkpoint(spec: dict[str, Any]) -> Checkpoint:
    return Checkpoint(spec["checkpoint_location"])


def resumed(
    task: RunContinuousQueryOperator, context: Any, event: dict[str, Any]
) -> QuerySupervisionTrigger:
    with pytest.raises(TaskDeferred) as caught:
        task.supervised(context, event)
    return trigger_of(caught.value)


def one_waits(checkpoint: Checkpoint) -> StandingBy:
    wait_until(lambda: len(standing_by(checkpoint.storage)) == 1, "one standby")
    return standing_by(checkpoint.storage)[0]


def kill(started: SubmittedQuery) -> None:
    started.process.kill()
    started.process.wait()


def test_a_killed_driver_is_followed_by_the_standby(
    supervise: Run,
    submitted: list[SubmittedQuery],
    standbys: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
) -> None:
    before = deferred(supervise(), context)
    waiting = one_waits(checkpoint)
    assert waiting.pid == standbys[0].process.pid
    kill(submitted[0])

    event = before.wait()
    assert event["outcome"] == "replaced"
    assert event["state"] in ("STARTING", "RUNNING"), "it may be seen as soon as it has the lease"
    after = resumed(supervise(), context, event)

    status = checkpoint.status()
    assert (status.run_id, status.pid) == (after.run_id, standbys[0].process.pid)
    assert len(submitted) == 1, "the task has restarted nothing"
    assert one_waits(checkpoint).pid == standbys[1].process.pid
    handle = handle_of_run(checkpoint.storage, status)
    assert handle is not None
    assert (handle.run_id, handle.stands_by) == (status.run_id, True)
    told = log_tail(checkpoint)
    assert told is not None
    assert told["path"] == str(standbys[0].log_path), "the page shows who runs it"
    assert after.log_path == str(standbys[0].log_path)
    epochs = checkpoint.epochs()
    assert epochs == list(range(epochs[0], epochs[-1] + 1))
    assert "restarts" in supervise()._result(context, checkpoint.url, event, "ended")


def test_it_stays_in_a_worker_as_well(
    supervise: Run,
    submitted: list[SubmittedQuery],
    standbys: list[SubmittedQuery],
    spec: dict[str, Any],
    checkpoint: Checkpoint,
    tmp_path: Path,
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver dies at the gate, which the standby's takeover opens."""
    spec["conf"] = {"gate": str(tmp_path / "gate")}
    look = QuerySupervisionTrigger.look

    def looks(trigger: QuerySupervisionTrigger) -> Any:
        if submitted[0].process.poll() is None and standing_by(checkpoint.storage):
            kill(submitted[0])
            (tmp_path / "gate").touch()
        return look(trigger)

    monkeypatch.setattr(QuerySupervisionTrigger, "look", looks)

    result = supervise(deferrable=False, until_epoch=10).execute(context)

    assert (result["reason"], result["state"], result["restarts"]) == ("epoch", "STOPPED", 0)
    assert len(submitted) == 1
    for each in standbys:
        assert each.process.wait(120) is not None
    assert standing_by(checkpoint.storage) == []


@pytest.mark.parametrize("attempt", ["retry", "clear", "another DAG run"])
def test_who_comes_later_starts_no_second_one(
    supervise: Run,
    standbys: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
    attempt: str,
) -> None:
    deferred(supervise(), context)
    one_waits(checkpoint)
    if attempt == "another DAG run":
        context["ti"].run_id = "later"
    else:
        context["ti"].try_number, context["ti"].max_tries = 2, 3 if attempt == "clear" else 1

    deferred(supervise(), context)

    assert len(standbys) == 1
    assert len(standing_by(checkpoint.storage)) == 1


def test_one_that_is_on_its_way_is_not_doubled(
    supervise: Run,
    standbys: list[SubmittedQuery],
    spec: dict[str, Any],
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker that has started it died before it waited."""
    monkeypatch.setattr("airflow_provider_continuous.hooks.query.goes_on", lambda _: False)
    deferred(supervise(), context)
    context["ti"].try_number = 2

    deferred(supervise(), context)

    notes = Notes(Checkpoint(spec["checkpoint_location"]).storage, STANDBYS)
    assert [each.number for each in notes.all()] == [0]
    assert len(standbys) == 1


def test_a_standby_that_dies_is_replaced(
    supervise: Run,
    submitted: list[SubmittedQuery],
    standbys: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
) -> None:
    trigger = deferred(supervise(), context)
    one_waits(checkpoint)
    trigger.standby_due = 0.0
    assert trigger.look() is None, "one waits"
    kill(standbys[0])
    trigger._standby_seen_s = 0.0

    event = trigger.wait()
    assert event["outcome"] == "alone"
    after = resumed(supervise(), context, event)

    assert after.run_id == trigger.run_id
    assert one_waits(checkpoint).pid == standbys[1].process.pid
    assert submitted[0].look().state is DriverState.RUNNING


def test_a_machine_without_room_for_a_standby_fails_no_task(
    supervise: Run,
    submitted: list[SubmittedQuery],
    standbys: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trigger = deferred(supervise(), context)
    one_waits(checkpoint)
    logs = submitted[0].log_path.parent
    logs.rename(logs.with_name("elsewhere"))
    logs.touch()
    kill(standbys[0])
    trigger.standby_due = 0.0

    after = resumed(supervise(), context, trigger.wait())

    assert after.run_id == trigger.run_id
    assert after.log_position == trigger.log_position, "no line of the log is shown twice"
    assert after.standby_due is not None, "it is tried again"
    assert "has no standby" in capsys.readouterr().out
    assert submitted[0].look().state is DriverState.RUNNING


@pytest.mark.parametrize("end", [DrainContinuousQueryOperator, StopContinuousQueryOperator])
def test_who_ends_the_query_ends_its_standby(
    supervise: Run,
    submitted: list[SubmittedQuery],
    standbys: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
    end: Any,
) -> None:
    deferred(supervise(), context)
    one_waits(checkpoint)

    end(
        task_id="end", checkpoint_location=checkpoint.url, deferrable=False, poll_interval=0.05
    ).execute(context)

    assert standbys[0].process.wait(120) == 0
    assert checkpoint.status().run_id == handle_run(submitted[0])
    assert standing_by(checkpoint.storage) == []


def handle_run(started: SubmittedQuery) -> str | None:
    return started.handle.run_id


@pytest.mark.parametrize("at_end", ["drain", "stop", "detach"])
def test_the_end_of_the_task(
    supervise: Run,
    standbys: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
    at_end: Any,
) -> None:
    result = supervise(deferrable=False, until_epoch=3, at_end=at_end).execute(context)

    assert result["reason"] == "epoch"
    if at_end == "detach":
        assert one_waits(checkpoint).pid == standbys[0].process.pid
        return
    assert standbys[0].process.wait(120) is not None
    assert checkpoint.status().state is QueryState.STOPPED


def test_a_query_that_drains_while_its_standby_comes_is_not_begun_again(
    supervise: Run,
    submitted: list[SubmittedQuery],
    standbys: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
) -> None:
    deferred(supervise(), context)
    os.kill(standbys[0].process.pid, signal.SIGSTOP)
    checkpoint.requests.ask("drain", by="a test")
    submitted[0].process.wait(120)
    os.kill(standbys[0].process.pid, signal.SIGCONT)

    assert standbys[0].process.wait(120) == 0
    assert checkpoint.status().run_id == submitted[0].handle.run_id


@pytest.mark.parametrize("moment", ["it runs", "it is lost", "the standby runs"])
def test_a_killed_task_ends_both(
    supervise: Run,
    submitted: list[SubmittedQuery],
    standbys: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    monkeypatch.setattr(killing, "task_state", lambda _: "failed")
    monkeypatch.setattr(killing.Users, "others", lambda _: [])
    trigger = deferred(supervise(), context)
    one_waits(checkpoint)
    if moment == "it is lost":
        os.kill(standbys[0].process.pid, signal.SIGSTOP)
    if moment != "it runs":
        kill(submitted[0])
    if moment == "the standby runs":
        wait_until(lambda: checkpoint.status().pid == standbys[0].process.pid, "the takeover")

    task = TaskIdentity.of(context["ti"])
    hook = CheckpointHook(checkpoint.url)
    assert QueryOfTask("drain", hook, str(trigger.run_id), task, trigger.log).end()

    os.kill(standbys[0].process.pid, signal.SIGCONT)
    assert standbys[0].process.wait(120) == 0
    if moment == "it runs":
        submitted[0].process.wait(120)
    assert not checkpoint.status().state.is_active


def test_somebody_elses_run_is_left_alone_by_a_killed_task(
    supervise: Run,
    standbys: list[SubmittedQuery],
    submitted: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(killing, "task_state", lambda _: "failed")
    trigger = deferred(supervise(), context)
    one_waits(checkpoint)
    kill(submitted[0])
    wait_until(lambda: checkpoint.status().pid == standbys[0].process.pid, "the takeover")
    another = TaskIdentity("another_dag", "a run", "another task")

    hook = CheckpointHook(checkpoint.url)
    assert not QueryOfTask("drain", hook, str(trigger.run_id), another, trigger.log).end()


def test_a_query_of_another_document_gets_no_standby(
    supervise: Run,
    standbys: list[SubmittedQuery],
    spec: dict[str, Any],
    context: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A standby of the old one would take an upgrade back when it takes over."""
    ContinuousQueryHook().wait_until_started(ContinuousQueryHook().submit(spec))

    trigger = deferred(
        supervise(spec={**spec, "sql": "SELECT 1 AS another FROM source"}, on_changed="adopt"),
        context,
    )

    assert trigger.standby_due is None
    assert standbys == []
    assert "gets no standby of this task" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["cluster", "client"])
def test_a_driver_on_a_cluster_can_have_none(
    supervise: Run,
    submitted: list[SubmittedQuery],
    standbys: list[SubmittedQuery],
    connection: Callable[..., None],
    mode: str,
) -> None:
    extra = {"deploy-mode": "spark-submit", "spark-conn-id": "spark_main"}
    connection("continuous_default", "continuous", extra=extra)
    connection("spark_main", "spark", host="yarn", extra={"deploy-mode": mode})
    hook = ContinuousQueryHook()
    if mode == "client":
        hook.check_standby()
        return
    with pytest.raises(ConfigError, match=r"standby=True.*cluster.*client mode"):
        hook.check_standby()


def test_nothing_is_started_where_there_can_be_none(
    supervise: Run,
    submitted: list[SubmittedQuery],
    connection: Callable[..., None],
    context: Any,
) -> None:
    extra = {"deploy-mode": "spark-submit", "spark-conn-id": "spark_main"}
    connection("continuous_default", "continuous", extra=extra)
    connection("spark_main", "spark", host="yarn", extra={"deploy-mode": "cluster"})

    with pytest.raises(AirflowFailException, match="standby=True"):
        supervise().execute(context)

    assert submitted == []


def test_standby_is_a_choice_of_two(supervise: Run) -> None:
    with pytest.raises(ValueError, match="standby is 'False'; it is True or False"):
        supervise(standby="False")
