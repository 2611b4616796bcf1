"""DrainContinuousQueryOperator and StopContinuousQueryOperator."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_continuous.assets.uris import query_asset
from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.deploy.contract import Handle
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.deploy.standbys import STANDBYS
from airflow_provider_continuous.errors import QueryEndedError, WaitTimeoutError
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StopContinuousQueryOperator,
)
from airflow_provider_continuous.tasks import killing
from airflow_provider_continuous.tasks.killing import QueryOfTask, TaskIdentity
from airflow_provider_continuous.triggers.query import QueryEndedTrigger
from engine.base.clock import SystemClock
from engine.checkpoint.process import Process
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.requests import Requests
from engine.checkpoint.standing_by import OwnNote
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.waiting import wait_until


class OutletEvents:
    """As a task's context has them, for one asset: Airflow 3.1 cannot hash it."""

    def __init__(self, asset: Any) -> None:
        self.event = SimpleNamespace(extra={})
        self._asset = asset

    def __getitem__(self, asset: Any) -> Any:
        assert asset is self._asset
        return self.event


OPERATORS = [(DrainContinuousQueryOperator, "drain"), (StopContinuousQueryOperator, "stop")]


@pytest.mark.parametrize(("operator", "asks"), OPERATORS)
def test_it_asks_and_waits_in_the_triggerer(
    live: LiveCheckpoint, context: Any, operator: Any, asks: str
) -> None:
    live.hold("run-1")
    live.commit(0, 1)
    asset = query_asset(live.location)
    task = operator(task_id="end", checkpoint_location=live.location, outlets=[asset])
    context["ti"].task = task
    context["outlet_events"] = events = OutletEvents(asset)

    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)

    trigger = caught.value.trigger
    assert isinstance(trigger, QueryEndedTrigger)
    assert trigger.deadline is not None
    assert live.checkpoint.requests.pending("run-1") == asks
    assert live.checkpoint.requests.pending("run-2") is None
    request = live.checkpoint.storage.read(f"control/requests/{asks}")
    assert b"Airflow task a_dag.a_task, a_run" in request
    live.end(QueryState.STOPPED)
    assert task.execute_complete(context, trigger.wait()) == {
        "query_id": "a-query",
        "run_id": "run-1",
        "checkpoint_location": live.location,
        "epoch": 1,
        "state": "STOPPED",
    }
    told = events.event.extra
    assert (told["run_id"], told["epoch"]) == ("run-1", 1), "the asset's event tells it too"


@pytest.mark.parametrize(("operator", "asks"), OPERATORS)
def test_it_waits_here(live: LiveCheckpoint, context: Any, operator: Any, asks: str) -> None:
    live.hold()

    def ends() -> None:
        wait_until(lambda: live.checkpoint.requests.pending("run-1") == asks, "the request", 120)
        live.end(QueryState.STOPPED)

    query = threading.Thread(target=ends)
    query.start()
    task = operator(
        task_id="end", checkpoint_location=live.location, deferrable=False, poll_interval=0.05
    )

    assert task.execute(context)["state"] == "STOPPED"
    query.join()


@pytest.mark.parametrize("rendered", ["None", "", None])
@pytest.mark.parametrize("operator", [DrainContinuousQueryOperator, StopContinuousQueryOperator])
def test_a_run_that_no_template_has_found_is_no_run(
    live: LiveCheckpoint, context: Any, operator: Any, rendered: str | None
) -> None:
    """As text, and as DAGs have it that render native objects: nobody meant any run, or none."""
    live.hold("run-1")
    task = operator(
        task_id="end",
        checkpoint_location=live.location,
        deferrable=False,
        run_id="{{ ti.xcom_pull('start', key='run_id') }}",
    )
    task.run_id = rendered

    with pytest.raises(AirflowFailException, match="and no run"):
        task.execute(context)

    assert live.checkpoint.requests.pending("run-1") is None


