"""StartContinuousQueryOperator, with real processes (``stand_in.py``)."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.execution_time.task_runner import set_current_context

from airflow_provider_continuous import deferral
from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.deferral import by_default
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery
from airflow_provider_continuous.errors import QueryFailedError, WaitTimeoutError
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.epoch import EpochCommittedTrigger
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.waiting import wait_until

Start = Callable[..., StartContinuousQueryOperator]


@pytest.fixture
def start(submitted: list[SubmittedQuery], spec: dict[str, Any]) -> Start:
    def make(**arguments: Any) -> StartContinuousQueryOperator:
        given = {"task_id": "start", "deferrable": False, "poll_interval": 0.05, "timeout": 120}
        if "query" not in arguments:
            given["spec"] = spec
        return StartContinuousQueryOperator(**{**given, **arguments})

    return make


def deferred(task: StartContinuousQueryOperator, context: Any) -> CheckpointTrigger:
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    trigger = caught.value.trigger
    assert isinstance(trigger, CheckpointTrigger)
    return trigger


def test_it_starts_a_query(
    start: Start, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    result = start().execute(context)

    status = Checkpoint(spec["checkpoint_location"]).status()
    assert status.state is QueryState.RUNNING
    assert result["query_id"] == status.id
    assert result["run_id"] == status.run_id
    assert result["checkpoint_location"] == spec["checkpoint_location"]
    assert isinstance(result["epoch"], int)
    assert len(submitted) == 1
    told = {"checkpoint_location": spec["checkpoint_location"]}
    assert context["ti"].pushed == {"continuous_query": told}


def test_it_waits_for_an_epoch(start: Start, context: Any) -> None:
    assert start(wait_for="3").execute(context)["epoch"] >= 3


def test_it_waits_in_the_triggerer_once_the_query_has_started(
    start: Start, spec: dict[str, Any], context: Any
) -> None:
    task = start(wait_for=5, deferrable=True)

    trigger = deferred(task, context)

    assert isinstance(trigger, EpochCommittedTrigger)
    assert trigger.deadline is not None
    assert Checkpoint(spec["checkpoint_location"]).status().state.is_active
    assert task.execute_complete(context, trigger.wait())["epoch"] >= 5


@pytest.mark.parametrize("on_running", ["adopt", "fail", "replace"])
def test_a_retry_adopts_what_the_attempt_before_has_started(
    start: Start, submitted: list[SubmittedQuery], context: Any, on_running: str
) -> None:
    first = start(on_running=on_running).execute(context)
    context["ti"].try_number = 2

    second = start(on_running=on_running).execute(context)

    assert second["run_id"] == first["run_id"]
    assert len(submitted) == 1


def another_dag_run(context: Any) -> Any[str, Any]:
    return {**context, "run_id": "another", "task_state_store": type(context["task_state_store"])()}


def test_another_dag_run_adopts(
    start: Start, submitted: list[SubmittedQuery], context: Any
) -> None:
    first = start().execute(context)

    second = start().execute(another_dag_run(context))

    assert second["run_id"] == first["run_id"]
    assert len(submitted) == 1


def test_another_dag_run_may_not(
    start: Start, submitted: list[SubmittedQuery], context: Any
) -> None:
    first = start().execute(context)

    with pytest.raises(AirflowFailException, match=f"Run {first['run_id']} is RUNNING on"):
        start(on_running="fail").execute(another_dag_run(context))

    assert len(submitted) == 1


@pytest.mark.parametrize("cleared", [False, True])
def test_replace_drains_and_starts_anew(
    start: Start, submitted: list[SubmittedQuery], context: Any, cleared: bool
) -> None:
    first = start(wait_for=2).execute(context)
    if cleared:
        context["ti"].try_number, context["ti"].max_tries = 2, 3
    else:
        context = another_dag_run(context)

    second = start(on_running="replace").execute(context)

    assert second["run_id"] != first["run_id"]
    assert second["query_id"] == first["query_id"]
    assert second["epoch"] >= first["epoch"]
    assert [query.process.wait() for query in submitted[:1]] == [0]
    assert len(submitted) == 2


def test_a_query_that_has_ended_is_started_again(
    start: Start, submitted: list[SubmittedQuery], context: Any
) -> None:
    first = start().execute(context)
    submitted[0].process.terminate()
    submitted[0].process.wait()

    second = start().execute(context)

    assert second["run_id"] != first["run_id"]
    assert len(submitted) == 2


def test_a_killed_query_is_started_again(
    start: Start, submitted: list[SubmittedQuery], context: Any
) -> None:
    first = start().execute(context)
    os.kill(submitted[0].process.pid, signal.SIGKILL)
    submitted[0].process.wait()

    assert start().execute(context)["run_id"] != first["run_id"]


def test_a_draining_query_is_awaited_and_started_again(
    start: Start, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold("old", QueryState.DRAINING)
    task = start(timeout=0.3)
    with pytest.raises(WaitTimeoutError, match="the end of"):
        task.execute(context)
    live.end(QueryState.STOPPED)

    assert start().execute(context)["run_id"] != "old"
    assert len(submitted) == 1


def test_two_tasks_at_once_start_one_query(
    start: Start,
    submitted: list[SubmittedQuery],
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second looked before the first held the lease."""
    first = start().execute(context)
    really_find = ContinuousQueryHook.find
    answers = [lambda *_: None]

    def find(hook: ContinuousQueryHook, location: str) -> Any:
        return (answers.pop() if answers else really_find)(hook, location)

    monkeypatch.setattr(ContinuousQueryHook, "find", find)

    second = start().execute(another_dag_run(context))

    assert second["run_id"] == first["run_id"]
    assert len(submitted) == 2
    assert submitted[1].process.returncode == 1


