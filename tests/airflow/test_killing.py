"""What becomes of a query when its task is killed, or only seems to be.

Only Airflow's answer, the state of the task, is made up here; ``test_life_cycle_dags.py`` has the
real one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.timeout import timeout

from airflow_provider_continuous.compat import RELEASE, AirflowTaskTimeout, TaskDeferred
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import (
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
    base,
)
from airflow_provider_continuous.tasks import killing
from airflow_provider_continuous.tasks.killing import (
    QueryOfTask,
    TaskIdentity,
    task_state,
)
from airflow_provider_continuous.triggers.kill import KillableTrigger
from airflow_provider_continuous.triggers.query import QueryRunningTrigger, StartedEpochTrigger
from airflow_provider_continuous.triggers.supervise import (
    HealthyEpochsTrigger,
    QuerySupervisionTrigger,
)
from engine.checkpoint.query_state import QueryState
from engine.errors import CheckpointError
from tests.airflow.conftest import Says
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.waiting import wait_until

OVER = ["failed", "success", "skipped", "removed", "upstream_failed", "deleted"]
NOT_OVER = ["deferred", "running", "scheduled", "queued", "none", "restarting", "up_for_retry"]

with_killed_triggers = pytest.mark.skipif(
    RELEASE < (3, 3), reason="on_kill of triggers came with Airflow 3.3"
)


def supervision(live: LiveCheckpoint, **arguments: Any) -> QuerySupervisionTrigger:
    given = {"run_id": "run-1", "on_kill_action": "drain", "poll_interval_s": 0.01}
    return QuerySupervisionTrigger(live.location, **{**given, **arguments})


def kill(trigger: KillableTrigger, then: Callable[[], Any] = lambda: None) -> None:
    """Kill as the triggerer does when a user acts on the task, and when it lost the trigger."""

    async def scenario() -> None:
        runner: Any = TriggerRunner()  # type: ignore[no-untyped-call]
        watching = asyncio.create_task(runner.run_trigger(1, trigger))
        runner.triggers[1] = {"task": watching, "name": "ours", "events": 0}
        while not trigger._looked_at:
            assert not watching.done()
            await asyncio.sleep(0.01)
        trigger.task_instance = SimpleNamespace(  # type: ignore[assignment]
            dag_id="a_dag", run_id="a_run", task_id="a_task", map_index=2, try_number=1
        )
        then()
        runner.to_cancel.append(1)
        await runner.cancel_triggers()
        with pytest.raises(asyncio.CancelledError):
            await watching

    asyncio.run(scenario())


@with_killed_triggers
@pytest.mark.parametrize("action", ["drain", "stop"])
@pytest.mark.parametrize("state", OVER)
def test_a_deferred_task_that_is_over_ends_its_query(
    live: LiveCheckpoint, airflow_says: Says, state: str, action: Any
) -> None:
    live.hold("run-1")
    asked = airflow_says(state)

    kill(supervision(live, on_kill_action=action))

    assert live.checkpoint.requests.pending("run-1") == action
    request = live.checkpoint.storage.read(f"control/requests/{action}")
    assert b"which has ended the task a_dag.a_task[2], a_run" in request
    assert asked == [TaskIdentity("a_dag", "a_run", "a_task", 2)]


@with_killed_triggers
@pytest.mark.parametrize("state", [*NOT_OVER, None])
def test_a_task_that_goes_on_keeps_its_query(
    live: LiveCheckpoint, airflow_says: Says, state: str | None
) -> None:
    """Its trigger was given to another triggerer, it is resumed, it is cleared; or nobody knows."""
    live.hold("run-1")
    asked = airflow_says(state)

    kill(supervision(live))

    assert live.checkpoint.requests.pending("run-1") is None
    assert len(asked) == 1


def test_detached(live: LiveCheckpoint, airflow_says: Says) -> None:
    live.hold("run-1")
    asked = airflow_says("failed")

    kill(supervision(live, on_kill_action="detach"))

    assert live.checkpoint.requests.pending("run-1") is None
    assert asked == []


def test_a_run_that_the_task_has_not_watched(live: LiveCheckpoint, airflow_says: Says) -> None:
    """The next attempt, or somebody else, has restarted the query meanwhile."""
    live.hold("run-1")
    airflow_says("failed")

    def taken_over() -> None:
        live.end(QueryState.STOPPED)
        live.hold("run-2")

    kill(supervision(live, poll_interval_s=30, takeover_grace_s=60), taken_over)

    assert live.checkpoint.requests.pending("run-1") is None
    assert live.checkpoint.requests.pending("run-2") is None


def test_a_wait_that_was_over(live: LiveCheckpoint, airflow_says: Says) -> None:
    live.hold("run-1")
    asked = airflow_says("success")
    trigger = supervision(live)

    kill(trigger, lambda: setattr(trigger, "_fired", True))

    assert live.checkpoint.requests.pending("run-1") is None
    assert asked == []


def test_it_knows_that_its_wait_is_over(live: LiveCheckpoint) -> None:
    live.commit(0)
    trigger = supervision(live, until_epoch=0)

    async def first_event() -> bool:
        async for _ in trigger.run():
            return trigger._fired
        return False

    assert asyncio.run(first_event())


@pytest.mark.parametrize("since", ["it looked", "it came back"])
def test_a_triggerer_that_was_away(live: LiveCheckpoint, airflow_says: Says, since: str) -> None:
    """Another one may have seen the end of the wait, and the task may be over by itself."""
    live.hold("run-1")
    asked = airflow_says("success")
    trigger = supervision(live, poll_interval_s=1)

    def suspended() -> None:
        trigger._looked_at = time.time() - 3600
        if since == "it came back":
            trigger.observe()

    kill(trigger, suspended)

    assert live.checkpoint.requests.pending("run-1") is None
    assert asked == []


def test_a_trigger_is_the_same_elsewhere(live: LiveCheckpoint) -> None:
    kept = {"run_id": "run-1", "on_kill_action": "stop", "deadline": 7.5, "storage_conn_id": "s3"}
    for trigger in (
        QueryRunningTrigger(live.location, **kept),
        StartedEpochTrigger(live.location, 3, **kept),
        supervision(live, until_epoch=3, restart_delay_s=5.0, takeover_grace_s=60.0, **kept),
        HealthyEpochsTrigger(
            live.location,
            after_epoch=3,
            epochs=2,
            latency_max_ms=5,
            commit_max_ms=9,
            lag_max=1,
            sources=[{"format": "tail", "options": {"path": "/in"}}],
            **kept,
        ),
    ):
        path, arguments = trigger.serialize()
        assert path == f"{type(trigger).__module__}.{type(trigger).__qualname__}"
        assert kept.items() <= arguments.items()
        assert type(trigger)(**arguments).serialize() == (path, arguments)


# -- tasks that run --------------------------------------------------------------------------------


def attending(live: LiveCheckpoint, context: Any, spec: dict[str, Any], **arguments: Any) -> Any:
    """A task that has adopted the query, and is still in its worker."""
    task = RunContinuousQueryOperator(task_id="run", spec=spec, **arguments)
    with pytest.raises(TaskDeferred):
        task.execute(context)
    return task


@pytest.fixture
def adopted(spec: dict[str, Any]) -> LiveCheckpoint:
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold("run-1")
    return live


@pytest.mark.parametrize(("state", "asks"), [("failed", "drain"), ("running", None), (None, None)])
def test_a_running_task_is_killed(
    adopted: LiveCheckpoint,
    airflow_says: Says,
    spec: dict[str, Any],
    context: Any,
    state: str | None,
    asks: str | None,
) -> None:
    """By a user; by a worker that shuts down; while Airflow cannot be asked."""
    asked = airflow_says(state)

    attending(adopted, context, spec).on_kill()

    assert adopted.checkpoint.requests.pending("run-1") == asks
    assert asked == [TaskIdentity("a_dag", "a_run", "a_task")]


def test_the_handler_gives_up_in_time(
    adopted: LiveCheckpoint,
    spec: dict[str, Any],
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow kills the process after five seconds, and the task may be talking to Airflow."""
    never = threading.Event()

    def hangs(_: Any) -> str:
        never.wait(30)
        raise CheckpointError("too late")

    monkeypatch.setattr(killing, "task_state", hangs)
    monkeypatch.setattr(base, "ON_KILL_S", 0.1)

    attending(adopted, context, spec).on_kill()

    assert not never.is_set()
    assert adopted.checkpoint.requests.pending("run-1") is None
    never.set()


