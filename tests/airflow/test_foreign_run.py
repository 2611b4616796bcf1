"""A run on a cluster is not that of a task whose own submission has ended without one."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.deploy.submitted import QueryStartError
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import StartContinuousQueryOperator
from engine.checkpoint.query_state import QueryState
from tests.airflow.live_checkpoint import LiveCheckpoint
from tests.airflow.submitting import Submitting


class WorkerDied(BaseException):
    """Nothing of the provider runs behind this."""


def _attempt(spec: dict[str, Any], **arguments: Any) -> StartContinuousQueryOperator:
    given = {"task_id": "start", "spec": spec, "on_running": "fail", "deferrable": False}
    return StartContinuousQueryOperator(**{**given, **arguments})


@pytest.fixture
def has_failed(submitting: Submitting, spec: dict[str, Any]) -> None:
    """The cluster takes nothing of what is submitted."""
    submitting.does("echo the queue is full; exit 2", "cluster")


@pytest.fixture
def others(spec: dict[str, Any]) -> LiveCheckpoint:
    return LiveCheckpoint(spec["checkpoint_location"])


def test_a_retry_does_not_take_it_for_its_own(
    has_failed: None, spec: dict[str, Any], context: Any, others: LiveCheckpoint
) -> None:
    with pytest.raises(QueryStartError, match="the queue is full"):
        _attempt(spec).execute(context)
    others.hold("of somebody else")

    with pytest.raises(AirflowFailException, match="Run of somebody else is RUNNING on"):
        _attempt(spec).execute(context)


def test_nor_where_nobody_has_seen_how_the_submission_ended(
    has_failed: None,
    spec: dict[str, Any],
    context: Any,
    others: LiveCheckpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dies(*_: Any) -> None:
        raise WorkerDied

    with monkeypatch.context() as patch:
        patch.setattr(ContinuousQueryHook, "started_within", dies)
        with pytest.raises(WorkerDied):
            _attempt(spec).execute(context)
    others.hold("of somebody else")

    with pytest.raises(AirflowFailException, match="Run of somebody else is RUNNING on"):
        _attempt(spec).execute(context)


def test_one_that_came_meanwhile_is_not_reported_as_its_own(
    has_failed: None, spec: dict[str, Any], others: LiveCheckpoint
) -> None:
    hook = ContinuousQueryHook()
    submitted = hook.submit(hook.specification(spec))
    submitted.process.wait(120)
    others.hold("of somebody else")

    with pytest.raises(QueryStartError, match="the queue is full"):
        hook.wait_until_started(submitted, 120)
    assert submitted.handle.run_id is None


def test_a_run_that_ended_between_two_looks_is_its_own(
    has_failed: None, spec: dict[str, Any], others: LiveCheckpoint
) -> None:
    hook = ContinuousQueryHook()
    submitted = hook.submit(hook.specification(spec))
    submitted.process.wait(120)
    others.hold("a short one")
    others.end(QueryState.FAILED, "no such topic")

    assert hook.wait_until_started(submitted, 120).run_id == "a short one"
