"""Two DAG runs over one query: the last one out ends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery
from airflow_provider_continuous.errors import QueryEndedError, QueryFailedError, WaitTimeoutError
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
    StopContinuousQueryOperator,
)
from airflow_provider_continuous.tasks import killing
from airflow_provider_continuous.tasks.killing import QueryOfTask, TaskIdentity
from airflow_provider_continuous.tasks.users import Users
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.waiting import wait_until

In = Callable[[str], Any]
ENDS = [(DrainContinuousQueryOperator, "drain"), (StopContinuousQueryOperator, "stop")]


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The DAG runs that are over, as Airflow says."""
    runs: set[str] = set()

    def get_dr_count(**asked: Any) -> int:
        assert (asked["dag_id"], asked["states"]) == ("a_dag", ["queued", "running"])
        return sum(run not in runs for run in asked["run_ids"])

    monkeypatch.setattr(RuntimeTaskInstance, "get_dr_count", get_dr_count)
    return runs


@pytest.fixture
def of(context: Any) -> In:
    """The context of a task in another DAG run."""

    def made(run_id: str) -> Any:
        task_instance = SimpleNamespace(**{**vars(context["ti"]), "run_id": run_id})
        store = type(context["task_state_store"])()
        return {**context, "ti": task_instance, "run_id": run_id, "task_state_store": store}

    return made


@pytest.fixture
def start(submitted: list[SubmittedQuery], spec: dict[str, Any]) -> Callable[..., Any]:
    def made(operator: Any = StartContinuousQueryOperator, **arguments: Any) -> Any:
        given = {"task_id": "t", "spec": spec, "deferrable": False, "poll_interval": 0.05}
        return operator(**{**given, "timeout": 120, **arguments})

    return made


def end(spec: dict[str, Any], operator: Any = DrainContinuousQueryOperator, **more: Any) -> Any:
    location = spec["checkpoint_location"]
    return operator(
        task_id="end", checkpoint_location=location, deferrable=False, poll_interval=0.05, **more
    )


def state(spec: dict[str, Any]) -> QueryState:
    return Checkpoint(spec["checkpoint_location"]).status().state


@pytest.mark.parametrize(("operator", "asks"), ENDS)
def test_the_last_one_out_ends_it(
    start: Any, spec: dict[str, Any], over: set[str], of: In, operator: Any, asks: str
) -> None:
    for run in ("one", "two"):
        start().execute(of(run))

    left = end(spec, operator).execute(of("one"))

    assert (left["state"], left["left_to"]) == ("RUNNING", ["a_dag, two"])
    assert state(spec) is QueryState.RUNNING
    assert end(spec, operator).execute(of("two"))["state"] == "STOPPED"


@pytest.mark.parametrize(("operator", "asks"), ENDS)
def test_who_was_not_told_of_the_others_has_not_left(
    start: Any, spec: dict[str, Any], over: set[str], of: In, operator: Any, asks: str
) -> None:
    """Airflow, or the storage, did not answer; the retry asks again."""
    for run in ("one", "two"):
        start().execute(of(run))
    context, answers = of("one"), RuntimeTaskInstance.get_dr_count

    def silent(**_: Any) -> int:
        raise ConnectionError("the API server is away")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RuntimeTaskInstance, "get_dr_count", silent)
        with pytest.raises(ConnectionError):
            end(spec, operator).execute(context)
    assert RuntimeTaskInstance.get_dr_count == answers

    left = end(spec, operator).execute(context)
    assert (left["state"], left["left_to"]) == ("RUNNING", ["a_dag, two"])
    assert end(spec, operator).execute(of("two"))["state"] == "STOPPED"


def test_a_dag_run_that_is_over_uses_nothing(
    start: Any, spec: dict[str, Any], over: set[str], of: In
) -> None:
    for run in ("one", "two"):
        start().execute(of(run))
    over.add("two")

    assert end(spec).execute(of("one"))["state"] == "STOPPED"


def test_who_has_no_part_in_it_is_refused(
    start: Any, spec: dict[str, Any], over: set[str], of: In
) -> None:
    start().execute(of("one"))

    with pytest.raises(AirflowFailException, match=r"is used by a_dag, one. .*force=True"):
        end(spec).execute(of("two"))
    assert state(spec) is QueryState.RUNNING

    assert end(spec, force=True).execute(of("two"))["state"] == "STOPPED"


@pytest.mark.parametrize("refused", [{"on_running": "fail"}, {"sql": "SELECT 1 AS value"}])
def test_a_start_that_was_refused_uses_nothing(
    start: Any, spec: dict[str, Any], over: set[str], of: In, refused: dict[str, str]
) -> None:
    start().execute(of("one"))
    sql = {"sql": refused.pop("sql", spec["sql"])}
    with pytest.raises(AirflowFailException):
        start(spec={**spec, **sql}, **refused).execute(of("two"))

    assert end(spec).execute(of("one"))["state"] == "STOPPED"