def test_start_leaves_its_query(
    adopted: LiveCheckpoint, airflow_says: Says, spec: dict[str, Any], context: Any
) -> None:
    asked = airflow_says("failed")
    task = StartContinuousQueryOperator(task_id="start", spec=spec, wait_for=3)
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)

    task.on_kill()

    trigger = caught.value.trigger
    assert isinstance(trigger, StartedEpochTrigger)
    assert (trigger.run_id, trigger.on_kill_action) == ("run-1", "detach")
    assert adopted.checkpoint.requests.pending("run-1") is None
    assert asked == []


def test_killed_before_there_is_a_run(spec: dict[str, Any], airflow_says: Says) -> None:
    asked = airflow_says("failed")

    RunContinuousQueryOperator(task_id="run", spec=spec).on_kill()

    assert asked == []


@pytest.mark.parametrize(
    ("state", "action", "ends"),
    [("failed", "drain", True), ("running", "drain", False), ("failed", "detach", False)],
)
def test_killed_while_the_query_starts(
    spec: dict[str, Any],
    submitted: list[SubmittedQuery],
    airflow_says: Says,
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    action: Any,
    ends: bool,
) -> None:
    """It does not hold its checkpoint yet, so it cannot be asked there."""
    airflow_says(state)
    asked: list[bool] = []
    really_ask = SubmittedQuery.kill
    monkeypatch.setattr(
        SubmittedQuery, "kill", lambda each: asked.append(really_ask(each)) or asked[-1]
    )
    spec["conf"] = {"stand_in": "hang"}
    task = RunContinuousQueryOperator(task_id="run", spec=spec, on_kill_action=action)

    def killed(*_: Any) -> Any:
        task.on_kill()
        raise KeyboardInterrupt

    monkeypatch.setattr(ContinuousQueryHook, "started_within", killed)
    with pytest.raises(KeyboardInterrupt):
        task.execute(context)

    assert asked == ([True] if ends else [])
    if not ends:
        submitted[0].process.kill()
    submitted[0].process.wait()
    task.on_kill()
    assert asked == ([True, False] if ends else []), "a process that has ended is left alone"