def test_a_query_that_dies_early_may_be_retried(
    start: Start, spec: dict[str, Any], context: Any
) -> None:
    spec["conf"] = {"stand_in": "die"}

    with pytest.raises(QueryStartError, match="out of memory"):
        start().execute(context)


def test_a_machine_that_cannot_run_it_fails_for_good(
    start: Start, spec: dict[str, Any], context: Any
) -> None:
    spec["conf"] = {"stand_in": "wrong"}

    with pytest.raises(AirflowFailException, match="no Java found"):
        start().execute(context)


def test_a_query_that_fails_before_the_epoch(
    start: Start, spec: dict[str, Any], context: Any
) -> None:
    spec["conf"] = {"stand_in": "fail"}

    with pytest.raises(QueryFailedError, match=r"(?s)FAILED at epoch 0: the sink is full.*its log"):
        start(wait_for=3).execute(context)


def test_a_retry_starts_a_query_that_has_failed_again(
    start: Start, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    spec["conf"] = {"stand_in": "fail"}
    with pytest.raises(QueryFailedError) as caught:
        start(wait_for=3).execute(context)
    assert not isinstance(caught.value, AirflowFailException), "Airflow would not retry it"
    context["ti"].try_number = 2
    del spec["conf"]

    assert start(wait_for=3).execute(context)["epoch"] >= 3
    assert len(submitted) == 2


@pytest.mark.usefixtures("patient_start")
@pytest.mark.parametrize("action", ["drain", "stop", "detach"])
@pytest.mark.parametrize("attempt", ["retried", "last"])
def test_a_start_that_fails_late_ends_what_it_has_started(
    start: Start,
    submitted: list[SubmittedQuery],
    spec: dict[str, Any],
    context: Any,
    action: Any,
    attempt: str,
) -> None:
    spec["conf"] = {"stand_in": "stuck"}
    context["ti"].try_number = 3 if attempt == "last" else 1
    task = start(wait_for=3, timeout=0.1, on_kill_action=action)
    if attempt == "retried":
        said = "goes on: a retry adopts it"
    elif action == "detach":
        said = "goes on, as on_kill_action is 'detach'"
    else:
        said = f"was asked to {action}"

    with pytest.raises(WaitTimeoutError, match=f"which this task has started, {said}"):
        task.execute(context)

    if "asked" in said:
        assert submitted[0].process.wait() == 0
        return
    checkpoint = Checkpoint(spec["checkpoint_location"])
    wait_until(lambda: checkpoint.status().state is QueryState.RUNNING, "it goes on")


def test_a_start_that_fails_late_leaves_what_it_has_adopted(
    start: Start, submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any
) -> None:
    spec["conf"] = {"stand_in": "stuck"}
    start().execute(another_dag_run(context))
    context["ti"].try_number = 3

    with pytest.raises(WaitTimeoutError, match=r"did not come in time\.$"):
        start(wait_for=3, timeout=0.2, on_kill_action="drain").execute(context)
    assert submitted[0].process.poll() is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"wait_for": "soon"}, "wait_for is 'soon'"),
        ({"wait_for": "-2"}, "wait_for is '-2'"),
        ({"spec": {"source": {"format": "rate"}}}, "checkpoint_location is empty"),
        ({"spec": "/no/such/file.yaml"}, "no/such/file.yaml"),
        ({"continuous_conn_id": "missing"}, "no connection 'missing'"),
        ({"query": "nosuchmodule:f", "checkpoint_location": "/tmp/c"}, "no module nosuchmodule"),
        ({"environment": "{'A': '1'}"}, "environment is a str, and no names with their values"),
        ({"secrets": ["a.password"]}, "secrets is a list, and no names"),
        ({"spark_submit": "{'name': 'a'}"}, "spark_submit is a str, and no names"),
        ({"connections": "{'a': 'kafka'}"}, "connections"),
    ],
)
def test_bad_input_fails_before_anything_starts(
    start: Start,
    submitted: list[SubmittedQuery],
    context: Any,
    arguments: dict[str, Any],
    problem: str,
) -> None:
    with pytest.raises(AirflowFailException, match=problem):
        start(**arguments).execute(context)

    assert submitted == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "exactly one of spec and query"),
        ({"spec": {}, "query": "a:b"}, "exactly one of spec and query"),
        ({"spec": {}, "on_running": "ignore"}, "on_running is 'ignore'"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        StartContinuousQueryOperator(task_id="start", **arguments)


def test_no_secret_is_told(
    start: Start,
    spec: dict[str, Any],
    context: Any,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    spec["source"]["options"]["password"] = "s3cret-word"

    result = start().execute(context)

    told = [str(result), str(context["task_state_store"]), caplog.text, *capfd.readouterr()]
    assert not any("s3cret-word" in text for text in told)
    logs = Path(spec["checkpoint_location"] + ".logs")
    assert not any("s3cret-word" in file.read_text() for file in logs.iterdir())


def test_killing_the_task_leaves_the_query(start: Start, context: Any) -> None:
    task = start()
    result = task.execute(context)

    task.on_kill()

    assert Checkpoint(result["checkpoint_location"]).status().state is QueryState.RUNNING


def test_a_name_may_be_long(start: Start, spec: dict[str, Any], context: Any) -> None:
    task = start(spec={**spec, "name": "größe" * 60})

    assert task.execute(context)["epoch"] >= -1


@pytest.mark.parametrize("native", [False, True])
def test_the_file_of_a_specification_is_templated(
    start: Start, spec: dict[str, Any], tmp_path: Path, context: Any, native: bool
) -> None:
    path = tmp_path / "numbers.json"
    path.write_text(json.dumps({**spec, "sql": "SELECT {{ params.what }} AS value FROM source"}))
    told = {**context, "params": {"what": "value + 1"}}
    with DAG("a_dag", render_template_as_native_obj=native):
        task = start(spec=str(path))

    with set_current_context(told):
        task.execute(told)

    parts = read_fingerprint(Checkpoint(spec["checkpoint_location"]).storage)
    assert parts is not None
    assert parts["sql"] == "SELECT value + 1 AS value FROM source"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: '{{ params.waht }}'", r"numbers\.yaml cannot be rendered: .* no attribute 'waht'"),
        ("sink:\n  format: '{{ params.what'", r"numbers\.yaml, line 2, cannot be rendered: unexp"),
    ],
)
def test_a_template_in_it_that_is_wrong_fails_for_good(
    start: Start, spec: dict[str, Any], tmp_path: Path, context: Any, text: str, said: str
) -> None:
    (tmp_path / "numbers.yaml").write_text(text)
    told = {**context, "params": {"what": "value + 1"}}
    with DAG("a_dag"):
        task = start(spec=str(tmp_path / "numbers.yaml"))

    with set_current_context(told), pytest.raises(AirflowFailException, match=said):
        task.execute(told)


