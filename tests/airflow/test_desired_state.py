"""A task compares what it wants with what runs, with real processes (``stand_in.py``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import (
    RestartContinuousQueryOperator,
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
    UpgradeContinuousQueryOperator,
)
from airflow_provider_continuous.tasks.users import Users
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

NEW = "SELECT value + 1 AS value FROM source"
DIFFERS = "sql: SELECT value FROM source → SELECT value [+] 1 AS value FROM source"

Make = Callable[..., Any]


@pytest.fixture
def make(submitted: list[SubmittedQuery], spec: dict[str, Any]) -> Make:
    def made(operator: Any = StartContinuousQueryOperator, **arguments: Any) -> Any:
        given = {"task_id": "t", "spec": spec, "deferrable": False, "poll_interval": 0.05}
        return operator(**{**given, "timeout": 120, **arguments})

    return made


@pytest.fixture
def running(make: Make, context: Any) -> dict[str, Any]:
    """The query as it was, started by another DAG run."""
    return make().execute(another_dag_run(context))


def another_dag_run(context: Any) -> Any:
    return {**context, "run_id": "another", "task_state_store": type(context["task_state_store"])()}


def state(spec: dict[str, Any]) -> Any:
    return Checkpoint(spec["checkpoint_location"]).status()


@pytest.mark.parametrize("operator", [StartContinuousQueryOperator, RunContinuousQueryOperator])
def test_another_sql_is_refused(
    make: Make, spec: dict[str, Any], running: dict[str, Any], context: Any, operator: Any
) -> None:
    with pytest.raises(AirflowFailException, match=f"is not the query of this task: {DIFFERS}"):
        make(operator, spec={**spec, "sql": NEW}).execute(context)

    assert (state(spec).run_id, state(spec).state) == (running["run_id"], QueryState.RUNNING)


def test_another_sql_may_be_adopted(
    make: Make,
    spec: dict[str, Any],
    running: dict[str, Any],
    context: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    task = make(spec={**spec, "sql": NEW}, on_changed="adopt")

    assert task.execute(context)["run_id"] == running["run_id"]
    assert "which differs until its next start: sql: SELECT value FROM" in capsys.readouterr().out


def test_another_sql_takes_over(
    make: Make,
    spec: dict[str, Any],
    running: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
) -> None:
    task = make(spec={**spec, "sql": NEW}, on_changed="upgrade")

    result = task.execute(context)
    again = task.execute(context)

    assert result["run_id"] == again["run_id"] != running["run_id"]
    assert submitted[0].process.wait() == 0, "the old one has drained"
    assert len(submitted) == 2


def test_other_settings_are_told(
    make: Make,
    spec: dict[str, Any],
    running: dict[str, Any],
    context: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    task = make(spec={**spec, "conf": {"spark.executor.memory": "4g"}})

    assert task.execute(context)["run_id"] == running["run_id"]
    assert "conf.spark.executor.memory: nothing → 4g" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (StartContinuousQueryOperator, {"on_changed": "upgrade"}),
        (RestartContinuousQueryOperator, {}),
        (UpgradeContinuousQueryOperator, {}),
    ],
)
def test_another_sink_is_refused_before_anything_ends(
    make: Make,
    spec: dict[str, Any],
    running: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
    operator: Any,
    arguments: dict[str, Any],
) -> None:
    changed = {**spec, "sink": {"format": "console"}}

    with pytest.raises(AirflowFailException, match=r"sink.format: noop → console \(it does not"):
        make(operator, spec=changed, **arguments).execute(context)

    assert (state(spec).run_id, state(spec).state) == (running["run_id"], QueryState.RUNNING)
    assert len(submitted) == 1


def test_a_retry_compares_as_well(
    make: Make, spec: dict[str, Any], submitted: list[SubmittedQuery], context: Any
) -> None:
    """The DAG's file has changed between two attempts."""
    make().execute(context)
    context["ti"].try_number = 2

    with pytest.raises(AirflowFailException, match=DIFFERS):
        make(spec={**spec, "sql": NEW}).execute(context)
    assert len(submitted) == 1


