"""UpgradeContinuousQueryOperator, with real processes (``stand_in.py``)."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.errors import QueryEndedError
from airflow_provider_continuous.operators.query import (
    StartContinuousQueryOperator,
    UpgradeContinuousQueryOperator,
)
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import read_fingerprint, write_fingerprint
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint

Upgrade = Callable[..., UpgradeContinuousQueryOperator]
NEW = "SELECT value + 1 AS value FROM source"


@pytest.fixture
def upgrade(submitted: list[SubmittedQuery], spec: dict[str, Any]) -> Upgrade:
    def make(behaviour: dict[str, Any] | None = None, **arguments: Any) -> Any:
        new = {**spec, "sql": NEW, "conf": behaviour or {}}
        given = {
            "task_id": "upgrade",
            "spec": new,
            "rollback_spec": spec,
            "deferrable": False,
            "poll_interval": 0.05,
            "timeout": 120,
        }
        return UpgradeContinuousQueryOperator(**{**given, **arguments})

    return make


@pytest.fixture
def running(submitted: list[SubmittedQuery], spec: dict[str, Any], context: Any) -> dict[str, Any]:
    """The old version, which another task has started."""
    other = {**context, "task_state_store": type(context["task_state_store"])()}
    started = StartContinuousQueryOperator(
        task_id="start", spec=spec, deferrable=False, poll_interval=0.05, wait_for=2
    )
    return started.execute(other)


@pytest.fixture
def checkpoint(spec: dict[str, Any]) -> Checkpoint:
    return Checkpoint(spec["checkpoint_location"])


def version(checkpoint: Checkpoint) -> Any:
    parts = read_fingerprint(checkpoint.storage)
    assert parts is not None
    return parts["sql"]


def test_the_new_version_is_good(
    upgrade: Upgrade,
    running: dict[str, Any],
    checkpoint: Checkpoint,
    submitted: list[SubmittedQuery],
    context: Any,
) -> None:
    result = upgrade(watch_epochs="4", latency_max_ms=10, commit_max_ms=10).execute(context)

    assert result["upgraded"] is True
    assert result["run_id"] == checkpoint.status().run_id != running["run_id"]
    assert result["query_id"] == running["query_id"]
    assert result["epoch"] >= context["task_state_store"]["before_2"]["epoch"] + 4
    assert version(checkpoint) == NEW
    assert checkpoint.status().state is QueryState.RUNNING
    assert submitted[0].process.wait() == 0
    assert len(submitted) == 2
    assert checkpoint.pins() == []


def test_a_lag_that_cannot_be_told_is_refused_before_anything_happens(
    upgrade: Upgrade, running: dict[str, Any], checkpoint: Checkpoint, context: Any
) -> None:
    with pytest.raises(AirflowFailException, match="'rate' cannot be asked where it ends"):
        upgrade(lag_max=0, source={"format": "rate"}).execute(context)

    status = checkpoint.status()
    assert (status.run_id, status.state) == (running["run_id"], QueryState.RUNNING)


def test_a_retry_does_not_upgrade_twice(
    upgrade: Upgrade, running: dict[str, Any], submitted: list[SubmittedQuery], context: Any
) -> None:
    first = upgrade().execute(context)
    context["ti"].try_number = 2

    assert upgrade().execute(context)["run_id"] == first["run_id"]
    assert len(submitted) == 2


@pytest.mark.parametrize(
    ("behaviour", "arguments", "problem"),
    [
        ({"stand_in": "fail"}, {}, "it is FAILED at epoch .*the sink is full"),
        ({"stand_in": "refused"}, {}, "it is FAILED .*This is not the query"),
        ({"stand_in": "die"}, {}, "before it held its checkpoint.*\n?.*out of memory"),
        ({"stand_in": "wrong"}, {}, "no Java found"),
        ({"stand_in": "stuck"}, {"watch_timeout": 0.5}, "3 healthy epochs .* did not come within"),
        ({"latency_ms": 500}, {"watch_timeout": 0.5, "latency_max_ms": 100}, "did not come within"),
    ],
)
def test_the_new_version_is_no_good(
    upgrade: Upgrade,
    running: dict[str, Any],
    spec: dict[str, Any],
    checkpoint: Checkpoint,
    submitted: list[SubmittedQuery],
    context: Any,
    behaviour: dict[str, Any],
    arguments: dict[str, Any],
    problem: str,
) -> None:
    with pytest.raises(
        QueryEndedError, match=f"(?s)The new version is no good: .*{problem}"
    ) as told:
        upgrade(behaviour, **arguments).execute(context)

    before = context["task_state_store"]["before_2"]["epoch"]
    status = checkpoint.status()
    assert f"Run {status.run_id} of the old version goes on, from epoch {before}." in str(
        told.value
    )
    assert status.state is QueryState.RUNNING
    assert status.pid == submitted[-1].process.pid
    assert version(checkpoint) == spec["sql"]
    assert [query.process.wait() is not None for query in submitted[:-1]] == [True, True]
    assert len(submitted) == 3
    assert checkpoint.pins() == []


def test_it_may_succeed_all_the_same(
    upgrade: Upgrade, running: dict[str, Any], checkpoint: Checkpoint, context: Any
) -> None:
    result = upgrade({"stand_in": "fail"}, on_rollback="succeed").execute(context)

    assert (result["upgraded"], result["rewound"]) == (False, True)
    assert "the sink is full" in result["error"]
    assert result["run_id"] == checkpoint.status().run_id


def test_rows_of_the_new_version_that_the_sink_keeps(
    upgrade: Upgrade,
    spec: dict[str, Any],
    running: dict[str, Any],
    submitted: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
) -> None:
    """The old version then goes on behind them, and the task says so."""
    submitted[0].process.terminate()
    submitted[0].process.wait()
    write_fingerprint(checkpoint.storage, {"sink": {"format": "kafka", "options": {}}})

    result = upgrade({"stand_in": "fail"}, on_rollback="succeed").execute(context)

    before = context["task_state_store"]["before_2"]["epoch"]
    assert (result["upgraded"], result["rewound"]) == (False, False)
    assert "cannot take back" in context["task_state_store"]["went_back_2"]["reason"]
    assert checkpoint.committed_offsets(before + 1) is not None, "the epoch of the new version"
    assert checkpoint.status().state is QueryState.RUNNING


def test_without_the_old_specification(
    upgrade: Upgrade,
    running: dict[str, Any],
    checkpoint: Checkpoint,
    submitted: list[SubmittedQuery],
    context: Any,
) -> None:
    with pytest.raises(QueryEndedError, match="Nothing runs now, as there is no rollback_spec"):
        upgrade({"stand_in": "fail"}, rollback_spec=None).execute(context)

    assert len(submitted) == 2
    assert not checkpoint.status().state.is_active
    assert checkpoint.committed_epoch() == context["task_state_store"]["before_2"]["epoch"]


def test_the_old_version_does_not_come_back(
    upgrade: Upgrade, running: dict[str, Any], spec: dict[str, Any], context: Any
) -> None:
    old = {**spec, "conf": {"stand_in": "refused"}}

    with pytest.raises(QueryEndedError, match=r"(?s)sink is full.*old one does not run either"):
        upgrade({"stand_in": "fail"}, rollback_spec=old).execute(context)


def test_a_retry_goes_on_with_the_roll_back(
    upgrade: Upgrade,
    running: dict[str, Any],
    spec: dict[str, Any],
    submitted: list[SubmittedQuery],
    checkpoint: Checkpoint,
    context: Any,
) -> None:
    submitted[0].process.send_signal(signal.SIGSTOP)  # it takes its time to drain
    with pytest.raises(TaskDeferred) as caught:
        upgrade({"stand_in": "stuck"}, watch_timeout=0.3, deferrable=True).execute(context)
    assert caught.value.method_name == "drained"
    submitted[0].process.send_signal(signal.SIGCONT)
    event = caught.value.trigger.wait()  # type: ignore[attr-defined]
    with pytest.raises(TaskDeferred) as caught:
        upgrade({"stand_in": "stuck"}, watch_timeout=0.3, deferrable=True).drained(context, event)
    assert caught.value.method_name == "watched"
    event = caught.value.trigger.wait()  # type: ignore[attr-defined]
    submitted[1].process.send_signal(signal.SIGSTOP)  # it takes its time to stop
    with pytest.raises(TaskDeferred) as caught:
        upgrade({"stand_in": "stuck"}, deferrable=True).watched(context, event)
    assert caught.value.method_name == "stopped"
    submitted[1].process.send_signal(signal.SIGCONT)
    context["ti"].try_number = 2

    with pytest.raises(QueryEndedError, match="Rolled back"):
        upgrade({"stand_in": "stuck"}).execute(context)

    assert len(submitted) == 3
    assert version(checkpoint) == spec["sql"]


def test_somebody_else_starts_the_query_in_between(
    upgrade: Upgrade, spec: dict[str, Any], submitted: list[SubmittedQuery], context: Any
) -> None:
    live = LiveCheckpoint(spec["checkpoint_location"])
    live.hold("old")
    with pytest.raises(TaskDeferred) as caught:
        upgrade(deferrable=True).execute(context)
    live.end(QueryState.STOPPED)
    event = caught.value.trigger.wait()  # type: ignore[attr-defined]
    live.hold("another")

    with pytest.raises(AirflowFailException, match="Run another is RUNNING"):
        upgrade().drained(context, event)

    assert submitted == []
    assert live.checkpoint.requests.pending("another") is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"watch_epochs": 0}, "watch_epochs is 0"),
        ({"spec": {"source": {"format": "rate"}}}, "checkpoint_location is empty"),
        ({"rollback_spec": {"source": {"format": "rate"}}}, "checkpoint_location is empty"),
    ],
)
def test_bad_input_fails_before_the_old_version_is_drained(
    upgrade: Upgrade,
    running: dict[str, Any],
    submitted: list[SubmittedQuery],
    context: Any,
    arguments: dict[str, Any],
    problem: str,
) -> None:
    with pytest.raises(AirflowFailException, match=problem):
        upgrade(**arguments).execute(context)

    assert submitted[0].process.poll() is None


def test_nothing_to_upgrade(
    upgrade: Upgrade, submitted: list[SubmittedQuery], context: Any
) -> None:
    with pytest.raises(AirflowFailException, match="no query of this engine at"):
        upgrade().execute(context)

    assert submitted == []


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="on_rollback is 'skip'"):
        UpgradeContinuousQueryOperator(task_id="up", spec={}, on_rollback="skip")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no on_changed"):
        UpgradeContinuousQueryOperator(task_id="up", spec={}, on_changed="adopt")
