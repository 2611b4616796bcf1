"""TaskMemory: how long a task remembers, also where Airflow has no task state store: before 3.3."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_continuous import compat
from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.errors import QueryFailedError
from airflow_provider_continuous.operators.query import (
    RestartContinuousQueryOperator,
    StartContinuousQueryOperator,
    UpgradeContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor
from airflow_provider_continuous.tasks import memory
from airflow_provider_continuous.tasks.memory import TaskMemory
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.supervising import deferred, supervisor, trigger_of


@pytest.fixture
def at(context: Any) -> Callable[..., TaskMemory]:
    """The memory of an attempt in a process of its own, of a task as it is by then."""

    def made(tries: int, max_tries: int, *, retries: int, clears: int) -> TaskMemory:
        memory.forget_process()
        context["ti"].try_number, context["ti"].max_tries = tries, max_tries
        context["ti"].task.retries = retries
        context["dag_run"] = SimpleNamespace(clear_number=clears)
        return TaskMemory(context)

    return made


def test_a_cleared_task_begins_anew_though_its_retries_were_lowered(at: Any) -> None:
    """Airflow sets max_tries to the tries so far and the retries of now: the same as before."""
    at(1, 3, retries=3, clears=0).remember("reason", "time")

    cleared = at(2, 3, retries=2, clears=1)
    assert cleared.recall("reason") is None
    cleared.remember("reason", "epoch")

    assert at(3, 3, retries=2, clears=1).recall("reason") == "epoch"
    assert at(3, 3, retries=1, clears=2).recall("reason") is None


def test_a_task_whose_retries_are_changed_while_it_lives_remembers(at: Any) -> None:
    """Nor does it matter that another task of its run was cleared, before or behind that."""
    at(1, 3, retries=3, clears=0).remember("began", 7.0)

    for tries, retries, clears in ((2, 3, 1), (2, 2, 1), (3, 2, 2), (3, 5, 2)):
        assert at(tries, 3, retries=retries, clears=clears).recall("began") == 7.0


@pytest.fixture
def old_context(context: Any) -> Any:
    """A task's context without the store."""
    del context["task_state_store"]
    return context


@pytest.fixture
def resumed(old_context: Any) -> Callable[[], Any]:
    """The context of a task in the process that goes on with it: nothing is left of the one that
    deferred it."""

    def made() -> Any:
        memory.forget_process()
        return old_context

    return made


def test_an_attempt_remembers_as_long_as_its_process_lives(
    old_context: Any, resumed: Callable[[], Any]
) -> None:
    TaskMemory(old_context).remember("it", 1)
    assert TaskMemory(old_context).recall("it") == 1

    old_context["ti"].try_number += 1
    assert TaskMemory(old_context).recall("it") is None
    old_context["ti"].try_number -= 1
    assert TaskMemory(resumed()).recall("it") is None


def test_restarts_are_counted_through_deferrals(
    submitted: list[SubmittedQuery], spec: dict[str, Any], resumed: Callable[[], Any]
) -> None:
    spec["conf"] = {"stand_in": "fail"}
    options: Any = {
        "deferrable": True,
        "restart_delay": 20.0,
        "restart_delay_max": 30.0,
        "restarts": 2,
    }
    pauses: list[float] = []

    def live_through_deaths() -> None:
        trigger = deferred(supervisor(spec, **options), resumed())
        for _ in range(5):
            pauses.append(trigger.restart_delay_s)
            trigger = moved(trigger)
            trigger.restart_delay_s = 0.0
            with pytest.raises(TaskDeferred) as caught:
                supervisor(spec, **options).supervised(resumed(), trigger.wait())
            trigger = trigger_of(caught.value)

    with pytest.raises(QueryFailedError, match="after 2 restarts"):
        live_through_deaths()

    assert pauses[:2] == [20.0, 30.0]
    assert len(submitted) == 3


def test_run_for_keeps_its_end_when_the_query_is_started_again(
    submitted: list[SubmittedQuery], spec: dict[str, Any], resumed: Callable[[], Any]
) -> None:
    before = deferred(supervisor(spec, deferrable=True, run_for=3600), resumed())
    submitted[0].process.kill()
    submitted[0].process.wait()

    with pytest.raises(TaskDeferred) as caught:
        supervisor(spec, deferrable=True, run_for=3600).supervised(resumed(), moved(before).wait())

    after = trigger_of(caught.value)
    assert after.run_id != before.run_id
    assert after.deadline == before.deadline
    assert (before.log_path, after.log_path) == tuple(each.handle.log for each in submitted)


def test_what_ended_it_is_told_behind_the_wait_for_its_end(
    live: LiveCheckpoint, spec: dict[str, Any], resumed: Callable[[], Any]
) -> None:
    live.hold("run-1")
    live.commit(0)
    spec["checkpoint_location"] = live.location
    task = supervisor(spec, deferrable=True, until_epoch=1, on_changed="adopt")
    trigger = deferred(task, resumed())
    live.commit(1)

    with pytest.raises(TaskDeferred) as caught:
        task.supervised(resumed(), moved(trigger).wait())
    assert caught.value.method_name == "execute_complete"
    live.end(QueryState.STOPPED)
    ended = task.execute_complete(resumed(), moved(caught.value.trigger).wait())

    assert (ended["reason"], ended["restarts"]) == ("epoch", 0)


def moved(trigger: Any) -> Any:
    """As a triggerer builds it."""
    return type(trigger)(**json.loads(json.dumps(trigger.arguments())))


def test_a_sensor_waits_from_now_on(old_context: Any, live: LiveCheckpoint) -> None:
    live.commit(0, 1)
    sensor = EpochCommittedSensor(
        task_id="wait", checkpoint_location=live.location, epochs_from_now=2, mode="poke"
    )

    assert sensor.make_trigger(old_context).epoch == 3


def test_a_rescheduled_sensor_would_never_end_and_is_refused(
    old_context: Any, live: LiveCheckpoint
) -> None:
    sensor = EpochCommittedSensor(
        task_id="wait", checkpoint_location=live.location, epochs_from_now=2, mode="reschedule"
    )

    with pytest.raises(AirflowFailException, match=r"came with Airflow 3\.3"):
        sensor.execute({**old_context, "task": sensor})


@pytest.mark.parametrize(
    "operator",
    [
        RestartContinuousQueryOperator,
        UpgradeContinuousQueryOperator,
        partial(StartContinuousQueryOperator, on_running="replace"),
    ],
)
def test_what_must_not_be_forgotten_half_way_is_refused_before_it_begins(
    operator: Any, old_context: Any, live: LiveCheckpoint, spec: dict[str, Any]
) -> None:
    live.hold("run-1")
    task = operator(task_id="change", spec=spec, checkpoint_location=live.location)

    with pytest.raises(AirflowFailException, match=r"came with Airflow 3\.3"):
        task.execute(old_context)

    assert live.checkpoint.requests.pending("run-1") is None


def test_a_name_that_older_versions_lack_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(compat), "AdvanceItem", raising=False)

    with pytest.raises(ImportError, match=r"AdvanceItem came with Airflow 3\.3"):
        from airflow_provider_continuous.compat import AdvanceItem  # noqa: F401