@pytest.mark.parametrize("on_changed", ["refuse", "adopt", "upgrade"])
def test_a_submission_on_its_way_is_compared(
    make: Make,
    spec: dict[str, Any],
    submitted: list[SubmittedQuery],
    tmp_path: Path,
    context: Any,
    on_changed: Any,
) -> None:
    gate = tmp_path / "gate"
    hook = ContinuousQueryHook()
    held = {**spec, "conf": {"lease_gate": str(gate)}}
    first = hook.submit(hook.specification(held), "somebody")
    task = make(spec={**held, "sql": NEW}, on_changed=on_changed)
    if on_changed == "refuse":
        with pytest.raises(AirflowFailException, match=rf"(?s)Submission \S+ is not .*{DIFFERS}"):
            task.execute(context)
        assert first.process.poll() is None
        return

    gate.touch()
    result = task.execute(context)

    ours = on_changed == "upgrade"
    assert result["run_id"] == state(spec).run_id
    assert (state(spec).pid != first.process.pid) is ours
    assert len({each.handle.name for each in submitted}) == (2 if ours else 1)


def test_of_a_run_from_the_command_line_places_are_compared(
    make: Make, spec: dict[str, Any], context: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold("by-hand")
    recorded = {"sources": [{"format": "rate", "options": {}}], "sink": {"format": "noop"}}
    write_fingerprint(live.checkpoint.storage, recorded)

    assert make().execute(context)["run_id"] == "by-hand"
    assert "Nobody has noted the document of run by-hand" in capsys.readouterr().out
    with pytest.raises(AirflowFailException, match=r"sink.format: noop → console"):
        make(spec={**spec, "sink": {"format": "console"}}).execute(another_dag_run(context))
    live.end(QueryState.STOPPED)


def test_what_is_noted_has_no_secret(make: Make, spec: dict[str, Any], context: Any) -> None:
    spec["source"]["options"]["password"] = "s3cret-word"

    make().execute(context)

    notes = Path(spec["checkpoint_location"]) / "control" / "submissions"
    noted = [note.read_text() for note in notes.iterdir()]
    assert noted
    assert not any("s3cret-word" in text for text in noted)
    assert all("SELECT value FROM source" in text for text in noted)


@pytest.mark.parametrize("on_changed", ["refuse", "upgrade"])
def test_an_upgrade_by_another_task_is_adopted_and_not_taken_back(
    make: Make,
    spec: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
    capsys: pytest.CaptureFixture[str],
    on_changed: Any,
) -> None:
    arguments = {"deferrable": True, "restart_delay": 0.0, "on_changed": on_changed}
    task = make(RunContinuousQueryOperator, takeover_grace=60, **arguments)
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    make(spec={**spec, "sql": NEW}, on_changed="upgrade").execute(another_dag_run(context))

    event = caught.value.trigger.wait()  # type: ignore[attr-defined]
    with pytest.raises(TaskDeferred) as caught:
        task.supervised(context, event)
    assert "which differs until its next start: sql: SELECT value + 1 AS" in capsys.readouterr().out
    submitted[1].process.kill()
    submitted[1].process.wait()
    event = caught.value.trigger.wait()  # type: ignore[attr-defined]

    if on_changed == "refuse":
        with pytest.raises(AirflowFailException, match="is not the query of this task: sql"):
            task.supervised(context, event)
        users = Users(Checkpoint(spec["checkpoint_location"]).storage, "a_dag", "a_run")
        assert not users.leave(), "who has given the query up uses it no longer"
    else:
        with pytest.raises(TaskDeferred):
            task.supervised(context, event)
    assert len(submitted) == (2 if on_changed == "refuse" else 3)