def test_the_file_that_airflow_writes_says_nothing() -> None:
    """It has all defaults in it."""
    deferral.conf.set("operators", "default_deferrable", "False")
    by_default.cache_clear()
    try:
        defers = by_default()
    finally:
        deferral.conf.remove_option("operators", "default_deferrable")
        by_default.cache_clear()

    assert defers


def test_the_default_asks_for_no_other_option(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A worker may have no right to what the commands of other options read."""
    ran = tmp_path / "ran"
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET_CMD", f"touch {ran}")
    by_default.cache_clear()

    by_default()
    by_default.cache_clear()

    assert not ran.exists()


@pytest.mark.parametrize(("said", "defers"), [(None, True), ("True", True), ("False", False)])
def test_the_default_of_deferrable(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], said: str | None, defers: bool
) -> None:
    if said is not None:
        monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", said)
    by_default.cache_clear()
    made = [
        StartContinuousQueryOperator(task_id="start", spec=spec),
        DrainContinuousQueryOperator(task_id="end", checkpoint_location="/c"),
        EpochCommittedSensor(task_id="wait", checkpoint_location="/c", epoch=1),
    ]
    by_default.cache_clear()

    assert [task.deferrable for task in made] == [defers] * 3
    assert StartContinuousQueryOperator(task_id="s", spec=spec, deferrable=True).deferrable
