"""A run that this very task has started is its own, also if its worker has died before it could
remember that. The processes are real; what runs in them is ``stand_in.py`` instead of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.deploy import processes
from airflow_provider_continuous.deploy.notes import Notes
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import StartContinuousQueryOperator
from scripts.local_airflow.rest import wait_for


class WorkerDied(BaseException):
    """Nothing of the provider runs behind this."""


def _attempt(spec: dict[str, Any], on_running: Any = "fail") -> StartContinuousQueryOperator:
    return StartContinuousQueryOperator(
        task_id="start", spec=spec, on_running=on_running, deferrable=False
    )


@pytest.fixture(params=["the process is noted", "nothing is known of the process"])
def running(
    request: pytest.FixtureRequest,
    stand_in: None,
    spec: dict[str, Any],
    tmp_path: Path,
    context: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The run that an attempt has started whose worker died there and then."""
    gate = tmp_path / "gate"
    spec["conf"] = {"lease_gate": str(gate)}
    hook, submit = ContinuousQueryHook(), ContinuousQueryHook.submit

    def submit_and_die(*given: Any) -> Any:
        submit(*given)
        raise WorkerDied

    with monkeypatch.context() as patch:
        patch.setattr(ContinuousQueryHook, "submit", submit_and_die)
        if "nothing" in request.param:
            patch.setattr(Notes, "write", lambda *_: None)
        with pytest.raises(WorkerDied):
            _attempt(spec).execute(context)
    monkeypatch.setattr(processes, "child", lambda _: None)
    gate.touch()
    location = spec["checkpoint_location"]
    wait_for(lambda: hook.status(location).state.is_active, 120, "its run", 0.01)
    return str(hook.status(location).run_id)


@pytest.mark.parametrize("on_running", ["adopt", "fail", "replace"])
def test_a_retry_goes_on_with_it(
    running: str, spec: dict[str, Any], context: Any, on_running: str
) -> None:
    assert _attempt(spec, on_running).execute(context)["run_id"] == running


def test_to_a_task_that_was_cleared_it_is_another_run(
    running: str, spec: dict[str, Any], context: Any
) -> None:
    context["ti"].max_tries += 1

    with pytest.raises(AirflowFailException, match=r"is (STARTING|RUNNING) on .* already"):
        _attempt(spec).execute(context)


def test_a_task_that_was_cleared_replaces_it(
    running: str, spec: dict[str, Any], context: Any
) -> None:
    context["ti"].max_tries += 1

    assert _attempt(spec, "replace").execute(context)["run_id"] != running
