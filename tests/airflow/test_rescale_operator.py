"""RescaleContinuousQueryOperator."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException, TaskDeferred
from airflow_provider_continuous.errors import QueryEndedError
from airflow_provider_continuous.operators.query import RescaleContinuousQueryOperator
from airflow_provider_continuous.triggers.query import QueryRescaledTrigger
from engine.checkpoint.epoch_state import EpochState
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry
from engine.checkpoint.query_state import QueryState
from engine.checkpoint.rescaling import wanted_reducers
from tests.airflow.live_checkpoint import LiveCheckpoint


def rescaling(live: LiveCheckpoint, reducers: Any = 4) -> RescaleContinuousQueryOperator:
    return RescaleContinuousQueryOperator(
        task_id="rescale",
        checkpoint_location=live.location,
        reducers=reducers,
        timeout=600,
        poll_interval=0.05,
    )


def commit_state(live: LiveCheckpoint, groups: int | None = 16) -> None:
    metadata = EpochState(key_groups=groups).added_to(None)
    assert live.checkpoint.offsets.add(0, OffsetEntry((1,), metadata))
    assert live.checkpoint.commits.add(0, CommitEntry())


def waiting(live: LiveCheckpoint, context: Any, reducers: Any = 4) -> tuple[Any, Any]:
    """A task that has asked a query with state, and the trigger that waits for it."""
    live.hold("run-1")
    commit_state(live)
    task = rescaling(live, reducers)
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    return task, caught.value.trigger  # type: ignore[attr-defined]


def test_it_asks_and_waits_for_the_new_tasks(live: LiveCheckpoint, context: Any) -> None:
    task, found = waiting(live, context, "4")
    assert live.checkpoint.requests.pending("run-1") == "rescale"
    assert wanted_reducers(live.checkpoint.storage) == 4

    class_path, arguments = found.serialize()
    assert class_path.endswith("triggers.query.QueryRescaledTrigger")
    trigger = QueryRescaledTrigger(**json.loads(json.dumps(arguments)))
    assert trigger.observe() is None
    live.hold("run-1", QueryState.STARTING)
    assert trigger.observe() is None
    live.hold("run-1")  # the next generation of the same run
    event = trigger.observe()
    assert event is not None
    result = task.execute_complete(context, event)
    assert (result["run_id"], result["epoch"], result["reducers"]) == ("run-1", 0, 4)


def test_a_retry_does_not_ask_twice(live: LiveCheckpoint, context: Any) -> None:
    live.hold("run-1")
    commit_state(live)
    with pytest.raises(TaskDeferred):
        rescaling(live).execute(context)
    live.checkpoint.requests.clear()
    live.hold("run-1")
    assert rescaling(live).execute(context)["state"] == "RUNNING"
    assert live.checkpoint.requests.pending("run-1") is None


def test_a_query_that_does_not_run_begins_with_it(live: LiveCheckpoint, context: Any) -> None:
    live.hold("run-1")
    commit_state(live)
    live.end(QueryState.STOPPED)
    assert rescaling(live).execute(context)["state"] == "STOPPED"
    assert wanted_reducers(live.checkpoint.storage) == 4
    context["ti"].max_tries += 1
    assert rescaling(live, 0).execute(context)["reducers"] is None
    assert wanted_reducers(live.checkpoint.storage) is None


def test_a_query_that_ends_first(live: LiveCheckpoint, context: Any) -> None:
    task, trigger = waiting(live, context)
    live.end(QueryState.FAILED, "boom")
    with pytest.raises(QueryEndedError, match="FAILED at epoch 0: boom"):
        task.execute_complete(context, trigger.wait())


def test_a_run_that_has_taken_over_has_begun_with_it(live: LiveCheckpoint, context: Any) -> None:
    task, trigger = waiting(live, context)
    live.end(QueryState.FAILED, "boom")
    live.hold("run-2", QueryState.STARTING)
    assert trigger.observe() is None
    live.hold("run-2")

    assert task.execute_complete(context, trigger.observe())["run_id"] == "run-2"


@pytest.mark.parametrize(
    ("groups", "reducers", "why"),
    [
        (16, 17, "16 key groups"),
        (None, 2, "keeps no state"),
        (16, "many", "reducers is 'many'"),
        (16, -1, "reducers is -1"),
    ],
)
def test_what_cannot_be(
    live: LiveCheckpoint, context: Any, groups: int | None, reducers: Any, why: str
) -> None:
    live.hold("run-1")
    commit_state(live, groups)
    with pytest.raises(AirflowFailException, match=why):
        rescaling(live, reducers).execute(context)
    assert live.checkpoint.requests.pending("run-1") is None
    assert wanted_reducers(live.checkpoint.storage) is None
