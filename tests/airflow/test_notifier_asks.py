"""A callback that asks a query to end keeps the rule of Drain and Stop: others may use it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_provider_continuous.notifications.query import ContinuousQueryNotifier
from airflow_provider_continuous.tasks.users import Users
from engine.base.clock import SystemClock
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.standing_by import OwnNote
from tests.airflow.live_checkpoint import LiveCheckpoint


class Collects(BaseNotifier):
    """Notes the text."""

    template_fields = ("text",)

    def __init__(self, text: str = "{{ query_text }}") -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        self.sent = self.text


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The DAG runs that go on, as Airflow says."""
    runs = {"a_run", "another"}
    monkeypatch.setattr(
        RuntimeTaskInstance,
        "get_dr_count",
        lambda **asked: sum(run in runs for run in asked["run_ids"]),
    )
    return runs


@pytest.fixture
def used(live: LiveCheckpoint, on: set[str]) -> LiveCheckpoint:
    """A query that two DAG runs use."""
    live.hold("run-1")
    for run in ("a_run", "another"):
        users(live, run).enter()
    return live


def users(live: LiveCheckpoint, run: str) -> Users:
    return Users(live.checkpoint.storage, "a_dag", run)


def tell(live: LiveCheckpoint, context: Any, **arguments: Any) -> str:
    """Call back; return what people were told."""
    other = Collects()
    notifier = ContinuousQueryNotifier(
        checkpoint_location=live.location, notifiers=[other], **arguments
    )
    notifier(context)
    return other.sent


ASKS = pytest.mark.parametrize("ask", ["drain", "stop"])


@ASKS
def test_a_query_that_others_use_is_left_to_them(
    used: LiveCheckpoint, context: Any, ask: str
) -> None:
    text = tell(used, context, ask=ask)

    assert used.checkpoint.requests.pending("run-1") is None
    assert f"It was not asked to {ask}: it is used by a_dag, another." in text
    assert not users(used, "a_run").leave(), "the last one out ends it"


@ASKS
def test_the_last_one_out_ends_it(
    used: LiveCheckpoint, context: Any, on: set[str], ask: str
) -> None:
    on.remove("another")

    text = tell(used, context, ask=ask)

    assert used.checkpoint.requests.pending("run-1") == ask
    assert f"It was asked to {ask}." in text


@ASKS
def test_it_may_be_forced(used: LiveCheckpoint, context: Any, ask: str) -> None:
    tell(used, context, ask=ask, force=True)

    assert used.checkpoint.requests.pending("run-1") == ask


def test_to_be_forced_it_has_to_ask() -> None:
    with pytest.raises(ValueError, match="force is for a notifier that asks"):
        ContinuousQueryNotifier(force=True)


def test_a_callback_of_a_deadline_has_a_dag_run_as_json(used: LiveCheckpoint) -> None:
    users(used, "another").leave()
    context = {"dag_run": {"dag_id": "a_dag", "dag_run_id": "a_run"}, "deadline": {}}

    tell(used, context, ask="drain")

    assert used.checkpoint.requests.pending("run-1") == "drain"


def test_a_callback_of_a_dag_has_a_dag_run(used: LiveCheckpoint) -> None:
    users(used, "another").leave()

    tell(used, {"dag_run": SimpleNamespace(dag_id="a_dag", run_id="a_run")}, ask="drain")

    assert used.checkpoint.requests.pending("run-1") == "drain"


def test_where_nobody_tells_who_uses_it_nothing_is_asked(
    used: LiveCheckpoint, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(**_: Any) -> int:
        raise RuntimeError("Unhandled request, password=hunter2")

    monkeypatch.setattr(RuntimeTaskInstance, "get_dr_count", silent)

    text = tell(used, context, ask="drain")

    assert used.checkpoint.requests.pending("run-1") is None
    assert "It was not asked to drain: who else uses it cannot be told from here" in text
    assert "hunter2" not in text
    assert users(used, "a_run").leave(), "a Drain may still ask"


def test_only_the_run_that_was_seen_is_asked(live: LiveCheckpoint, context: Any) -> None:
    live.hold("run-1")

    tell(live, context, ask="drain")

    assert live.checkpoint.requests.pending("run-2") is None


def test_a_query_that_has_ended_is_asked_nothing(live: LiveCheckpoint, context: Any) -> None:
    live.hold("run-1")
    live.end(QueryState.FAILED, "disk full")

    text = tell(live, context, ask="drain")

    assert live.checkpoint.requests.pending("run-1") is None
    assert "asked" not in text


def test_a_lost_run_that_a_standby_follows_is_asked(live: LiveCheckpoint, context: Any) -> None:
    """The standby would take over, and nobody would end it."""
    live.hold("run-1")
    live.lose()
    OwnNote(live.checkpoint.storage, SystemClock()).tell()

    tell(live, context, ask="stop")

    assert live.checkpoint.requests.pending("run-1") == "stop"