def test_a_query_that_goes_on_as_another_run_was_not_drained(
    live: LiveCheckpoint, context: Any
) -> None:
    live.hold("run-1")
    task = DrainContinuousQueryOperator(task_id="end", checkpoint_location=live.location)
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    live.end(QueryState.FAILED, "disk full")
    live.hold("run-2")

    trigger = caught.value.trigger
    assert isinstance(trigger, QueryEndedTrigger)
    with pytest.raises(QueryEndedError, match="was not drained: it is RUNNING"):
        task.execute_complete(context, trigger.wait())


@pytest.mark.parametrize(("operator", "asks"), OPERATORS)
def test_a_query_that_has_stopped_is_asked_nothing(
    live: LiveCheckpoint, context: Any, operator: Any, asks: str
) -> None:
    live.hold("run-1")
    live.end(QueryState.STOPPED)

    result = operator(task_id="end", checkpoint_location=live.location).execute(context)

    assert (result["state"], result["epoch"]) == ("STOPPED", -1)
    assert live.checkpoint.requests.pending("run-1") is None


@pytest.mark.parametrize("end", ["FAILED", "LOST"])
def test_a_failed_query_was_not_drained_and_is_stopped(
    live: LiveCheckpoint, context: Any, end: str
) -> None:
    live.hold()
    if end == "FAILED":
        live.end(QueryState.FAILED, "disk full")
    else:
        live.lose()
    arguments: dict[str, Any] = {"task_id": "end", "checkpoint_location": live.location}

    with pytest.raises(QueryEndedError, match=f"was not drained: it is {end} at epoch -1"):
        DrainContinuousQueryOperator(**arguments).execute(context)
    assert StopContinuousQueryOperator(**arguments).execute(context)["state"] == end


@pytest.mark.parametrize(("operator", "asks"), OPERATORS)
def test_the_deadline(live: LiveCheckpoint, context: Any, operator: Any, asks: str) -> None:
    live.hold()
    task = operator(task_id="end", checkpoint_location=live.location, timeout=0)

    with pytest.raises(WaitTimeoutError, match=r"the end of .*, and it did not come in time"):
        task.execute(context)


@pytest.mark.parametrize(("operator", "asks"), OPERATORS)
def test_a_query_that_nobody_can_ask(
    live: LiveCheckpoint, context: Any, operator: Any, asks: str
) -> None:
    """A checkpoint of Spark itself, or none at all: no lease."""
    live.commit(0)
    for location in (live.location, live.location + "-not"):
        with pytest.raises(AirflowFailException, match=r"query\.stop\(\) in its own process"):
            operator(task_id="end", checkpoint_location=location).execute(context)


@pytest.mark.parametrize("who", ["an end operator", "a killed task"])
def test_a_standby_that_takes_over_in_that_moment_is_asked_as_well(
    live: LiveCheckpoint, context: Any, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    live.hold()
    live.lose()
    OwnNote(live.checkpoint.storage, SystemClock()).tell()
    really_ask, process = Requests.ask, Process.current()

    def ask(requests: Requests, *given: Any, run_id: str, **named: Any) -> None:
        if run_id == "run-1":
            live.hold("run-2")
        really_ask(requests, *given, run_id=run_id, **named)

    monkeypatch.setattr(Requests, "ask", ask)
    if who == "a killed task":
        monkeypatch.setattr(killing, "task_state", lambda _: "failed")
        task = TaskIdentity.of(context["ti"])
        handle = Handle("local", "x", 0, str(task), host=process.host, pid=process.pid)
        Notes(live.checkpoint.storage, STANDBYS).take(handle)
        log = logging.getLogger()
        assert QueryOfTask("stop", CheckpointHook(live.location), "run-1", task, log).end()
    else:
        end = StopContinuousQueryOperator(
            task_id="end", checkpoint_location=live.location, deferrable=True
        )
        with pytest.raises(TaskDeferred) as caught:
            end.execute(context)
        assert caught.value.trigger.run_id == "run-2"  # type: ignore[union-attr]

    assert live.checkpoint.requests.pending("run-2") == "stop"
