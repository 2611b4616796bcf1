"""TaskMemory where Airflow has no task state store: before 3.3."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from airflow_provider_continuous import compat
from airflow_provider_continuous.compat import AirflowFailException
from airflow_provider_continuous.operators.query import (
    RestartContinuousQueryOperator,
    StartContinuousQueryOperator,
    UpgradeContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor
from airflow_provider_continuous.tasks.memory import TaskMemory
from tests.airflow.live_checkpoint import LiveCheckpoint


@pytest.fixture
def old_context(context: Any) -> Any:
    """A task's context without the store."""
    del context["task_state_store"]
    return context


def test_nothing_is_recalled(old_context: Any) -> None:
    memory = TaskMemory(old_context)

    memory.remember("it", 1)

    assert memory.recall("it") is None


def test_a_sensor_waits_from_now_on(old_context: Any, live: LiveCheckpoint) -> None:
    live.commit(0, 1)
    sensor = EpochCommittedSensor(
        task_id="wait", checkpoint_location=live.location, epochs_from_now=2, mode="poke"
    )

    assert sensor.make_trigger(old_context).epoch == 3


def test_a_rescheduled_sensor_would_never_end_and_is_refused(
    old_context: Any, live: LiveCheckpoint
) -> None:
    sensor = EpochCommittedSensor(
        task_id="wait", checkpoint_location=live.location, epochs_from_now=2, mode="reschedule"
    )

    with pytest.raises(AirflowFailException, match=r"came with Airflow 3\.3"):
        sensor.execute({**old_context, "task": sensor})


@pytest.mark.parametrize(
    "operator",
    [
        RestartContinuousQueryOperator,
        UpgradeContinuousQueryOperator,
        partial(StartContinuousQueryOperator, on_running="replace"),
    ],
)
def test_what_must_not_be_forgotten_half_way_is_refused_before_it_begins(
    operator: Any, old_context: Any, live: LiveCheckpoint, spec: dict[str, Any]
) -> None:
    live.hold("run-1")
    task = operator(task_id="change", spec=spec, checkpoint_location=live.location)

    with pytest.raises(AirflowFailException, match=r"came with Airflow 3\.3"):
        task.execute(old_context)

    assert live.checkpoint.requests.pending("run-1") is None


def test_a_name_that_older_versions_lack_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(compat), "AdvanceItem", raising=False)

    with pytest.raises(ImportError, match=r"AdvanceItem came with Airflow 3\.3"):
        from airflow_provider_continuous.compat import AdvanceItem  # noqa: F401
