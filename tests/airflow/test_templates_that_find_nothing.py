"""A template that has found nothing is None where a DAG renders native objects: no argument that
was left out, without which a task would take another query, or another connection."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.notifications.query import ContinuousQueryNotifier
from airflow_provider_continuous.operators.checkpoint import RewindCheckpointOperator
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
    UpgradeContinuousQueryOperator,
)
from airflow_provider_continuous.operators.table import MaintainTableOperator
from engine.errors import ConfigError
from tests.airflow.live_checkpoint import LiveCheckpoint

NAMES = [
    "checkpoint_location",
    "query_name",
    "storage_conn_id",
    "source_connection",
    "sink_connection",
    "connections",
    "environment",
    "spark_submit",
]


def refused(task: Any, context: Any, name: str) -> None:
    setattr(task, name, None)
    with pytest.raises(AirflowFailException, match=f"^{name} is None, though the DAG says it"):
        task.execute(context)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operator", [StartContinuousQueryOperator, RunContinuousQueryOperator])
def test_no_query_is_started(
    submitted: list[SubmittedQuery],
    spec: dict[str, Any],
    context: Any,
    connection: Any,
    tmp_path: Any,
    operator: Any,
    name: str,
) -> None:
    connection("continuous_default", "continuous", extra={"checkpoint-root": str(tmp_path)})
    task = operator(task_id="t", spec=spec, deferrable=False, **{name: "{{ what }}"})

    refused(task, context, name)

    assert submitted == []


@pytest.mark.parametrize("name", ["rollback_spec", "source"])
def test_no_query_is_upgraded(
    live: LiveCheckpoint, spec: dict[str, Any], context: Any, name: str
) -> None:
    live.hold("run-1")
    given: Any = {"spec": spec, "checkpoint_location": live.location, "lag_max": 1, "source": {}}
    task = UpgradeContinuousQueryOperator(task_id="t", **{**given, name: "{{ what }}"})

    refused(task, context, name)

    assert live.checkpoint.requests.pending("run-1") is None


def test_no_query_of_another_root_is_drained(
    live: LiveCheckpoint, context: Any, connection: Any
) -> None:
    live.hold("run-1")
    root, _, name = live.location.rpartition("/")
    connection("continuous_default", "continuous", extra={"checkpoint-root": root})
    task = DrainContinuousQueryOperator(
        task_id="t", checkpoint_location=name, continuous_conn_id="{{ what }}", deferrable=False
    )

    refused(task, context, "continuous_conn_id")

    assert live.checkpoint.requests.pending("run-1") is None


def test_nothing_is_rewound_or_maintained(live: LiveCheckpoint, context: Any) -> None:
    location: Any = {"task_id": "t", "checkpoint_location": live.location}
    live.hold("run-1")

    refused(RewindCheckpointOperator(to_pin="{{ what }}", **location), context, "to_pin")
    table: Any = "{{ what }}"
    refused(MaintainTableOperator(table=table, **location), context, "table")


@pytest.mark.parametrize("name", ["checkpoint_location", "storage_conn_id"])
def test_a_callback_asks_no_other_query(live: LiveCheckpoint, context: Any, name: str) -> None:
    """That of the task whose callback it is, for example."""
    live.hold("run-1")
    task = DrainContinuousQueryOperator(task_id="t", checkpoint_location=live.location)
    said: Any = {name: "{{ what }}"}
    notifier = ContinuousQueryNotifier(ask="stop", force=True, **said)
    setattr(notifier, name, None)

    with pytest.raises(ConfigError, match=f"^{name} is None"):
        notifier.notify(context | {"task": task})

    assert live.checkpoint.requests.pending("run-1") is None


def test_a_callback_says_that_it_has_no_webhook(live: LiveCheckpoint, context: Any) -> None:
    live.hold("run-1")
    notifier = ContinuousQueryNotifier(
        checkpoint_location=live.location, ask="stop", force=True, webhook_conn_id="{{ what }}"
    )
    notifier.webhook_conn_id = None

    with pytest.raises(ConfigError, match=r"^webhook_conn_id is None"):
        notifier.notify(context)

    assert live.checkpoint.requests.pending("run-1") is not None


@pytest.mark.parametrize("said", [{"query_name": "None"}, {"spec": {"name": "None"}}])
def test_a_name_that_is_none_is_no_folder_of_the_root(
    submitted: list[SubmittedQuery],
    spec: dict[str, Any],
    context: Any,
    connection: Any,
    tmp_path: Any,
    said: dict[str, Any],
) -> None:
    """As text: two queries would have one checkpoint."""
    connection("continuous_default", "continuous", extra={"checkpoint-root": str(tmp_path)})
    del spec["checkpoint_location"]
    spec |= said.pop("spec", {})
    task = StartContinuousQueryOperator(task_id="t", spec=spec, deferrable=False, **said)

    with pytest.raises(AirflowFailException, match="The name of the query is 'None'"):
        task.execute(context)

    assert submitted == []