def test_it_goes_on_using_what_another_task_of_it_has_started(
    start: Any, spec: dict[str, Any], over: set[str], of: In
) -> None:
    for run in ("one", "two"):
        start().execute(of(run))
    context = of("two")
    context["ti"].task_id = "again"
    with pytest.raises(AirflowFailException):
        start(on_running="fail").execute(context)

    assert end(spec).execute(of("one"))["left_to"] == ["a_dag, two"]


def test_it_goes_on_using_what_another_mapped_task_of_it_has_started(
    start: Any, spec: dict[str, Any], over: set[str], of: In
) -> None:
    for run in ("one", "two"):
        context = of(run)
        context["ti"].map_index = 0
        start().execute(context)
    context["ti"].map_index = 1
    with pytest.raises(AirflowFailException):
        start(spec={**spec, "sql": "SELECT 1 AS value"}).execute(context)

    assert end(spec).execute(of("one"))["left_to"] == ["a_dag, two"]


def test_the_last_attempt_that_fails_uses_nothing(
    start: Any, spec: dict[str, Any], over: set[str], of: In
) -> None:
    noted = f"{spec['checkpoint_location']}/control/users"
    spec["conf"] = {"stand_in": "die"}
    context = of("one")
    for tries, left in ((1, 1), (3, 0)):
        context["ti"].try_number = tries
        with pytest.raises(QueryStartError):
            start().execute(context)

        assert len(list(Path(noted).glob("[!.]*"))) == left


def test_the_end_of_a_supervision_is_no_end_for_others(
    start: Any, spec: dict[str, Any], over: set[str], of: In
) -> None:
    start().execute(of("one"))

    result = start(RunContinuousQueryOperator, until_epoch=1).execute(of("two"))

    assert (result["reason"], result["state"]) == ("epoch", "RUNNING")
    assert end(spec).execute(of("one"))["state"] == "STOPPED"


def test_who_has_seen_its_end_uses_nothing(
    start: Any, spec: dict[str, Any], over: set[str], of: In
) -> None:
    """Its DAG run goes on, with other tasks; nobody else would end the query of the next one."""
    context = of("one")
    supervisor = start(RunContinuousQueryOperator, deferrable=True, takeover_grace=0)
    with pytest.raises(TaskDeferred) as waiting:
        supervisor.execute(context)
    trigger = waiting.value.trigger
    checkpoint = Checkpoint(spec["checkpoint_location"])
    checkpoint.requests.ask("drain", by="a person", run_id=trigger.run_id)
    assert supervisor.supervised(context, trigger.wait())["reason"] == "ended"

    start().execute(of("two"))

    assert end(spec).execute(of("two"))["state"] == "STOPPED"


@pytest.mark.parametrize(("tries", "ended"), [(1, False), (3, True)])
def test_who_has_given_up_uses_nothing(
    start: Any, spec: dict[str, Any], over: set[str], of: In, tries: int, ended: bool
) -> None:
    context = of("one")
    context["ti"].try_number = tries
    spec["conf"] = {"stand_in": "fail"}
    with pytest.raises(QueryFailedError):
        start(RunContinuousQueryOperator, restarts=0).execute(context)
    del spec["conf"]

    start(on_changed="adopt").execute(of("two"))

    assert ("left_to" not in end(spec).execute(of("two"))) is ended
    assert (state(spec) is QueryState.STOPPED) is ended


@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("drained", [False, True])
def test_a_start_that_has_seen_its_end_uses_nothing(
    start: Any, spec: dict[str, Any], over: set[str], of: In, tries: int, drained: bool
) -> None:
    """Of its last attempt, or of any if no retry comes because somebody has ended the query."""
    context = of("one")
    context["ti"].try_number = tries
    spec["conf"] = {"stand_in": "stuck" if drained else "fail"}
    task = start(wait_for=100, deferrable=drained)
    with pytest.raises(TaskDeferred if drained else QueryFailedError) as waiting:
        task.execute(context)
    if drained:
        deferred: Any = waiting.value
        trigger = deferred.trigger
        checkpoint = Checkpoint(spec["checkpoint_location"])
        checkpoint.requests.ask("drain", by="a person", run_id=trigger.run_id)
        with pytest.raises(QueryEndedError):
            task.execute_complete(context, trigger.wait())
    del spec["conf"]

    start(on_changed="adopt").execute(of("two"))

    assert ("left_to" in end(spec).execute(of("two"))) is (tries == 1 and not drained)


def test_a_start_that_has_ended_it_late_uses_nothing(
    start: Any, spec: dict[str, Any], over: set[str], of: In
) -> None:
    spec["conf"] = {"stand_in": "stuck"}
    context = of("one")
    start().execute(context)
    context["ti"].try_number = 3
    with pytest.raises(WaitTimeoutError, match="was asked to drain"):
        start(wait_for=3, timeout=0.2, on_kill_action="drain").execute(context)
    wait_until(lambda: state(spec) is QueryState.STOPPED, "it has drained")
    del spec["conf"]

    start(on_changed="adopt").execute(of("two"))

    assert end(spec).execute(of("two"))["state"] == "STOPPED"