# -- Airflow's answer ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("map_index", "states", "state"),
    [
        (-1, {"a_run": {"a_task": "deferred"}}, "deferred"),
        (2, {"a_run": {"a_task_2": "failed"}}, "failed"),
        (-1, {"a_run": {"a_task": None}}, "none"),
        (-1, {}, "deleted"),
    ],
)
def test_the_state_of_a_task(
    monkeypatch: pytest.MonkeyPatch, map_index: int, states: Any, state: str
) -> None:
    def get_task_states(**criteria: Any) -> Any:
        assert criteria == {
            "dag_id": "a_dag",
            "task_ids": ["a_task"],
            "run_ids": ["a_run"],
            "map_index": map_index,
        }
        return states

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", get_task_states)

    assert task_state(TaskIdentity("a_dag", "a_run", "a_task", map_index)) == state


def test_a_wrong_action(live: LiveCheckpoint) -> None:
    with pytest.raises(ValueError, match="on_kill_action is 'kill'"):
        QueryOfTask("kill", None, "run-1", None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attempt", "conf", "ends"),
    [(3, {"stand_in": "stuck"}, True), (3, {"stand_in": "hang"}, True), (1, {}, False)],
)
def test_the_last_attempt_that_takes_too_long_ends_what_it_has_started(
    submitted: list[SubmittedQuery],
    spec: dict[str, Any],
    context: Any,
    airflow_says: Says,
    attempt: int,
    conf: dict[str, str],
    ends: bool,
) -> None:
    """By ``execution_timeout``, as Airflow does it, to whom the task still runs."""
    airflow_says("running")
    context["ti"].try_number = attempt
    task = StartContinuousQueryOperator(
        task_id="start",
        spec={**spec, "conf": conf},
        wait_for=100_000,
        deferrable=False,
        on_kill_action="drain",
    )

    def run() -> None:
        try:
            with timeout(10):
                task.execute(context)
        except AirflowTaskTimeout:
            task.on_kill()
            raise

    with pytest.raises(AirflowTaskTimeout):
        run()

    if ends:
        wait_until(lambda: submitted[0].process.poll() is not None, "the end")
    else:
        assert submitted[0].process.poll() is None
