"""Operators and the sensor on queries that Spark itself runs, in real processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_continuous.deploy.submitted import SubmittedQuery
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor

pytestmark = pytest.mark.spark
WAIT_S = 180


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[SubmittedQuery]]:
    """Every process that was started; none is left at the end."""
    started: list[SubmittedQuery] = []
    really_submit = ContinuousQueryHook.submit

    def submit(hook: ContinuousQueryHook, *given: Any) -> SubmittedQuery:
        started.append(really_submit(hook, *given))
        return started[-1]

    monkeypatch.setattr(ContinuousQueryHook, "submit", submit)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    yield started
    for query in started:
        query.process.kill()
        query.process.wait()


def start(spec: dict[str, Any], context: Any, **arguments: Any) -> dict[str, Any]:
    task = StartContinuousQueryOperator(
        task_id="start", spec=spec, deferrable=False, timeout=WAIT_S, **arguments
    )
    return task.execute(context)


def another_dag_run(context: Any) -> Any:
    store = type(context["task_state_store"])()
    return {**context, "run_id": "another_run", "task_state_store": store}


def test_a_query_of_micro_batches_from_start_to_drain(
    spec: dict[str, Any], submitted: list[SubmittedQuery], context: Any
) -> None:
    spec["trigger"] = {"processingTime": "100 milliseconds"}
    spec["conf"] = {"spark.master": "local[2]"}
    location = spec["checkpoint_location"]

    started = start(spec, context)
    adopted = start(spec, another_dag_run(context), wait_for=started["epoch"] + 2)
    sensor = EpochCommittedSensor(
        task_id="wait",
        checkpoint_location=location,
        epoch=adopted["epoch"] + 2,
        timeout=WAIT_S,
        deferrable=False,
    )
    seen = sensor.execute(context)
    drain = DrainContinuousQueryOperator(
        task_id="drain", checkpoint_location=location, deferrable=False, timeout=WAIT_S
    )
    drained = drain.execute(context)

    assert adopted["run_id"] == started["run_id"]
    assert len(submitted) == 1
    assert seen["epoch"] == adopted["epoch"] + 2
    assert (drained["state"], drained["run_id"]) == ("STOPPED", started["run_id"])
    assert drained["epoch"] >= seen["epoch"]
    assert submitted[0].process.wait(WAIT_S) == 0
    assert ContinuousQueryHook().find(location) is None
