"""A template that has found nothing is None where a DAG renders native objects: no argument that
was left out, without which a task would take another query, or another connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.notifications.query import ContinuousQueryNotifier
from airflow_provider_continuous.operators.checkpoint import (
    CopyCheckpointOperator,
    InspectCheckpointOperator,
    PinEpochOperator,
    PruneCheckpointOperator,
    PublishMetricsOperator,
    RewindCheckpointOperator,
    UnpinEpochOperator,
    publish,
)
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    RescaleContinuousQueryOperator,
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
    UpgradeContinuousQueryOperator,
)
from airflow_provider_continuous.operators.table import MaintainTableOperator
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor
from airflow_provider_continuous.sensors.health import QueryHealthSensor
from airflow_provider_continuous.sensors.offsets import OffsetsCommittedSensor
from airflow_provider_continuous.sensors.watermark import WatermarkSensor
from engine.checkpoint.query_state import QueryState
from engine.errors import ConfigError
from tests.airflow.live_checkpoint import LiveCheckpoint

NAMES = [
    "checkpoint_location",
    "query_name",
    "continuous_conn_id",
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


@pytest.mark.parametrize(
    ("operator", "others"),
    [(DrainContinuousQueryOperator, {}), (RescaleContinuousQueryOperator, {"reducers": 2})],
)
def test_no_query_of_another_storage_is_asked(
    live: LiveCheckpoint, context: Any, operator: Any, others: dict[str, Any]
) -> None:
    live.hold("run-1")
    live.commit(0)
    task = operator(
        task_id="t",
        checkpoint_location=live.location,
        storage_conn_id="{{ what }}",
        deferrable=False,
        timeout=0,
        **others,
    )

    refused(task, context, "storage_conn_id")

    assert live.checkpoint.requests.pending("run-1") is None


@pytest.mark.parametrize(
    ("operator", "others", "name"),
    [
        (InspectCheckpointOperator, {}, "storage_conn_id"),
        (PublishMetricsOperator, {}, "storage_conn_id"),
        (UnpinEpochOperator, {"name": "gold"}, "storage_conn_id"),
        (PinEpochOperator, {"name": "silver"}, "storage_conn_id"),
        (PinEpochOperator, {"name": "silver"}, "sink"),
        (PruneCheckpointOperator, {"keep_epochs": 2}, "storage_conn_id"),
        (PruneCheckpointOperator, {"keep_epochs": 2, "compact_sink": True}, "sink"),
        (PruneCheckpointOperator, {"keep_epochs": 2, "remove_orphans": True}, "sink_path"),
        (RewindCheckpointOperator, {"to_epoch": 1}, "storage_conn_id"),
        (RewindCheckpointOperator, {"to_epoch": 1}, "sink"),
        (CopyCheckpointOperator, {}, "storage_conn_id"),
        (CopyCheckpointOperator, {}, "target_conn_id"),
        (MaintainTableOperator, {}, "storage_conn_id"),
        (MaintainTableOperator, {"table": {"format": "delta"}}, "checkpoint_location"),
        (MaintainTableOperator, {}, "file_bytes"),
    ],
)
def test_a_checkpoint_stays_as_it_is(
    live: LiveCheckpoint,
    context: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operator: Any,
    others: dict[str, Any],
    name: str,
) -> None:
    monkeypatch.setattr(publish, "somebody_listens", lambda: True)
    live.commit(*range(5))
    live.hold()
    live.checkpoint.pin("gold", 2)
    live.end(QueryState.STOPPED)
    if operator is CopyCheckpointOperator:
        others = {"target_location": str(tmp_path / "copy")}
    said = {"checkpoint_location": live.location, **others, name: "{{ what }}"}

    refused(operator(task_id="t", **said), context, name)

    assert live.checkpoint.epochs() == list(range(5))
    assert [pin.name for pin in live.checkpoint.pins()] == ["gold"]
    assert not (tmp_path / "copy").exists()


def test_nothing_is_pruned_where_many_are(
    live: LiveCheckpoint, context: Any, tmp_path: Path
) -> None:
    live.commit(*range(5))
    task = PruneCheckpointOperator(
        task_id="t",
        checkpoint_location=f"{tmp_path}/*",
        keep_epochs=2,
        storage_conn_id="{{ what }}",
    )

    refused(task, context, "storage_conn_id")

    assert live.checkpoint.epochs() == list(range(5))


SENSORS: list[tuple[Any, dict[str, Any]]] = [
    (EpochCommittedSensor, {"epoch": 0}),
    (OffsetsCommittedSensor, {"offsets": {"0": 1}}),
    (WatermarkSensor, {"at": "2026-11-24T00:00:00Z"}),
    (QueryHealthSensor, {}),
]


@pytest.mark.parametrize("how", [{"deferrable": True}, {"mode": "poke"}, {"mode": "reschedule"}])
@pytest.mark.parametrize(("sensor", "others"), SENSORS)
def test_no_checkpoint_of_another_storage_is_waited_for(
    live: LiveCheckpoint, context: Any, sensor: Any, others: dict[str, Any], how: dict[str, Any]
) -> None:
    live.commit(0)
    location = {"checkpoint_location": live.location, "storage_conn_id": "{{ what }}"}

    task = sensor(task_id="t", timeout=0, **location, **others, **how)

    refused(task, context, "storage_conn_id")


@pytest.mark.parametrize(("sensor", "others"), SENSORS)
def test_nor_in_the_triggerer(live: LiveCheckpoint, sensor: Any, others: dict[str, Any]) -> None:
    """Which renders what it has started itself."""
    live.commit(0)
    trigger = sensor(
        task_id="t", checkpoint_location=live.location, storage_conn_id="{{ what }}", **others
    ).own_trigger()
    trigger.storage_conn_id = None

    event = trigger.observe()

    assert event is not None
    assert event["outcome"] == "error"
    assert event["error"].startswith("storage_conn_id is None, though the DAG says it")


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
