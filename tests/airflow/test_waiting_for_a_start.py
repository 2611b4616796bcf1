"""A task waits for its submission in the triggerer, with real processes (``stand_in.py``)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_continuous.compat import TaskDeferred
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery
from airflow_provider_continuous.observing.pool import StorageHangsError
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    RestartContinuousQueryOperator,
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
    StopContinuousQueryOperator,
    base,
)
from airflow_provider_continuous.tasks import killing, users
from airflow_provider_continuous.tasks.users import Users
from airflow_provider_continuous.triggers.base import CheckpointTrigger
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from airflow_provider_continuous.triggers.start import SubmissionTrigger
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.waiting import wait_until

Make = Callable[..., Any]


@pytest.fixture
def make(
    submitted: list[SubmittedQuery],
    spec: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Make:
    """Tasks that do not linger, over a query that does not start before ``gate`` is there."""
    monkeypatch.setattr(base, "START_LINGER_S", 0.0)
    spec["conf"] = {"lease_gate": str(tmp_path / "gate")}

    def made(operator: Any = StartContinuousQueryOperator, **arguments: Any) -> Any:
        given = {"task_id": "t", "spec": spec, "poll_interval": 0.05, "timeout": 120}
        return operator(**{**given, **arguments})

    return made


def deferred(call: Callable[[], Any]) -> tuple[CheckpointTrigger, str]:
    with pytest.raises(TaskDeferred) as caught:
        call()
    trigger = caught.value.trigger
    assert isinstance(trigger, CheckpointTrigger)
    path, arguments = trigger.serialize()
    assert path.endswith(type(trigger).__name__)
    again: CheckpointTrigger = type(trigger)(**arguments)
    return again, caught.value.method_name


@pytest.mark.parametrize(
    ("operator", "then"),
    [
        (StartContinuousQueryOperator, "execute_complete"),
        (RestartContinuousQueryOperator, "execute_complete"),
        (RunContinuousQueryOperator, "supervised"),
    ],
)
def test_it_waits_without_a_worker_and_goes_on(
    make: Make,
    spec: dict[str, Any],
    submitted: list[SubmittedQuery],
    tmp_path: Path,
    context: Any,
    capsys: pytest.CaptureFixture[str],
    operator: Any,
    then: str,
) -> None:
    more = {} if operator is RunContinuousQueryOperator else {"wait_for": 100_000}
    waiting, method = deferred(lambda: make(operator, **more).execute(context))
    assert (type(waiting), method) == (SubmissionTrigger, "woken")
    assert waiting.observe() is None
    assert not submitted[0].spec_path.exists()

    (tmp_path / "gate").touch()
    event = waiting.wait()
    shown = event["log_position"]
    capsys.readouterr()
    started, method = deferred(lambda: make(operator, **more).woken(context, event))

    assert method == then
    assert shown > 0
    assert "standard input True" not in capsys.readouterr().out, "it was shown before"
    assert len(submitted) == 1
    run_id = Checkpoint(spec["checkpoint_location"]).status().run_id
    assert started.arguments()["run_id"] == run_id
    assert context["task_state_store"]["submissions_2"][-1]["run_id"] == run_id
    if operator is StartContinuousQueryOperator:
        assert started.deadline == waiting.deadline, "it has not begun anew"


def test_a_driver_that_ends_is_told_with_its_log(
    make: Make, submitted: list[SubmittedQuery], context: Any
) -> None:
    waiting, _ = deferred(lambda: make().execute(context))
    submitted[0].process.kill()
    submitted[0].process.wait()

    with pytest.raises(QueryStartError, match=r"(?s)before it held its checkpoint.*end of its log"):
        make().woken(context, waiting.wait())
    assert len(submitted) == 1


def test_one_that_is_too_late_is_ended(
    make: Make, submitted: list[SubmittedQuery], context: Any
) -> None:
    waiting, _ = deferred(lambda: make().execute(context))
    waiting.deadline = 0.0

    with pytest.raises(QueryStartError, match="hung for"):
        make().woken(context, waiting.wait())
    submitted[0].process.wait()


def test_one_that_is_too_late_is_ended_also_where_storage_hangs(
    make: Make, submitted: list[SubmittedQuery], context: Any
) -> None:
    waiting, _ = deferred(lambda: make().execute(context))
    waiting.deadline = 0.0

    event = waiting.missed(StorageHangsError("The mount does not answer."))
    assert event is not None
    assert event["outcome"] == "timeout"
    with pytest.raises(QueryStartError, match="hung for"):
        make().woken(context, event)
    submitted[0].process.wait()


def test_a_killed_task_ends_what_it_waits_for(
    make: Make, submitted: list[SubmittedQuery], context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killing, "task_state", lambda _: "failed")
    waiting, _ = deferred(lambda: make(on_kill_action="drain").execute(context))
    assert isinstance(waiting, SubmissionTrigger)
    waiting.task_instance = SimpleNamespace(**{**vars(context["ti"]), "task": None})  # type: ignore[assignment]
    assert waiting.observe() is None

    asyncio.run(waiting.on_kill())

    wait_until(lambda: submitted[0].process.poll() is not None, "its end")


def test_what_others_wait_for_too_is_left_to_them(
    make: Make, submitted: list[SubmittedQuery], context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killing, "task_state", lambda _: "failed")
    monkeypatch.setattr(users, "is_on", lambda *_: True)
    waiting, _ = deferred(lambda: make(on_kill_action="drain").execute(context))
    Users(waiting.own_hook.checkpoint.storage, "another_dag", "a_run").enter()
    waiting.task_instance = SimpleNamespace(**{**vars(context["ti"]), "task": None})  # type: ignore[assignment]
    assert waiting.observe() is None

    asyncio.run(waiting.on_kill())  # type: ignore[attr-defined]

    assert submitted[0].process.poll() is None
    assert waiting.watches == "submission 0"  # type: ignore[attr-defined]


@pytest.mark.parametrize("operator", [DrainContinuousQueryOperator, StopContinuousQueryOperator])
@pytest.mark.parametrize("has_run", [False, True])
def test_who_ends_the_query_ends_what_is_on_its_way(
    make: Make,
    spec: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
    operator: Any,
    has_run: bool,
) -> None:
    if has_run:
        live = LiveCheckpoint(spec["checkpoint_location"])
        live.hold("old")
        live.end(QueryState.STOPPED)
    spec["conf"] = {"stand_in": "hang"}
    deferred(lambda: make().execute(context))

    end = operator(task_id="end", checkpoint_location=spec["checkpoint_location"])
    ended = end.execute(context)

    assert (ended["run_id"], ended["state"]) == (
        ("old", "STOPPED") if has_run else (None, "UNKNOWN")
    )
    assert submitted[0].process.poll() is not None


def test_what_is_on_its_way_for_others_is_left_to_them(
    make: Make,
    spec: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(users, "is_on", lambda *_: True)
    deferred(lambda: make().execute(context))
    location = spec["checkpoint_location"]
    Users(Checkpoint(location).storage, "another_dag", "a_run").enter()

    left = DrainContinuousQueryOperator(task_id="end", checkpoint_location=location).execute(
        context
    )

    assert left["left_to"] == ["another_dag, a_run"]
    assert submitted[0].process.poll() is None


def test_what_is_on_its_way_and_out_of_reach_is_told(
    make: Make,
    spec: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deferred(lambda: make().execute(context))
    end = DrainContinuousQueryOperator(
        task_id="end", checkpoint_location=spec["checkpoint_location"]
    )
    monkeypatch.setattr(SubmittedQuery, "end", lambda _: False)

    with pytest.raises(QueryStartError, match=r"Submission .* may still come to run, and could"):
        end.execute(context)


def test_a_run_of_somebody_else_is_not_its_start(
    make: Make, spec: dict[str, Any], submitted: list[SubmittedQuery], tmp_path: Path, context: Any
) -> None:
    """It has lost the race then, which its driver finds out, and the task adopts the winner."""
    waiting, _ = deferred(lambda: make().execute(context))
    LiveCheckpoint(spec["checkpoint_location"]).hold("of somebody else")
    assert waiting.observe() is None

    (tmp_path / "gate").touch()
    event = waiting.wait()

    assert make(on_changed="adopt").woken(context, event)["run_id"] == "of somebody else"
    assert len(submitted) == 1


def test_what_is_replaced_is_awaited_without_a_worker(
    make: Make,
    spec: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold("old")
    task = {"on_running": "replace", "wait_for": 100_000}
    waiting, method = deferred(lambda: make(**task).execute(context))
    assert (type(waiting), method) == (QueryEndedTrigger, "woken")
    assert live.checkpoint.requests.pending("old") == "drain"

    live.end(QueryState.STOPPED)
    spec["conf"] = {}
    monkeypatch.setattr(base, "START_LINGER_S", 120.0)
    started, method = deferred(lambda: make(**task).woken(context, waiting.wait()))

    assert (method, started.deadline) == ("execute_complete", waiting.deadline)
    assert len(submitted) == 1


def test_a_roll_back_after_a_start_that_was_too_late_has_time(make: Make, context: Any) -> None:
    task = make(timeout=120)
    task._given_deadline = 1.0

    assert task._deadline() == 1.0
    assert task._deadline() > time.time()


def test_no_setting_goes_to_the_triggerer(make: Make, context: Any) -> None:
    given = {
        "conf": {"spark.hadoop.fs.s3a.secret.key": "s3cret"},
        "master_web": "http://m:8080",
        "repositories": "https://reader:correct-horse@m",
    }

    waiting, _ = deferred(lambda: make(spark_submit=given).execute(context))

    assert waiting.arguments()["spark_submit"] == {"master_web": "http://m:8080"}


def test_who_does_not_defer_waits_in_the_worker(
    make: Make, spec: dict[str, Any], tmp_path: Path, context: Any
) -> None:
    (tmp_path / "gate").touch()

    result = make(deferrable=False).execute(context)

    assert result["run_id"] == Checkpoint(spec["checkpoint_location"]).status().run_id