@pytest.mark.parametrize(("tries", "uses"), [(1, True), (3, False)])
@pytest.mark.parametrize("deferrable", [False, True])
def test_who_has_waited_in_vain_for_the_end_of_a_run_uses_nothing(
    start: Any,
    spec: dict[str, Any],
    over: set[str],
    of: In,
    tries: int,
    uses: bool,
    deferrable: bool,
) -> None:
    """Of its last attempt: the others are followed by one that waits again."""
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold("old")
    live.checkpoint.requests.ask("drain", by="the one before", run_id="old")
    context = of("one")
    context["ti"].try_number = tries
    task = start(timeout=0.3, deferrable=deferrable)
    with pytest.raises(TaskDeferred if deferrable else WaitTimeoutError) as waiting:
        task.execute(context)
    if deferrable:
        deferred: Any = waiting.value
        with pytest.raises(WaitTimeoutError):
            task.woken(context, deferred.trigger.wait())
    live.end(QueryState.STOPPED)

    start(on_changed="adopt").execute(of("two"))

    assert ("left_to" in end(spec).execute(of("two"))) is uses


def test_nor_is_a_start_that_fails_late(
    start: Any, spec: dict[str, Any], over: set[str], of: In
) -> None:
    spec["conf"] = {"stand_in": "stuck"}
    context = of("one")
    start().execute(context)
    start().execute(of("two"))
    context["ti"].try_number = 3

    with pytest.raises(WaitTimeoutError, match="goes on, as it is used by a_dag, two"):
        start(wait_for=3, timeout=0.2, on_kill_action="drain").execute(context)


@pytest.mark.usefixtures("patient_start")
def test_who_has_waited_for_the_start_of_others_has_not_started_it(
    start: Any, spec: dict[str, Any], over: set[str], of: In, tmp_path: Path
) -> None:
    """The one who has is over, and has left the query running."""
    gate = tmp_path / "gate"
    spec["conf"] = {"lease_gate": str(gate), "gate": str(gate.with_suffix(".epochs"))}
    hook = ContinuousQueryHook()
    hook.submit(hook.specification(spec), "a_dag.t, one")
    gate.touch()
    context = of("two")
    context["ti"].try_number = 3

    with pytest.raises(WaitTimeoutError) as caught:
        start(wait_for=100, timeout=0.1, on_kill_action="drain").execute(context)

    assert "this task has started" not in str(caught.value)
    wait_until(lambda: state(spec) is QueryState.RUNNING, "it goes on")


def test_nor_a_killed_task(
    live: LiveCheckpoint, over: set[str], of: In, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killing, "task_state", lambda _: "failed")
    live.hold()
    hook, log = CheckpointHook(live.location), SimpleNamespace(info=lambda *_: None)
    one, two = (TaskIdentity.of(of(run)["ti"]) for run in ("one", "two"))
    killing.Users(live.checkpoint.storage, two.dag_id, two.run_id).enter()
    query = QueryOfTask("drain", hook, "run-1", one, log)

    assert not query.end()
    over.add("two")
    assert query.end()


def test_the_run_that_is_meant(live: LiveCheckpoint, context: Any) -> None:
    live.hold("run-2")
    spec = {"checkpoint_location": live.location}

    with pytest.raises(QueryEndedError, match=r"Run run-1 was not drained .* run run-2 of"):
        end(spec, run_id="run-1").execute(context)
    result = end(spec, StopContinuousQueryOperator, run_id="run-1").execute(context)

    assert (result["run_id"], result["state"]) == ("run-2", "RUNNING")
    assert live.checkpoint.requests.pending("run-2") is None


def test_a_run_that_was_asked_to_end_is_not_adopted(
    start: Any, spec: dict[str, Any], context: Any
) -> None:
    """The one that leaves has asked, and the run has not looked yet."""
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold("old")
    live.checkpoint.requests.ask("drain", by="the one before", run_id="old")

    with pytest.raises(WaitTimeoutError, match="the end of"):
        start(timeout=0.3).execute(context)


def asked_to_rescale(spec: dict[str, Any]) -> LiveCheckpoint:
    """A query that runs, and has not looked yet."""
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold("run-1")
    live.checkpoint.requests.ask("rescale", by="an operator", run_id="run-1")
    return live


@pytest.mark.parametrize(("operator", "asks"), ENDS)
def test_a_run_that_was_asked_to_rescale_does_not_end(
    spec: dict[str, Any], over: set[str], of: In, operator: Any, asks: str
) -> None:
    live = asked_to_rescale(spec)
    for run in ("one", "two"):
        Users(live.checkpoint.storage, "a_dag", run).enter()

    left = end(spec, operator, timeout=0.3).execute(of("one"))
    with pytest.raises(AirflowFailException, match=r"is used by a_dag, two. .*force=True"):
        end(spec, operator, timeout=0.3).execute(of("three"))

    assert left["left_to"] == ["a_dag, two"]
    assert live.checkpoint.requests.pending("run-1") == "rescale"


def test_and_is_adopted_at_once(start: Any, spec: dict[str, Any], context: Any) -> None:
    asked_to_rescale(spec)

    assert start(timeout=0.3, on_changed="adopt").execute(context)["run_id"] == "run-1"
